"""Rules about names: unique, and leading somewhere (section 10.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from teir.errors import Finding, Part, Rule
from teir.ir.check.report import RuleCheck, blame
from teir.ir.check.resolved import Resolved

TENSOR_ONCE = Rule(
    code="TEIR301",
    sentence="Every tensor name is unique, scratch tensors included.",
    source="docs/design.md 2, the program",
)
AXIS_ONCE = Rule(
    code="TEIR302", sentence="Every axis identifier is unique.", source="section 10.5, axis rules"
)
PRIMITIVE_ONCE = Rule(
    code="TEIR303",
    sentence="Every primitive identifier is unique.",
    source="section 10.5, primitive rules",
)
NODE_ONCE = Rule(
    code="TEIR304",
    sentence="Every schedule node identifier is unique across iteration and invocation nodes.",
    source="section 10.5, schedule rules",
)
STEP_TENSOR = Rule(
    code="TEIR312",
    sentence="Every stride and offset of an axis belongs to an existing tensor.",
    source="section 10.5, axis rules",
)
ITERATED_AXIS = Rule(
    code="TEIR313",
    sentence="An iteration node's axis refers to an existing axis.",
    source="section 10.5, iteration node rules",
)
INVOKED_PRIMITIVE = Rule(
    code="TEIR314",
    sentence="An invocation node's primitive refers to an existing primitive.",
    source="section 10.5, invocation node rules",
)
OPERAND_TENSOR = Rule(
    code="TEIR315",
    sentence="Every operand of a primitive is an existing tensor.",
    source="docs/design.md 2, operand defaults",
)
ROLE_AXIS = Rule(
    code="TEIR316",
    sentence="Every axis identifier in a role list refers to an existing axis.",
    source="section 10.5, primitive rules",
)
SEGMENT_TENSOR = Rule(
    code="TEIR334",
    sentence="pos, crd and by_position of a segment name existing tensors that are not scratch.",
    source="docs/design.md 2, sparse iteration",
)


def tensors_once(resolved: Resolved) -> list[Finding]:
    program = resolved.program
    names = [tensor.name for tensor in program.tensors]
    scratch = [tensor.name for tensor in program.scratch]
    for iteration in resolved.iterations:
        if iteration.node.scratch:
            scratch += [tensor.name for tensor in iteration.node.scratch]
    if len(resolved.tensors) == len(names) + len(scratch):
        return []
    own = _repeated(TENSOR_ONCE, Part.TENSOR, names)
    twice = _repeated(TENSOR_ONCE, Part.SCRATCH, scratch)
    shared = [
        blame(TENSOR_ONCE, Part.SCRATCH, name, "a new name", f"the name of tensor {name}")
        for name in sorted(set(names) & set(scratch))
    ]
    return own + twice + shared


def axes_once(resolved: Resolved) -> list[Finding]:
    axes = resolved.program.axes
    if len(resolved.axes) == len(axes):
        return []
    return _repeated(AXIS_ONCE, Part.AXIS, [axis.name for axis in axes])


def primitives_once(resolved: Resolved) -> list[Finding]:
    primitives = resolved.program.primitives
    if len(resolved.primitives) == len(primitives):
        return []
    return _repeated(PRIMITIVE_ONCE, Part.PRIMITIVE, [item.name for item in primitives])


def nodes_once(resolved: Resolved) -> list[Finding]:
    names = [iteration.node.name for iteration in resolved.iterations]
    names += [invocation.node.name for invocation in resolved.invocations]
    if len(set(names)) == len(names):
        return []
    return _repeated(NODE_ONCE, Part.NODE, names)


def _repeated(rule: Rule, part: Part, names: Sequence[str]) -> list[Finding]:
    return [
        blame(rule, part, name, "the name once", f"it {count} times")
        for name, count in Counter(names).items()
        if count > 1
    ]


def step_tensors(resolved: Resolved) -> list[Finding]:
    tensors = resolved.tensors
    unknown = {
        (axis.name, tensor): None for axis, _, tensor, _ in resolved.steps if tensor not in tensors
    }
    return [
        _unknown(STEP_TENSOR, Part.AXIS, axis, "tensor", tensor, tensors)
        for axis, tensor in unknown
    ]


def iterated_axes(resolved: Resolved) -> list[Finding]:
    return [
        _unknown(ITERATED_AXIS, Part.NODE, step.node.name, "axis", step.node.axis, resolved.axes)
        for step in resolved.iterations
        if step.axis is None
    ]


def invoked_primitives(resolved: Resolved) -> list[Finding]:
    return [
        _unknown(
            INVOKED_PRIMITIVE,
            Part.NODE,
            leaf.node.name,
            "primitive",
            leaf.node.primitive,
            resolved.primitives,
        )
        for leaf in resolved.invocations
        if leaf.primitive is None
    ]


def operand_tensors(resolved: Resolved) -> list[Finding]:
    tensors = resolved.tensors
    return [
        _unknown(OPERAND_TENSOR, Part.PRIMITIVE, primitive.name, "tensor", tensor, tensors)
        for primitive in resolved.program.primitives
        for tensor in primitive.operands
        if tensor not in tensors
    ]


def role_axes(resolved: Resolved) -> list[Finding]:
    axes = resolved.axes
    return [
        _unknown(ROLE_AXIS, Part.PRIMITIVE, primitive.name, "axis", axis, axes)
        for primitive in resolved.program.primitives
        for axis in primitive.axes
        if axis not in axes
    ]


def segment_tensors(resolved: Resolved) -> list[Finding]:
    tensors, scratch = resolved.tensors, resolved.scratch
    findings = []
    for axis in resolved.sparse:
        for segment in axis.segments:
            for name in (segment.pos, segment.crd, *segment.by_position):
                if name not in tensors:
                    findings.append(
                        _unknown(SEGMENT_TENSOR, Part.AXIS, axis.name, "tensor", name, tensors)
                    )
            findings += [
                blame(SEGMENT_TENSOR, Part.AXIS, axis.name, "an operand", f"scratch {name}")
                for name in (segment.pos, segment.crd, *segment.by_position)
                if name in scratch
            ]
    return findings


def _unknown(
    rule: Rule, part: Part, name: str, kind: str, missing: str, known: Iterable[str]
) -> Finding:
    return blame(rule, part, name, f"an existing {kind}", f"{missing!r}", _nearest(missing, known))


def _nearest(missing: str, known: Iterable[str]) -> str | None:
    names: Collection[str] = list(known)
    if not names or len(names) > 1_000:
        return None
    from difflib import get_close_matches

    close = get_close_matches(missing, names, n=1)
    return f"did you mean {close[0]!r}?" if close else "there are: " + ", ".join(list(names)[:8])


NAME_RULES: tuple[RuleCheck, ...] = (
    (TENSOR_ONCE, tensors_once),
    (AXIS_ONCE, axes_once),
    (PRIMITIVE_ONCE, primitives_once),
    (NODE_ONCE, nodes_once),
    (STEP_TENSOR, step_tensors),
    (ITERATED_AXIS, iterated_axes),
    (INVOKED_PRIMITIVE, invoked_primitives),
    (OPERAND_TENSOR, operand_tensors),
    (ROLE_AXIS, role_axes),
    (SEGMENT_TENSOR, segment_tensors),
)
