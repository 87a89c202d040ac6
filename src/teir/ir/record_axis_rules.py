"""Axis rules of section 10.5 on the entries of a record file, one function per rule."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from teir.errors import Finding
from teir.ir.name_rules import NameSpace
from teir.ir.nodes import LIMIT
from teir.ir.record_entries import Entries, Entry
from teir.ir.record_form import AxisRecord
from teir.ir.record_rules import (
    EXTENT_POSITIVE,
    ONE_PER_TENSOR,
    STRIDE_NOT_NEGATIVE,
    VALUE_RANGE,
    WHOLE_ELEMENTS,
)


def vectors(axis: AxisRecord) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The vectors an axis gives, by field name."""
    if axis.offsets is UNSET:
        return (("strides", axis.strides),)
    return (("strides", axis.strides), ("offsets", axis.offsets))


def extent_positive(entries: Entries) -> Iterator[Finding]:
    """Every axis extent is positive."""
    for entry in entries.axes:
        if entry.record.extent <= 0:
            yield Finding(
                rule=EXTENT_POSITIVE,
                place=entry.place(".extent"),
                expected="a positive integer",
                found=str(entry.record.extent),
            )


def one_per_tensor(entries: Entries) -> Iterator[Finding]:
    """Every axis has one stride and one offset per tensor in the operation."""
    if NameSpace.TENSOR not in entries.complete:
        return
    count = len(entries.tensors)
    for entry in entries.axes:
        for field, values in vectors(entry.record):
            if len(values) != count:
                yield Finding(
                    rule=ONE_PER_TENSOR,
                    place=entry.place(f".{field}"),
                    expected=f"{count} values, one per tensor",
                    found=f"{len(values)}",
                )


def stride_not_negative(entries: Entries) -> Iterator[Finding]:
    """Strides are non-negative byte counts."""
    for entry in entries.axes:
        for index, stride_bytes in enumerate(entry.record.strides):
            if stride_bytes < 0:
                yield Finding(
                    rule=STRIDE_NOT_NEGATIVE,
                    place=entry.place(f".strides[{index}]"),
                    expected="zero or more",
                    found=str(stride_bytes),
                    hint="walk the axis the other way round, or copy the tensor",
                )


def value_range(entries: Entries) -> Iterator[Finding]:
    """Extents, strides and offsets stay below 2^62 in magnitude."""
    for entry in entries.axes:
        if entry.record.extent >= LIMIT:
            yield _beyond(entry, ".extent", entry.record.extent)
        for field, values in vectors(entry.record):
            for index, value in enumerate(values):
                if not -LIMIT < value < LIMIT:
                    yield _beyond(entry, f".{field}[{index}]", value)


def whole_elements(entries: Entries) -> Iterator[Finding]:
    """Strides and offsets are multiples of the tensor's element width."""
    if NameSpace.TENSOR not in entries.complete:
        return
    tensors = [(str(entry.record.id), entry.record.data_type) for entry in entries.tensors]
    for entry in entries.axes:
        for field, values in vectors(entry.record):
            for index, (value, (name, data_type)) in enumerate(zip(values, tensors, strict=False)):
                if value % data_type.width:
                    yield Finding(
                        rule=WHOLE_ELEMENTS,
                        place=entry.place(f".{field}[{index}]"),
                        expected=(
                            f"a multiple of {data_type.width} bytes, the width of "
                            f"{data_type.value}, the type of {name}"
                        ),
                        found=str(value),
                        hint="strides and offsets are bytes, not elements",
                    )


def _beyond(entry: Entry[AxisRecord], field: str, value: int) -> Finding:
    return Finding(
        rule=VALUE_RANGE,
        place=entry.place(field),
        expected="less than 2^62 in magnitude",
        found=str(value),
    )


AXIS_RULES = (
    (EXTENT_POSITIVE, extent_positive),
    (ONE_PER_TENSOR, one_per_tensor),
    (STRIDE_NOT_NEGATIVE, stride_not_negative),
    (VALUE_RANGE, value_range),
    (WHOLE_ELEMENTS, whole_elements),
)
