"""Rules about paths of the schedule: children, guards, and which axes meet on one path."""

from __future__ import annotations

from teir.errors import Finding, Part, Rule
from teir.ir.check.report import RuleCheck, blame
from teir.ir.check.resolved import Invocation, Iteration, Resolved, path_of

CHILDREN = Rule(
    code="TEIR317",
    sentence="An iteration node's children list is non-empty.",
    source="section 10.5, iteration node rules",
)
GUARD_ANCESTOR = Rule(
    code="TEIR318",
    sentence="Every axis referenced by a guard is iterated by an ancestor of the guarded node.",
    source="section 10.5, guard rules",
)
LAST_OF_INTERSECTION = Rule(
    code="TEIR319",
    sentence="No guard asks for the last iteration of an intersection.",
    source="docs/design.md 2, sparse iteration",
)
AXIS_ONCE_ON_PATH = Rule(
    code="TEIR320",
    sentence="An axis is iterated at most once on one root-to-leaf path.",
    source="docs/design.md 2, the program",
)
CONSUMED_NOT_ITERATED = Rule(
    code="TEIR321",
    sentence="A primitive consumes no axis that an ancestor of its invocation iterates.",
    source="docs/design.md 2, the program",
)
SCRATCH_SCOPE = Rule(
    code="TEIR332",
    sentence="A scratch tensor is used only below the node that owns it.",
    source="docs/design.md 2, scratch",
)
SCRATCH_STRIDE = Rule(
    code="TEIR331",
    sentence="Axes iterated at or above the owner of a scratch tensor have stride 0 on it.",
    source="docs/design.md 2, scratch",
)


def children_present(resolved: Resolved) -> list[Finding]:
    return [
        blame(CHILDREN, Part.NODE, step.node.name, "at least one child", "none")
        for step in resolved.iterations
        if not step.node.children
    ]


def guard_ancestors(resolved: Resolved) -> list[Finding]:
    return [
        blame(
            GUARD_ANCESTOR,
            Part.NODE,
            place.node.name,
            f"an ancestor that iterates axis {resolved_term.term.axis}",
            str(resolved_term.term),
            _ancestor_axes(place),
        )
        for place in resolved.guarded
        for resolved_term in place.guard
        if resolved_term.iteration is None
    ]


def _ancestor_axes(place: Iteration | Invocation) -> str:
    axes = [step.node.axis for step in reversed(path_of(place))]
    return f"the ancestors iterate: {', '.join(axes)}" if axes else "the node is a root"


def no_last_of_intersection(resolved: Resolved) -> list[Finding]:
    return [
        blame(
            LAST_OF_INTERSECTION,
            Part.NODE,
            place.node.name,
            "no last(...) of an axis with several segments",
            str(resolved_term.term),
            "an intersection does not know its last iteration before it ends",
        )
        for place in resolved.guarded
        for resolved_term in place.guard
        if not resolved_term.is_first
        and resolved_term.iteration is not None
        and resolved_term.iteration.axis is not None
        and len(resolved_term.iteration.axis.segments) > 1
    ]


def axis_once_on_path(resolved: Resolved) -> list[Finding]:
    return [
        blame(
            AXIS_ONCE_ON_PATH,
            Part.NODE,
            step.node.name,
            f"axis {step.node.axis} iterated once on the path",
            f"it iterated by node {step.same_axis.node.name} already",
        )
        for step in resolved.iterations
        if step.same_axis is not None
    ]


def consumed_not_iterated(resolved: Resolved) -> list[Finding]:
    findings = []
    consumed_by = {item.name: item.axes for item in resolved.primitives.values()}
    for leaf in resolved.invocations:
        consumed = consumed_by.get(leaf.node.primitive)
        if not consumed:
            continue
        step = leaf.parent
        while step is not None:
            if step.node.axis in consumed:
                findings.append(_both(leaf, step.node.axis, step.node.name))
            step = step.parent
    return findings


def _both(leaf: Invocation, axis: str, iterated_by: str) -> Finding:
    return blame(
        CONSUMED_NOT_ITERATED,
        Part.NODE,
        leaf.node.name,
        f"axis {axis} iterated or consumed",
        f"both: node {iterated_by} iterates it, primitive {leaf.node.primitive} consumes it",
        "split the axis in two",
    )


def scratch_in_scope(resolved: Resolved) -> list[Finding]:
    scratch = resolved.scratch
    if not scratch:
        return []
    findings = []
    for leaf in resolved.invocations:
        operands = dict.fromkeys(leaf.primitive.operands) if leaf.primitive else {}
        for tensor in operands:
            owner = scratch.get(tensor)
            if owner is not None and owner not in path_of(leaf):
                expected = f"scratch {tensor} used below its node {owner.node.name}"
                findings.append(
                    blame(SCRATCH_SCOPE, Part.NODE, leaf.node.name, expected, "a use elsewhere")
                )
    return findings


def scratch_strides(resolved: Resolved) -> list[Finding]:
    findings = []
    for tensor, owner in resolved.scratch.items():
        for step in [] if owner is None else [owner, *path_of(owner)]:
            stride = 0 if step.axis is None else step.axis.strides[tensor]
            if stride != 0:
                findings.append(
                    blame(
                        SCRATCH_STRIDE,
                        Part.AXIS,
                        step.node.axis,
                        f"stride 0 on scratch {tensor}",
                        f"stride {stride}",
                        f"every iteration of {step.node.name} has its own {tensor}",
                    )
                )
    return findings


PATH_RULES: tuple[RuleCheck, ...] = (
    (CHILDREN, children_present),
    (GUARD_ANCESTOR, guard_ancestors),
    (LAST_OF_INTERSECTION, no_last_of_intersection),
    (AXIS_ONCE_ON_PATH, axis_once_on_path),
    (CONSUMED_NOT_ITERATED, consumed_not_iterated),
    (SCRATCH_STRIDE, scratch_strides),
    (SCRATCH_SCOPE, scratch_in_scope),
)
