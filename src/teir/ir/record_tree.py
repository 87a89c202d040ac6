"""The tree of a record file whose entries obey every rule."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from teir.ir.name_rules import NameSpace
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Primitive,
    Program,
    Role,
    Segment,
    Tensor,
)
from teir.ir.record_entries import Entries, Entry
from teir.ir.record_form import AxisRecord, GuardRecord, IterationRecord, PrimitiveRecord
from teir.ir.record_primitive_rules import (
    Operands,
    default_inputs,
    default_operands,
    given_operands,
    has_contraction,
    role_axes,
)


def build_program(entries: Entries) -> Program:
    """The program; operand defaults are resolved here."""
    assert entries.complete == frozenset(NameSpace)
    tensors = [
        (entry.record.scratch, Tensor(name=str(entry.record.id), data_type=entry.record.data_type))
        for entry in entries.tensors
    ]
    owned: dict[str, list[Tensor]] = {}
    for owner, tensor in tensors:
        if isinstance(owner, str):
            owned.setdefault(owner, []).append(tensor)
    order = tuple(tensor.name for _, tensor in tensors)
    return Program(
        name=entries.name,
        tensors=tuple(tensor for owner, tensor in tensors if owner is UNSET),
        scratch=tuple(tensor for owner, tensor in tensors if owner is None),
        axes=tuple(_axis(entry.record, order) for entry in entries.axes),
        primitives=_primitives(entries),
        roots=_roots(entries, owned),
    )


def _axis(record: AxisRecord, order: tuple[str, ...]) -> Axis:
    offsets = () if record.offsets is UNSET else record.offsets
    return Axis(
        name=str(record.id),
        extent=record.extent,
        strides=Bytes(dict(zip(order, record.strides, strict=True))),
        offsets=Bytes(dict(zip(order, offsets, strict=False))),
        segments=tuple(
            Segment(
                pos=str(segment.pos),
                crd=str(segment.crd),
                by_position=tuple(map(str, segment.by_position)),
            )
            for segment in record.segments
        ),
    )


def _primitives(entries: Entries) -> tuple[Primitive, ...]:
    inputs = default_inputs(entries) or ()
    contracts = has_contraction(entries)
    primitives = []
    for entry in entries.primitives:
        operands = given_operands(entry.record) or default_operands(
            entry.record.operation, inputs, contracts
        )
        assert operands is not None
        primitives.append(_primitive(entry, operands, entries.metadata.get(entry.path, {})))
    return tuple(primitives)


def _primitive(
    entry: Entry[PrimitiveRecord], operands: Operands, metadata: dict[str, Any]
) -> Primitive:
    record = entry.record
    declared = UNSET if record.metadata is UNSET else record.metadata.data_type
    return Primitive(
        name=str(record.id),
        operation=record.operation,
        inputs=operands[0],
        output=operands[1],
        c=role_axes(record, Role.C),
        m=role_axes(record, Role.M),
        n=role_axes(record, Role.N),
        k=role_axes(record, Role.K),
        data_type=None if declared is UNSET else declared,
        metadata=tuple(
            (key, msgspec.json.encode(metadata[key]).decode())
            for key in sorted(metadata)
            if key not in ("data_type", "operands")
        ),
    )


def _roots(entries: Entries, owned: dict[str, list[Tensor]]) -> tuple[Node, ...]:
    """Children are built before their parent, without recursion."""
    iterations = {str(entry.record.id): entry.record for entry in entries.iterations}
    built: dict[str, Node] = {}
    for entry in entries.invocations:
        name = str(entry.record.id)
        guard = _guard(entry.record.guard)
        built[name] = InvocationNode(name=name, primitive=str(entry.record.primitive), guard=guard)
    stack = list(entries.roots)
    while stack:
        name = stack[-1]
        if name in built:
            stack.pop()
            continue
        missing = [child for child in map(str, iterations[name].children) if child not in built]
        if missing:
            stack.extend(missing)
            continue
        built[name] = _iteration(iterations[name], built, tuple(owned.get(name, ())))
    return tuple(built[name] for name in entries.roots)


def _iteration(
    record: IterationRecord, built: dict[str, Node], scratch: tuple[Tensor, ...]
) -> IterationNode:
    return IterationNode(
        name=str(record.id),
        axis=str(record.axis),
        policy=record.policy,
        children=tuple(built[str(child)] for child in record.children),
        guard=_guard(record.guard),
        scratch=scratch,
    )


def _guard(terms: tuple[GuardRecord, ...] | None) -> tuple[GuardTerm, ...]:
    return tuple(
        GuardTerm(kind=GuardKind.FIRST, axis=str(term.first))
        if term.first is not UNSET
        else GuardTerm(kind=GuardKind.LAST, axis=str(term.last))
        for term in terms or ()
    )
