"""Checks of bound index arrays: what no one can know before the arrays are there (G11).

Per segment, every pair of bounds the enclosing axes can address is read and compared, then every
coordinate between them. Where all hold, the positions each sparse axis may visit are known, and
with them the bytes of the tensors addressed by position.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from teir.arrays.operand import BoundOperand
from teir.errors import Finding, Part, Rule
from teir.ir.check.access import position_segment
from teir.ir.check.bounds import Positions
from teir.ir.check.report import blame
from teir.ir.check.resolved import Iteration, Resolved, path_of
from teir.ir.nodes import Axis, Segment

POS_INSIDE = Rule(
    code="TEIR410",
    sentence="The bounds of every segment lie inside the pos array.",
    source="docs/design.md 3 (a), docs/safety.md G11",
)
POS_MONOTONE = Rule(
    code="TEIR411",
    sentence="Segment bounds are non-negative and do not decrease from segment to segment.",
    source="docs/safety.md G11",
)
CRD_INSIDE = Rule(
    code="TEIR412",
    sentence="The positions of every segment lie inside the crd array.",
    source="docs/design.md 3 (a), docs/safety.md G11",
)
CRD_RANGE = Rule(
    code="TEIR413",
    sentence="Coordinates are at least 0 and below the extent of their axis.",
    source="docs/design.md 2, sparse iteration",
)
CRD_ASCENDING = Rule(
    code="TEIR414",
    sentence="The coordinates of a segment ascend, each once.",
    source="docs/design.md 2, sparse iteration",
)
INDICES_DECIDED = Rule(
    code="TEIR415",
    sentence=f"The enclosing axes address at most {2**24} segments of one sparse axis.",
    source="docs/safety.md G11",
)

INDEX_ARRAY_RULES = (
    POS_INSIDE,
    POS_MONOTONE,
    CRD_INSIDE,
    CRD_RANGE,
    CRD_ASCENDING,
    INDICES_DECIDED,
)

_SEGMENTS = 2**24
_BLOCK = 2**20
"""Coordinates looked at together."""

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True, eq=False)
class _Bytes:
    """The bytes of an index array as integers at any byte offset from its base."""

    name: str
    low: int
    high: int
    data: np.ndarray[Any, np.dtype[np.uint8]]
    dtype: np.dtype[Any]

    def holds(self, begin: int, end: int) -> bool:
        return self.low <= begin and end <= self.high

    def load(self, addresses: Integers) -> Integers:
        width = self.dtype.itemsize
        lanes = (addresses - self.low)[:, None] + np.arange(width)
        values: Integers = self.data[lanes].view(self.dtype)[:, 0].astype(np.int64)
        return values


def positions_of(
    resolved: Resolved, operands: Mapping[str, BoundOperand]
) -> tuple[list[Finding], Positions]:
    """Findings about the bound index arrays, and the positions each sparse axis may visit."""
    findings: list[Finding] = []
    positions: dict[str, list[tuple[int, int]]] = {}
    for step in resolved.iterations:
        axis = step.axis
        assert axis is not None
        for number, segment in enumerate(axis.segments):
            if segment.pos not in operands or segment.crd not in operands:
                continue
            finding, visited = _segment(resolved, step, segment, operands, positions)
            known = positions.setdefault(axis.name, [(0, 0)] * len(axis.segments))
            known[number] = _hull(known[number], visited)
            if finding is not None:
                findings.append(finding)
    return findings, {name: tuple(ranges) for name, ranges in positions.items()}


def _hull(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    if one[0] == one[1]:
        return other
    if other[0] == other[1]:
        return one
    return min(one[0], other[0]), max(one[1], other[1])


def _segment(
    resolved: Resolved,
    step: Iteration,
    segment: Segment,
    operands: Mapping[str, BoundOperand],
    positions: Mapping[str, list[tuple[int, int]]],
) -> tuple[Finding | None, tuple[int, int]]:
    axis = step.axis
    assert axis is not None
    pos = _bytes(resolved, operands[segment.pos])
    crd = _bytes(resolved, operands[segment.crd])
    walks = _walks(step, segment, positions)
    if prod(walk.end - walk.begin for walk in walks) > _SEGMENTS:
        expected, found = f"at most {_SEGMENTS} segments", f"more for axis {axis.name}"
        return blame(INDICES_DECIDED, Part.AXIS, axis.name, expected, found), (0, 0)
    if any(walk.end == walk.begin for walk in walks):
        return None, (0, 0)
    width = pos.dtype.itemsize
    begin = sum(above.offsets[segment.pos] for above in _axes_above(step))
    low = begin + sum(walk.pos_stride * walk.begin for walk in walks)
    high = begin + sum(walk.pos_stride * (walk.end - 1) for walk in walks) + 2 * width
    if not pos.holds(low, high):
        expected = f"bytes {low} to {high - 1} of {segment.pos}"
        found = f"bytes {pos.low} to {pos.high - 1}"
        return blame(POS_INSIDE, Part.AXIS, axis.name, expected, found), (0, 0)
    begins, bases = np.array([begin], np.int64), np.array([0], np.int64)
    for walk in walks:
        indices = np.arange(walk.begin, walk.end, dtype=np.int64)
        begins = np.add.outer(begins, walk.pos_stride * indices).ravel()
        bases = np.add.outer(bases, walk.crd_stride * indices).ravel()
    order = np.argsort(begins, kind="stable")
    begins, bases = begins[order], bases[order]
    first, last = pos.load(begins), pos.load(begins + width)
    finding = _monotone(axis, segment, begins, first, last, width)
    if finding is not None:
        return finding, (0, 0)
    offset = sum(above.offsets[segment.crd] for above in (axis, *_axes_above(step)))
    finding = _coordinates(axis, segment, crd, offset, bases, first, last)
    return finding, (0, 0) if finding else (int(first.min()), int(last.max()))


def _bytes(resolved: Resolved, operand: BoundOperand) -> _Bytes:
    size = operand.before_bytes + operand.after_bytes
    begin = operand.address - operand.before_bytes
    memory = (ctypes.c_uint8 * size).from_address(begin) if size else bytearray()
    data = np.frombuffer(memoryview(memory), np.uint8)
    dtype = resolved.tensors[operand.name].data_type.numpy_dtype()
    return _Bytes(operand.name, -operand.before_bytes, operand.after_bytes, data, dtype)


@dataclass(slots=True, eq=False)
class _Walk:
    """An enclosing axis that moves pos or crd: its indices [begin, end)."""

    begin: int
    end: int
    pos_stride: int
    crd_stride: int


def _walks(
    step: Iteration, segment: Segment, positions: Mapping[str, list[tuple[int, int]]]
) -> list[_Walk]:
    walks = []
    for axis in _axes_above(step):
        pos_stride, crd_stride = axis.strides[segment.pos], axis.strides[segment.crd]
        if pos_stride or crd_stride:
            begin, end = _indices(axis, segment.pos, positions)
            walks.append(_Walk(begin, end, pos_stride, crd_stride))
    return walks


def _axes_above(step: Iteration) -> list[Axis]:
    return [above.axis for above in path_of(step) if above.axis is not None]


def _indices(
    axis: Axis, tensor: str, positions: Mapping[str, list[tuple[int, int]]]
) -> tuple[int, int]:
    number = position_segment(axis, tensor)
    if number is None:
        return 0, axis.extent
    return positions[axis.name][number] if axis.name in positions else (0, 0)


def _monotone(
    axis: Axis, segment: Segment, begins: Integers, first: Integers, last: Integers, width: int
) -> Finding | None:
    ordered = (first >= 0) & (last >= first)
    ordered[:-1] &= (begins[1:] == begins[:-1]) | (first[1:] >= last[:-1])
    if ordered.all():
        return None
    number = int(np.argmin(ordered))
    if first[number] < 0:
        found = f"{segment.pos} holds {first[number]} at byte {begins[number]}"
    elif last[number] < first[number]:
        found = (
            f"{segment.pos} holds {first[number]} at byte {begins[number]} and "
            f"{last[number]} at byte {begins[number] + width}"
        )
    else:
        found = f"the segment at byte {begins[number]} of {segment.pos} overlaps the next one"
    return blame(POS_MONOTONE, Part.AXIS, axis.name, "bounds from 0 on that do not decrease", found)


def _coordinates(
    axis: Axis,
    segment: Segment,
    crd: _Bytes,
    offset: int,
    bases: Integers,
    first: Integers,
    last: Integers,
) -> Finding | None:
    is_filled = last > first
    first, last, bases = first[is_filled], last[is_filled], bases[is_filled]
    if first.size == 0:
        return None
    stride = axis.strides[segment.crd]
    low = offset + int(bases.min()) + stride * int(first.min())
    high = offset + int(bases.max()) + stride * (int(last.max()) - 1) + crd.dtype.itemsize
    if not crd.holds(low, high):
        expected = f"bytes {low} to {high - 1} of {segment.crd} (positions below {last.max()})"
        found = f"bytes {crd.low} to {crd.high - 1}"
        return blame(CRD_INSIDE, Part.AXIS, axis.name, expected, found)
    if stride == 0 and int((last - first).max()) > 1:
        expected = f"ascending coordinates in {segment.crd}"
        found = "stride 0 on it: one coordinate for every position"
        return blame(CRD_ASCENDING, Part.AXIS, axis.name, expected, found)
    blocks = np.cumsum(last - first) // _BLOCK
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    for begin, end in zip(starts, (*starts[1:], first.size), strict=True):
        part = slice(begin, end)
        finding = _block(axis, segment, crd, offset + bases[part], first[part], last[part])
        if finding is not None:
            return finding
    return None


def _block(
    axis: Axis, segment: Segment, crd: _Bytes, bases: Integers, first: Integers, last: Integers
) -> Finding | None:
    """The coordinates of some segments, all of them filled."""
    counts = last - first
    starts = np.cumsum(counts) - counts
    positions = np.arange(int(counts.sum())) + np.repeat(first - starts, counts)
    values = crd.load(np.repeat(bases, counts) + axis.strides[segment.crd] * positions)
    inside = (values >= 0) & (values < axis.extent)
    if not inside.all():
        place = int(np.argmin(inside))
        found = f"{values[place]} at position {positions[place]} of {segment.crd}"
        expected = f"coordinates 0 to {axis.extent - 1}"
        return blame(CRD_RANGE, Part.AXIS, axis.name, expected, found)
    ascending = np.ones(values.size, bool)
    ascending[1:] = values[1:] > values[:-1]
    ascending[starts] = True
    if ascending.all():
        return None
    place = int(np.argmin(ascending))
    found = f"{values[place]} after {values[place - 1]} at position {positions[place]}"
    expected = f"ascending coordinates in {segment.crd}"
    return blame(CRD_ASCENDING, Part.AXIS, axis.name, expected, found)
