"""The flat form, the older record form, read into a program.

    {"teir_flat": 1, "data_type": "FP32", "prim_first": "Zero", "prim_main": "GEMM",
     "prim_last": "None", "dim_types": ["K", "M", "N", "K"], "exec_types": ["seq", "prim", ...],
     "dim_sizes": [...], "strides": [[...], [...], [...]]}        strides in elements, T rows of D

The axes that are not primitive form a chain in their order; its leaf holds first, main and last.
First (last) runs where every iterated axis with stride 0 on ``out`` is at its first (last) index:
those are the axes that come back to the same output tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from msgspec import Struct

from teir.dtypes import DataType
from teir.errors import Finding, RecordPlace, TeirError
from teir.ir.flat_rules import FLAT_RULES, FLAT_VERSION, Flat
from teir.ir.limits import LISTED_FINDINGS, SCHEDULE_DEPTH
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Tensor,
)
from teir.ir.reading_rules import DEPTH
from teir.ir.record_reading import read_record


class FlatRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of the flat form; JSON null is read as None."""

    teir_flat: int
    data_type: str
    prim_first: str | None
    prim_main: str | None
    prim_last: str | None
    dim_types: tuple[str, ...]
    exec_types: tuple[str, ...]
    dim_sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def program_from_flat(document: dict[str, Any]) -> Program:
    """The program of a decoded flat file. Raises `TeirError` with every finding."""
    findings: list[Finding] = []
    record = read_record(document, FlatRecord, "$", findings)
    if record is None:
        raise TeirError(tuple(findings[: LISTED_FINDINGS.largest]))
    if record.teir_flat != 1:
        findings.append(
            Finding(
                rule=FLAT_VERSION,
                place=RecordPlace(path="$.teir_flat"),
                expected="1",
                found=str(record.teir_flat),
            )
        )
    flat = Flat(
        data_type=record.data_type,
        prim_first=record.prim_first or "None",
        prim_main=record.prim_main or "None",
        prim_last=record.prim_last or "None",
        dim_types=record.dim_types,
        exec_types=record.exec_types,
        dim_sizes=record.dim_sizes,
        strides=record.strides,
        strides_path="$.strides",
    )
    return program_of(flat, findings)


def program_of(flat: Flat, findings: Iterable[Finding] = ()) -> Program:
    """The program of a configuration; ``findings`` of an earlier step are raised with its own."""
    broken = [*findings]
    for _, rule in FLAT_RULES:
        broken.extend(islice(rule(flat), LISTED_FINDINGS.largest))
    iterated = sum(policy != "prim" for policy in flat.exec_types)
    if iterated >= SCHEDULE_DEPTH.largest:
        broken.append(
            Finding(
                rule=DEPTH,
                place=RecordPlace(path="$.exec_types"),
                expected=f"at most {SCHEDULE_DEPTH.largest - 1} axes that are not prim",
                found=str(iterated),
            )
        )
    if broken:
        raise TeirError(tuple(broken[: LISTED_FINDINGS.largest]))
    return _build(flat)


def _build(flat: Flat) -> Program:
    data_type = DataType[flat.data_type]
    names = _axis_names(flat.dim_types)
    roots = _leaves(flat, names)
    for index in reversed(range(len(names))):
        if flat.exec_types[index] != "prim":
            policy = Policy.PARALLEL if flat.exec_types[index] == "parallel" else Policy.SEQUENTIAL
            name = names[index]
            roots = (IterationNode(name=name, axis=name, policy=policy, children=roots),)
    return Program(
        name=flat.prim_main,
        tensors=tuple(Tensor(name=name, data_type=data_type) for name in flat.tensors),
        axes=tuple(_axis(flat, index, name, data_type) for index, name in enumerate(names)),
        primitives=_primitives(flat, names, data_type),
        roots=roots,
    )


def _axis_names(dim_types: tuple[str, ...]) -> tuple[str, ...]:
    """m0, m1, n0, …: the type of the axis and its number among those of its type."""
    seen: Counter[str] = Counter()
    names = []
    for type_ in dim_types:
        names.append(f"{type_.lower()}{seen[type_]}")
        seen[type_] += 1
    return tuple(names)


def _axis(flat: Flat, index: int, name: str, data_type: DataType) -> Axis:
    strides = {
        tensor: row[index] * data_type.width
        for tensor, row in zip(flat.tensors, flat.strides, strict=True)
    }
    return Axis(name=name, extent=flat.dim_sizes[index], strides=Bytes(strides))


def _leaves(flat: Flat, names: tuple[str, ...]) -> tuple[Node, ...]:
    returning = [
        name
        for name, policy, stride in zip(names, flat.exec_types, flat.strides[-1], strict=True)
        if policy != "prim" and stride == 0
    ]
    leaves = [InvocationNode(name="main", primitive=flat.prim_main.lower())]
    if flat.prim_first != "None":
        guard = _guard(GuardKind.FIRST, returning)
        first = InvocationNode(name="first", primitive=flat.prim_first.lower(), guard=guard)
        leaves.insert(0, first)
    if flat.prim_last != "None":
        guard = _guard(GuardKind.LAST, returning)
        last = InvocationNode(name="last", primitive=flat.prim_last.lower(), guard=guard)
        leaves.append(last)
    return tuple(leaves)


def _guard(kind: GuardKind, axes: list[str]) -> tuple[GuardTerm, ...]:
    return tuple(GuardTerm(kind=kind, axis=axis) for axis in axes)


def _primitives(flat: Flat, names: tuple[str, ...], data_type: DataType) -> tuple[Primitive, ...]:
    """First, main and last, each once."""
    used = dict.fromkeys((flat.prim_first, flat.prim_main, flat.prim_last))
    m, n = _tile(flat, names)
    k = tuple(names[index] for index in flat.primitive_axes("K"))
    primitives = []
    for name in used:
        if name == "None":
            continue
        operation, inputs = _operation(name, flat.is_contraction)
        primitives.append(
            Primitive(
                name=name.lower(),
                operation=operation,
                inputs=inputs,
                output="out",
                m=m,
                n=n,
                k=k if operation is Operation.CONTRACTION else (),
                data_type=data_type,
            )
        )
    return tuple(primitives)


def _operation(name: str, is_contraction: bool) -> tuple[Operation, tuple[str, ...]]:
    match name:
        case "Zero":
            return Operation.ZERO, ()
        case "Copy":
            return Operation.COPY, ("in0",)
        case "ReLU":
            return Operation.RELU, ("out",) if is_contraction else ("in0",)
        case _:
            return Operation.CONTRACTION, ("in0", "in1")


def _tile(flat: Flat, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The M and N axes; of the C axes of a unary operation, M is the one contiguous on in0."""
    if flat.is_contraction:
        m = tuple(names[index] for index in flat.primitive_axes("M"))
        return m, tuple(names[index] for index in flat.primitive_axes("N"))
    axes = flat.primitive_axes("C")
    if not axes:
        return (), ()
    rows = next((index for index in axes if flat.strides[0][index] == 1), axes[0])
    return (names[rows],), tuple(names[index] for index in axes if index != rows)
