"""Configurations of the package ``etops`` (``TensorOperationConfig.to_json``) read as programs.

They are the flat form in lower case, with ``shared`` for parallel, and strides with a leading
level dimension. Level 0 is the memory layout and is used; further levels describe packing, which
a program states with scratch: they are left out with a warning. ``sfc`` (a space-filling curve)
is read as parallel, as its order is free. ``backend`` is ignored.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from teir.errors import Finding, RecordPlace, Rule, TeirError
from teir.ir.flat import program_of
from teir.ir.flat_rules import (
    DIM_TYPE,
    EXEC_TYPE,
    FLAT_DATA_TYPE,
    PRIM_FIRST,
    PRIM_LAST,
    PRIM_MAIN,
    Flat,
)
from teir.ir.limits import LISTED_FINDINGS
from teir.ir.name_rules import shown
from teir.ir.nodes import Program
from teir.ir.record_reading import read_record

CURVE_ON_K = Rule(
    code="TEIR231",
    sentence="sfc, which is read as parallel, does not stand on an axis of type k.",
    source="language reference, etops",
)
LEVEL_ZERO = Rule(
    code="TEIR232",
    sentence="The strides have a level 0, the memory layout.",
    source="language reference, etops",
)
ETOPS_RULES = (CURVE_ON_K, LEVEL_ZERO)

_DATA_TYPES = {"float32": "FP32", "float64": "FP64"}
_PRIMITIVES = {
    "none": "None",
    "zero": "Zero",
    "copy": "Copy",
    "relu": "ReLU",
    "gemm": "GEMM",
    "brgemm": "BRGEMM",
}
_DIM_TYPES = {"c": "C", "m": "M", "n": "N", "k": "K"}
_EXEC_TYPES = {"seq": "seq", "prim": "prim", "shared": "parallel", "sfc": "parallel"}


class EtopsRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of an etops configuration."""

    backend: str = ""
    data_type: str
    prim_first: str
    prim_main: str
    prim_last: str
    dim_types: tuple[str, ...]
    exec_types: tuple[str, ...]
    dim_sizes: tuple[int, ...]
    strides: tuple[tuple[tuple[int, ...], ...], ...]


def program_from_etops(document: dict[str, Any]) -> Program:
    """The program of a decoded etops file. Raises `TeirError` with every finding."""
    findings: list[Finding] = []
    record = read_record(document, EtopsRecord, "$", findings)
    if record is None:
        raise TeirError(tuple(findings[: LISTED_FINDINGS.largest]))
    findings.extend(islice(_domain_findings(record), LISTED_FINDINGS.largest))
    findings.extend(islice(_curves_on_k(record), LISTED_FINDINGS.largest))
    if not record.strides:
        findings.append(_finding(LEVEL_ZERO, "$.strides", "at least one level", "none"))
    if findings:
        raise TeirError(tuple(findings[: LISTED_FINDINGS.largest]))
    program = program_of(_flat(record))
    if len(record.strides) > 1:
        warnings.warn(
            f"strides has {len(record.strides)} levels; level 0 is used, the others are left out",
            stacklevel=2,
        )
    return program


def _flat(record: EtopsRecord) -> Flat:
    return Flat(
        data_type=_DATA_TYPES[record.data_type],
        prim_first=_PRIMITIVES[record.prim_first],
        prim_main=_PRIMITIVES[record.prim_main],
        prim_last=_PRIMITIVES[record.prim_last],
        dim_types=tuple(_DIM_TYPES[type_] for type_ in record.dim_types),
        exec_types=tuple(_EXEC_TYPES[type_] for type_ in record.exec_types),
        dim_sizes=record.dim_sizes,
        strides=record.strides[0],
        strides_path="$.strides[0]",
    )


def _domain_findings(record: EtopsRecord) -> Iterator[Finding]:
    fields: tuple[tuple[Rule, str, str, Mapping[str, str]], ...] = (
        (FLAT_DATA_TYPE, "$.data_type", record.data_type, _DATA_TYPES),
        (PRIM_FIRST, "$.prim_first", record.prim_first, _PRIMITIVES),
        (PRIM_MAIN, "$.prim_main", record.prim_main, _PRIMITIVES),
        (PRIM_LAST, "$.prim_last", record.prim_last, _PRIMITIVES),
    )
    vectors: tuple[tuple[Rule, str, tuple[str, ...], Mapping[str, str]], ...] = (
        (DIM_TYPE, "$.dim_types", record.dim_types, _DIM_TYPES),
        (EXEC_TYPE, "$.exec_types", record.exec_types, _EXEC_TYPES),
    )
    for rule, path, value, known in fields:
        if value not in known:
            yield _finding(rule, path, f"one of {', '.join(known)}", shown(value))
    for rule, path, values, known in vectors:
        for index, value in enumerate(values):
            if value not in known:
                expected = f"one of {', '.join(known)}"
                yield _finding(rule, f"{path}[{index}]", expected, shown(value))


def _curves_on_k(record: EtopsRecord) -> Iterator[Finding]:
    axes = zip(record.exec_types, record.dim_types, strict=False)
    for index, (policy, type_) in enumerate(axes):
        if policy == "sfc" and type_ == "k":
            expected = "seq or prim on an axis of type k"
            yield _finding(CURVE_ON_K, f"$.exec_types[{index}]", expected, "sfc")


def _finding(rule: Rule, path: str, expected: str, found: str) -> Finding:
    return Finding(rule=rule, place=RecordPlace(path=path), expected=expected, found=found)
