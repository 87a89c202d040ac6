"""The record form: what a JSON file holds, one class per table of the specification.

Tables 10.1.1, 10.2.1, 10.2.2 and 10.3.1; tensors, operands, scratch and segments are of the
language reference. `teir.ir.record_schema` publishes these classes as a JSON schema,
`teir.ir.record_reading` reads values into them and reports everything that does not fit.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from teir.dtypes import DataType
from teir.ir.nodes import Operation, Policy

Identifier = (
    Annotated[str, Meta(description="An identifier of at most 256 bytes in UTF-8.")]
    | Annotated[int, Meta(description="Read as its decimal text.")]
)


class SegmentRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One compressed level of a sparse axis."""

    pos: Identifier
    crd: Identifier
    by_position: tuple[Identifier, ...] = ()


class TensorRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tensor; with ``scratch`` a temporary of that node, or of the whole run (null)."""

    id: Identifier
    data_type: DataType
    scratch: Identifier | UnsetType | None = UNSET


class AxisRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TEIR-Axes entry (Table 10.1.1): bytes, one per tensor in the order of tensors."""

    id: Identifier
    extent: int
    strides: tuple[int, ...]
    offsets: tuple[int, ...] | UnsetType = UNSET
    segments: tuple[SegmentRecord, ...] = ()


class GuardRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One guard term: exactly one of the two fields."""

    first: Identifier | UnsetType = UNSET
    last: Identifier | UnsetType = UNSET


class IterationRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An iteration node (Table 10.2.1)."""

    id: Identifier
    axis: Identifier
    policy: Policy
    children: tuple[Identifier, ...]
    guard: tuple[GuardRecord, ...] | None = None


class InvocationRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An invocation node (Table 10.2.2)."""

    id: Identifier
    primitive: Identifier
    guard: tuple[GuardRecord, ...] | None = None


class OperandsRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tensors a primitive reads and the one it writes."""

    inputs: tuple[Identifier, ...] = field(name="in", default=())
    out: Identifier


class MetadataRecord(Struct, frozen=True, kw_only=True):
    """Operation-specific properties; other keys are open."""

    data_type: DataType | UnsetType = UNSET
    operands: OperandsRecord | UnsetType = UNSET


class PrimitiveRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TEIR-Primitives entry (Table 10.3.1); ``axes`` maps a role to its axes."""

    id: Identifier
    operation: Operation
    axes: dict[str, tuple[Identifier, ...]]
    metadata: MetadataRecord | UnsetType = UNSET


class RootsRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ordered list of roots on its own."""

    roots: tuple[Identifier, ...]


class ScheduleRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TEIR-Schedule (section 10.2)."""

    roots: tuple[Identifier, ...]
    iterations: tuple[IterationRecord, ...]
    invocations: tuple[InvocationRecord, ...]


class ProgramRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program; ``teir`` is the version of the language, 1."""

    teir: Annotated[int, Meta(ge=1, le=1)]
    name: str = ""
    tensors: tuple[TensorRecord, ...]
    axes: tuple[AxisRecord, ...]
    schedule: ScheduleRecord
    primitives: tuple[PrimitiveRecord, ...]
