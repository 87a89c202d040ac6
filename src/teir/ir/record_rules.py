"""The rules of section 10.5 that a record file or a text can break before a program exists.

Codes ``TEIR140`` to ``TEIR179``; names are in `teir.ir.name_rules`. Each rule of a record file is
one function of `teir.ir.record_axis_rules`, `record_schedule_rules` or `record_primitive_rules`.
"""

from __future__ import annotations

from teir.errors import Rule

_REFERENCE = "language reference"
_AXES = "section 10.5, axis rules"
_SCHEDULE = "section 10.5, schedule rules"
_ITERATION = "section 10.5, iteration node rules"
_INVOCATION = "section 10.5, invocation node rules"
_GUARD = "section 10.5, guard rules"
_PRIMITIVE = "section 10.5, primitive rules"

FIELD_TYPE = Rule(
    code="TEIR140",
    sentence='Every field holds a value of its type; true, 1.0 and "4" are no integers.',
    source=_REFERENCE,
)
FIELD_REQUIRED = Rule(
    code="TEIR141",
    sentence="Every field that has no default is there.",
    source=_REFERENCE,
)
FIELD_KNOWN = Rule(
    code="TEIR142",
    sentence="Every field is one of the record form; only metadata has open keys.",
    source=_REFERENCE,
)
VERSION = Rule(
    code="TEIR143",
    sentence="The version of the language is 1.",
    source=_REFERENCE,
)
DATA_TYPE = Rule(
    code="TEIR144",
    sentence="A data type is one of FP64, FP32, TF32, BF16, FP16, C64, C128, I32 and I64.",
    source=_REFERENCE,
)
EXTENT_POSITIVE = Rule(
    code="TEIR145",
    sentence="Every axis extent is positive.",
    source=_AXES,
)
ONE_PER_TENSOR = Rule(
    code="TEIR146",
    sentence="Every axis has one stride and one offset per tensor in the operation.",
    source=_AXES,
)
STRIDE_NOT_NEGATIVE = Rule(
    code="TEIR147",
    sentence="Strides are non-negative byte counts.",
    source=_AXES,
)
VALUE_RANGE = Rule(
    code="TEIR148",
    sentence="Extents, strides and offsets stay below 2^62 in magnitude.",
    source=_REFERENCE,
)
WHOLE_ELEMENTS = Rule(
    code="TEIR149",
    sentence="Strides and offsets are multiples of the tensor's element width.",
    source=_REFERENCE,
)
ONE_PARENT = Rule(
    code="TEIR150",
    sentence="Every non-root node appears in exactly one children list.",
    source=_SCHEDULE,
)
ROOT_ONCE = Rule(
    code="TEIR151",
    sentence="Every root appears in roots exactly once.",
    source=_SCHEDULE,
)
ROOT_IS_NO_CHILD = Rule(
    code="TEIR152",
    sentence="Every root appears in no children list.",
    source=_SCHEDULE,
)
ACYCLIC = Rule(
    code="TEIR153",
    sentence="The schedule is acyclic: no node appears in its own transitive descendants.",
    source=_SCHEDULE,
)
POLICY = Rule(
    code="TEIR154",
    sentence="An iteration node's policy is sequential or parallel.",
    source=_ITERATION,
)
CHILDREN_EXIST = Rule(
    code="TEIR155",
    sentence="An iteration node's children list is non-empty.",
    source=_ITERATION,
)
INVOCATION_IS_LEAF = Rule(
    code="TEIR156",
    sentence="An invocation node has no children.",
    source=_INVOCATION,
)
GUARD_TERM = Rule(
    code="TEIR157",
    sentence="A guard is either None or a conjunction of first(axis_id) and last(axis_id) terms.",
    source=_GUARD,
)
ROLE_REQUIRED = Rule(
    code="TEIR158",
    sentence="A primitive defines a role list for every role required by its operation.",
    source=_PRIMITIVE,
)
ROLE_NAME = Rule(
    code="TEIR159",
    sentence="A role is C, M, N or K, and belongs to the operation (Table 10.3.2).",
    source="section 10.3",
)
OPERATION = Rule(
    code="TEIR160",
    sentence=("An operation is Zero, Copy, ReLU, Contraction, Add, Sub, Mul, Div, Min or Max."),
    source="section 10.3",
)
OPERANDS_GIVEN = Rule(
    code="TEIR161",
    sentence=(
        "A primitive names its operands unless the defaults apply: inputs are in0, in1, … in "
        "number order and the output is out."
    ),
    source=_REFERENCE,
)
METADATA_KEY = Rule(
    code="TEIR162",
    sentence="The metadata keys data_type and operands are reserved; all others are open.",
    source=_REFERENCE,
)
SCRATCH_OWNER = Rule(
    code="TEIR163",
    sentence="A scratch tensor's owner is an iteration node, or null for the whole run.",
    source=_REFERENCE,
)

RECORD_RULES = (
    FIELD_TYPE,
    FIELD_REQUIRED,
    FIELD_KNOWN,
    VERSION,
    DATA_TYPE,
    EXTENT_POSITIVE,
    ONE_PER_TENSOR,
    STRIDE_NOT_NEGATIVE,
    VALUE_RANGE,
    WHOLE_ELEMENTS,
    ONE_PARENT,
    ROOT_ONCE,
    ROOT_IS_NO_CHILD,
    ACYCLIC,
    POLICY,
    CHILDREN_EXIST,
    INVOCATION_IS_LEAF,
    GUARD_TERM,
    ROLE_REQUIRED,
    ROLE_NAME,
    OPERATION,
    OPERANDS_GIVEN,
    METADATA_KEY,
    SCRATCH_OWNER,
)
