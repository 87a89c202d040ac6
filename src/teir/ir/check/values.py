"""Rules about numbers: extents, strides, offsets and the size of the program (section 10.5)."""

from __future__ import annotations

from teir.errors import Finding, Part, Rule
from teir.ir.check.report import RuleCheck, blame
from teir.ir.check.resolved import WIDTHS, Resolved
from teir.ir.limits import ENTRIES, SCHEDULE_DEPTH
from teir.ir.nodes import LIMIT

INTEGERS = Rule(
    code="TEIR305",
    sentence="Extents, strides and offsets are Python integers.",
    source="section 10.1",
)
NODE_LIMIT = Rule(
    code="TEIR306",
    sentence=f"A schedule has at most {ENTRIES.largest} nodes.",
    source="docs/safety.md G1",
)
DEPTH_LIMIT = Rule(
    code="TEIR307",
    sentence=f"At most {SCHEDULE_DEPTH.largest} iteration nodes lie on one path of a schedule.",
    source="docs/safety.md G1",
)
EXTENT_POSITIVE = Rule(
    code="TEIR308",
    sentence="Every axis extent is positive.",
    source="section 10.5, axis rules",
)
STRIDE_NOT_NEGATIVE = Rule(
    code="TEIR309",
    sentence="Strides are non-negative byte counts.",
    source="section 10.5, axis rules",
)
VALUE_LIMIT = Rule(
    code="TEIR310",
    sentence="Extents, strides and offsets stay below 2^62.",
    source="docs/design.md 2, types",
)
WIDTH_MULTIPLE = Rule(
    code="TEIR311",
    sentence="Strides and offsets are multiples of the tensor's element width.",
    source="docs/design.md 2, the program",
)


def integers(resolved: Resolved) -> list[Finding]:
    found = [(axis, axis.extent) for axis in resolved.program.axes if type(axis.extent) is not int]
    found += [(axis, value) for axis, _, _, value in resolved.steps if type(value) is not int]
    return [
        blame(INTEGERS, Part.AXIS, axis.name, "an int", f"{value!r} ({type(value).__name__})")
        for axis, value in found
    ]


def node_limit(resolved: Resolved) -> list[Finding]:
    if not resolved.has_too_many_nodes:
        return []
    name = resolved.program.name
    return [blame(NODE_LIMIT, Part.PROGRAM, name, f"at most {ENTRIES.largest} nodes", "more")]


def depth_limit(resolved: Resolved) -> list[Finding]:
    node = resolved.too_deep
    if node is None:
        return []
    expected = f"at most {SCHEDULE_DEPTH.largest} nodes on one path"
    return [blame(DEPTH_LIMIT, Part.NODE, node.name, expected, "this node below them")]


def extents_positive(resolved: Resolved) -> list[Finding]:
    return [
        blame(EXTENT_POSITIVE, Part.AXIS, axis.name, "an extent of at least 1", f"{axis.extent}")
        for axis in resolved.program.axes
        if axis.extent < 1
    ]


def strides_not_negative(resolved: Resolved) -> list[Finding]:
    return [
        blame(
            STRIDE_NOT_NEGATIVE,
            Part.AXIS,
            axis.name,
            "strides of at least 0",
            f"stride {stride} on {tensor}",
            "walk the axis from its other end: negate the stride and move the offset",
        )
        for axis, kind, tensor, stride in resolved.steps
        if stride < 0 and kind == "stride"
    ]


def values_limited(resolved: Resolved) -> list[Finding]:
    axes = resolved.program.axes
    values = [abs(value) for _, _, _, value in resolved.steps]
    if max([axis.extent for axis in axes] + values, default=0) < LIMIT:
        return []
    found = [(axis, f"extent {axis.extent}") for axis in axes if axis.extent >= LIMIT]
    found += [
        (axis, f"{kind} {value} on {tensor}")
        for axis, kind, tensor, value in resolved.steps
        if not -LIMIT < value < LIMIT
    ]
    return [
        blame(VALUE_LIMIT, Part.AXIS, axis.name, "less than 2^62", text) for axis, text in found
    ]


def width_multiples(resolved: Resolved) -> list[Finding]:
    widths = {name: WIDTHS[tensor.data_type] for name, tensor in resolved.tensors.items()}
    return [
        blame(
            WIDTH_MULTIPLE,
            Part.AXIS,
            axis.name,
            f"multiples of {widths[tensor]} bytes on {tensor}",
            f"{kind} {value}",
        )
        for axis, kind, tensor, value in resolved.steps
        if value % widths.get(tensor, 1)
    ]


LIMIT_RULES: tuple[RuleCheck, ...] = (
    (INTEGERS, integers),
    (NODE_LIMIT, node_limit),
    (DEPTH_LIMIT, depth_limit),
)
"""Checked first: where one is broken, nothing else is asked."""

VALUE_RULES: tuple[RuleCheck, ...] = (
    (EXTENT_POSITIVE, extents_positive),
    (STRIDE_NOT_NEGATIVE, strides_not_negative),
    (VALUE_LIMIT, values_limited),
    (WIDTH_MULTIPLE, width_multiples),
)
