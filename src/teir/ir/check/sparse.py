"""Rules about sparse axes (docs/design.md 2, sparse iteration)."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.errors import Finding, Part, Rule
from teir.ir.check.report import RuleCheck, blame
from teir.ir.check.resolved import Resolved

SEGMENT_TYPES = Rule(
    code="TEIR335",
    sentence="pos and crd of a segment have type I32 or I64.",
    source="docs/design.md 2, sparse iteration",
)
SPARSE_ITERATED = Rule(
    code="TEIR336",
    sentence="Axes with segments are iterated, never consumed.",
    source="docs/design.md 2, sparse iteration",
)
SEGMENT_ADDRESS = Rule(
    code="TEIR337",
    sentence="An axis does not move the pos arrays of its own segments.",
    source="docs/design.md 2, sparse iteration",
)
ONE_POSITION = Rule(
    code="TEIR338",
    sentence="A tensor is addressed by the position of at most one segment of an axis.",
    source="docs/design.md 2, sparse iteration",
)


def segment_types(resolved: Resolved) -> list[Finding]:
    tensors = resolved.tensors
    return [
        blame(
            SEGMENT_TYPES,
            Part.AXIS,
            axis.name,
            f"{name} of type I32 or I64",
            tensors[name].data_type.value,
        )
        for axis in resolved.sparse
        for segment in axis.segments
        for name in (segment.pos, segment.crd)
        if name in tensors and tensors[name].data_type not in (DataType.I32, DataType.I64)
    ]


def sparse_axes_iterated(resolved: Resolved) -> list[Finding]:
    sparse = {axis.name for axis in resolved.sparse}
    if not sparse:
        return []
    return [
        blame(
            SPARSE_ITERATED,
            Part.PRIMITIVE,
            primitive.name,
            "axes without segments",
            f"sparse axis {axis} consumed",
            "iterate it; the lowering may fuse the loop and its leaf",
        )
        for primitive in resolved.program.primitives
        for axis in dict.fromkeys(primitive.axes)
        if axis in sparse
    ]


def own_pos_unmoved(resolved: Resolved) -> list[Finding]:
    return [
        blame(
            SEGMENT_ADDRESS,
            Part.AXIS,
            axis.name,
            f"no stride and no offset on its own {segment.pos}",
            f"stride {axis.strides[segment.pos]}, offset {axis.offsets[segment.pos]}",
            "the enclosing axes address pos",
        )
        for axis in resolved.sparse
        for segment in axis.segments
        if axis.strides[segment.pos] or axis.offsets[segment.pos]
    ]


def one_position(resolved: Resolved) -> list[Finding]:
    findings = []
    for axis in resolved.sparse:
        seen: set[str] = {segment.pos for segment in axis.segments}
        for segment in axis.segments:
            for name in (segment.crd, *segment.by_position):
                if name in seen:
                    expected = f"{name} addressed by one position"
                    found = "another use in the segments of the axis"
                    findings.append(blame(ONE_POSITION, Part.AXIS, axis.name, expected, found))
                seen.add(name)
    return findings


SPARSE_RULES: tuple[RuleCheck, ...] = (
    (SEGMENT_TYPES, segment_types),
    (SPARSE_ITERATED, sparse_axes_iterated),
    (SEGMENT_ADDRESS, own_pos_unmoved),
    (ONE_POSITION, one_position),
)
