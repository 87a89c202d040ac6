"""Rules about primitives: roles, operands and types (Table 10.3.2; docs/design.md 2)."""

from __future__ import annotations

from collections.abc import Sequence

from teir.dtypes import DataType
from teir.errors import Finding, Part, Rule
from teir.ir.check.report import RuleCheck, blame
from teir.ir.check.resolved import Resolved
from teir.ir.lanes import MOST_LANES, is_lane_count, lanes_text
from teir.ir.nodes import Axis, Operation, Primitive, Role
from teir.ir.subnormals import ZERO, subnormals_text

AXIS_IN_ONE_ROLE = Rule(
    code="TEIR322",
    sentence="A primitive consumes an axis once.",
    source="docs/design.md 2, the program",
)
ROLES = Rule(
    code="TEIR323",
    sentence="A primitive has the roles of its operation: M and N, a Contraction also K and C.",
    source="Table 10.3.2",
)
INPUT_COUNT = Rule(
    code="TEIR324",
    sentence="Zero has no input, Copy and ReLU have one, a Contraction one or more, "
    "element-wise binaries two.",
    source="docs/design.md 2, operand defaults",
)
OUTPUT_NOT_INPUT = Rule(
    code="TEIR325",
    sentence="A Contraction does not multiply by the tensor it adds into.",
    source="docs/design.md 3 (d)",
)
OPERAND_TYPES = Rule(
    code="TEIR326",
    sentence="Operands have equal types, except that a Contraction may add BF16 or FP16 products "
    "into FP32, and Copy converts (never from complex to real).",
    source="docs/design.md 2, types",
)
ORDERED_TYPES = Rule(
    code="TEIR327",
    sentence="ReLU, Min and Max have real operands.",
    source="docs/design.md 2, types",
)
NUMBERS = Rule(
    code="TEIR328",
    sentence="Index tensors and integers are no operands of primitives, and no scratch.",
    source="docs/design.md 2, sparse iteration",
)
DECLARED_TYPE = Rule(
    code="TEIR329",
    sentence="The data_type of a primitive is the type of one of its operands.",
    source="section 10.3",
)
WRITTEN_STRIDE = Rule(
    code="TEIR330",
    sentence="A consumed axis of extent above 1 moves what is written, except in Zero, in-place "
    "ReLU and as K.",
    source="docs/design.md 2, roles",
)

LANE_COUNT = Rule(
    code="TEIR339",
    sentence=f"The lanes of a Contraction are a power of two from 2 to {MOST_LANES}, and its last "
    "K axis does not move what it adds into; one without axes is all that a loop over one "
    "compressed level holds, which does not move it either.",
    source="language reference, lanes",
)

SUBNORMALS_ZERO = Rule(
    code="TEIR340",
    sentence='The entry "subnormals" of a Contraction is "zero", on two inputs of type BF16, '
    "without lanes.",
    source="language reference, subnormals",
)

_BINARIES = (
    Operation.ADD,
    Operation.SUB,
    Operation.MUL,
    Operation.DIV,
    Operation.MIN,
    Operation.MAX,
)
_ORDERED = (Operation.RELU, Operation.MIN, Operation.MAX)
_HALVES = (DataType.BF16, DataType.FP16)
_INDEX = (DataType.I32, DataType.I64)
_COMPLEX = (DataType.C64, DataType.C128)


def axis_in_one_role(resolved: Resolved) -> list[Finding]:
    findings = []
    for primitive in resolved.program.primitives:
        axes = primitive.axes
        if len(set(axes)) == len(axes):
            continue
        findings += [
            blame(
                AXIS_IN_ONE_ROLE,
                Part.PRIMITIVE,
                primitive.name,
                f"axis {axis} once",
                f"it {axes.count(axis)} times",
            )
            for axis in dict.fromkeys(axes)
            if axes.count(axis) > 1
        ]
    return findings


def roles_of_operation(resolved: Resolved) -> list[Finding]:
    return [
        blame(
            ROLES,
            Part.PRIMITIVE,
            primitive.name,
            f"roles M and N of {primitive.operation.value}",
            f"role {role.value}",
        )
        for primitive in resolved.program.primitives
        if (primitive.c or primitive.k) and primitive.operation is not Operation.CONTRACTION
        for role, axes in ((Role.C, primitive.c), (Role.K, primitive.k))
        if axes
    ]


def input_counts(resolved: Resolved) -> list[Finding]:
    findings = []
    for primitive in resolved.program.primitives:
        count = len(primitive.inputs)
        expected = expected_inputs(primitive.operation, count)
        if expected is not None:
            findings.append(
                blame(INPUT_COUNT, Part.PRIMITIVE, primitive.name, expected, f"{count}")
            )
    return findings


def expected_inputs(operation: Operation, count: int) -> str | None:
    """What was expected, None where ``count`` inputs are right."""
    if operation is Operation.CONTRACTION:
        return None if count >= 1 else "one or more inputs"
    if operation is Operation.ZERO:
        return None if count == 0 else "no input"
    if operation in _BINARIES:
        return None if count == 2 else "two inputs"
    return None if count == 1 else "one input"


def output_not_input(resolved: Resolved) -> list[Finding]:
    return [
        blame(
            OUTPUT_NOT_INPUT,
            Part.PRIMITIVE,
            primitive.name,
            f"inputs other than {primitive.output}",
            f"{primitive.output} among the inputs",
            "copy it to a scratch tensor first",
        )
        for primitive in resolved.program.primitives
        if primitive.operation is Operation.CONTRACTION and primitive.output in primitive.inputs
    ]


def operand_types(resolved: Resolved) -> list[Finding]:
    findings = []
    for primitive in resolved.program.primitives:
        types = _types(resolved, primitive)
        if types is None or types_fit(primitive.operation, types):
            continue
        names = ", ".join(data_type.value for data_type in types[:-1])
        found = f"{names} -> {types[-1].value}"
        expected = f"types that {primitive.operation.value} takes"
        findings.append(blame(OPERAND_TYPES, Part.PRIMITIVE, primitive.name, expected, found))
    return findings


def _types(resolved: Resolved, primitive: Primitive) -> list[DataType] | None:
    """The types of the inputs and the output; None where a rule about them has spoken already."""
    tensors = resolved.tensors
    types = []
    for name in primitive.operands:
        tensor = tensors.get(name)
        if tensor is None or tensor.data_type in _INDEX:
            return None
        types.append(tensor.data_type)
    return types


def types_fit(operation: Operation, types: Sequence[DataType]) -> bool:
    """The rule about the types of the inputs and the output, in this order."""
    output = types[-1]
    if types.count(output) == len(types):
        return True
    inputs = types[:-1]
    if operation is Operation.COPY:
        return output in _COMPLEX or inputs[0] not in _COMPLEX
    if operation is not Operation.CONTRACTION or inputs.count(inputs[0]) != len(inputs):
        return False
    return inputs[0] in _HALVES and output is DataType.FP32


def ordered_types(resolved: Resolved) -> list[Finding]:
    tensors = resolved.tensors
    return [
        blame(
            ORDERED_TYPES,
            Part.PRIMITIVE,
            primitive.name,
            f"real operands of {primitive.operation.value}",
            f"{primitive.output} of type {tensors[primitive.output].data_type.value}",
        )
        for primitive in resolved.program.primitives
        if primitive.output in tensors
        and lacks_order(primitive.operation, tensors[primitive.output].data_type)
    ]


def lacks_order(operation: Operation, data_type: DataType) -> bool:
    """True where an operation compares numbers of a type that has no order."""
    return operation in _ORDERED and data_type in _COMPLEX


def numbers(resolved: Resolved) -> list[Finding]:
    tensors = resolved.tensors
    indices = {name for name, tensor in tensors.items() if tensor.data_type in _INDEX}
    if not indices:
        return []
    operands = []
    for primitive in resolved.program.primitives:
        wrong = [name for name in dict.fromkeys(primitive.operands) if name in indices]
        if wrong:
            found = ", ".join(f"{name} of type {tensors[name].data_type.value}" for name in wrong)
            expected = "operands of a floating-point type"
            operands.append(blame(NUMBERS, Part.PRIMITIVE, primitive.name, expected, found))
    scratch = [
        blame(NUMBERS, Part.SCRATCH, name, "a floating-point type", tensors[name].data_type.value)
        for name in resolved.scratch
        if name in indices
    ]
    return scratch + operands


def declared_types(resolved: Resolved) -> list[Finding]:
    findings = []
    for primitive in resolved.program.primitives:
        declared = primitive.data_type
        if declared is None:
            continue
        types = _types(resolved, primitive)
        if types is None or declared in types:
            continue
        expected = " or ".join(dict.fromkeys(data_type.value for data_type in types))
        findings.append(
            blame(DECLARED_TYPE, Part.PRIMITIVE, primitive.name, expected, declared.value)
        )
    return findings


def written_strides(resolved: Resolved) -> list[Finding]:
    findings = []
    axes = resolved.axes
    for primitive in resolved.program.primitives:
        if writes_equal_values(primitive):
            continue
        output = primitive.output
        for name in primitive.c + primitive.m + primitive.n:
            axis = axes.get(name)
            if axis is not None and axis.extent > 1 and axis.strides[output] == 0:
                findings.append(
                    blame(
                        WRITTEN_STRIDE,
                        Part.PRIMITIVE,
                        primitive.name,
                        f"axis {name} with a stride on {output}",
                        f"stride 0 and extent {axis.extent}",
                        "a summed axis has role K"
                        if primitive.operation is Operation.CONTRACTION
                        else None,
                    )
                )
    return findings


def writes_equal_values(primitive: Primitive) -> bool:
    """True for Zero and in-place ReLU: writing an element twice is writing it once."""
    if primitive.operation is Operation.RELU:
        return primitive.inputs == (primitive.output,)
    return primitive.operation is Operation.ZERO


def lane_counts(resolved: Resolved) -> list[Finding]:
    findings = []
    for primitive in resolved.program.primitives:
        if not primitive.metadata or primitive.operation is not Operation.CONTRACTION:
            continue
        text = lanes_text(primitive)
        if text is None:
            continue
        if not is_lane_count(text):
            expected = f"a power of two from 2 to {MOST_LANES}"
            findings.append(blame(LANE_COUNT, Part.PRIMITIVE, primitive.name, expected, text))
        axis = resolved.axes.get(primitive.k[-1]) if primitive.k else None
        if not primitive.axes and _sums_fibres(primitive, resolved):
            continue
        if not primitive.k or (axis is not None and axis.strides[primitive.output]):
            expected = f"a last K axis with stride 0 on {primitive.output}"
            found = "no K axis" if axis is None else f"axis {axis.name}, which moves it"
            findings.append(blame(LANE_COUNT, Part.PRIMITIVE, primitive.name, expected, found))
    return findings


def _sums_fibres(primitive: Primitive, resolved: Resolved) -> bool:
    """True where every invocation is all of a loop over one level that keeps the output's place."""
    known = [resolved.tensors[name] for name in primitive.operands if name in resolved.tensors]
    types = {tensor.data_type for tensor in known}
    places = [one for one in resolved.invocations if one.node.primitive == primitive.name]
    return types <= {DataType.FP64, DataType.FP32} and all(
        one.parent is not None
        and one.parent.axis is not None
        and len(one.parent.node.children) == 1
        and not one.guard
        and _walks_one_level(one.parent.axis, primitive.output, resolved)
        for one in places
    )


def _walks_one_level(axis: Axis, output: str, resolved: Resolved) -> bool:
    """True for adjacent coordinates of one level that leave ``output`` where it is."""
    if len(axis.segments) != 1 or axis.strides[output]:
        return False
    crd = axis.segments[0].crd
    return axis.strides[crd] == resolved.width(crd)


def subnormal_entries(resolved: Resolved) -> list[Finding]:
    findings = []
    for primitive in resolved.program.primitives:
        if not primitive.metadata or primitive.operation is not Operation.CONTRACTION:
            continue
        text = subnormals_text(primitive)
        if text is None:
            continue
        types = [resolved.tensors[name].data_type for name in primitive.inputs]
        if text != ZERO:
            findings.append(blame(SUBNORMALS_ZERO, Part.PRIMITIVE, primitive.name, ZERO, text))
        elif types != [DataType.BF16] * 2 or lanes_text(primitive) is not None:
            found = ", ".join(one.value for one in types)
            expected = "two inputs of type BF16 and no lanes"
            findings.append(blame(SUBNORMALS_ZERO, Part.PRIMITIVE, primitive.name, expected, found))
    return findings


PRIMITIVE_RULES: tuple[RuleCheck, ...] = (
    (AXIS_IN_ONE_ROLE, axis_in_one_role),
    (ROLES, roles_of_operation),
    (INPUT_COUNT, input_counts),
    (OUTPUT_NOT_INPUT, output_not_input),
    (OPERAND_TYPES, operand_types),
    (ORDERED_TYPES, ordered_types),
    (NUMBERS, numbers),
    (DECLARED_TYPE, declared_types),
    (WRITTEN_STRIDE, written_strides),
    (LANE_COUNT, lane_counts),
    (SUBNORMALS_ZERO, subnormal_entries),
)
