"""The entries of a record file, each with the path that findings quote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from teir.errors import Finding, RecordPlace
from teir.ir.limits import ENTRIES, LISTED_FINDINGS
from teir.ir.name_rules import NameSpace
from teir.ir.reading_rules import COUNTS
from teir.ir.record_form import (
    AxisRecord,
    InvocationRecord,
    IterationRecord,
    PrimitiveRecord,
    RootsRecord,
    TensorRecord,
)
from teir.ir.record_reading import read_record
from teir.ir.record_rules import FIELD_KNOWN, FIELD_REQUIRED, FIELD_TYPE, VERSION

_Record = TypeVar("_Record", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Entry(Generic[_Record]):
    """A record and its path, as ``$.axes[2]``."""

    path: str
    record: _Record

    def place(self, field: str = "") -> RecordPlace:
        """The place of a field, given as ``.extent`` or ``.strides[1]``."""
        return RecordPlace(path=self.path + field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """What could be read of a record file.

    ``complete`` holds the sections in which every entry could be read: only there the absence of
    a name means something. Identifiers are texts here.
    """

    name: str
    tensors: tuple[Entry[TensorRecord], ...]
    axes: tuple[Entry[AxisRecord], ...]
    roots: tuple[str, ...]
    iterations: tuple[Entry[IterationRecord], ...]
    invocations: tuple[Entry[InvocationRecord], ...]
    primitives: tuple[Entry[PrimitiveRecord], ...]
    metadata: dict[str, dict[str, Any]]
    """The metadata of each primitive as it stands in the file."""
    complete: frozenset[NameSpace]

    @property
    def nodes(self) -> tuple[Entry[IterationRecord] | Entry[InvocationRecord], ...]:
        """The iteration nodes, then the invocation nodes."""
        return (*self.iterations, *self.invocations)


_PROGRAM_FIELDS = ("teir", "name", "tensors", "axes", "schedule", "primitives")
_SCHEDULE_FIELDS = ("roots", "iterations", "invocations")


def read_entries(document: dict[str, Any], findings: list[Finding]) -> Entries:
    """The entries of a decoded record file; what does not fit is reported and left out."""
    _check_fields(document, "$", _PROGRAM_FIELDS, ("name",), findings)
    version = document.get("teir", 1)
    if type(version) is not int or version != 1:
        findings.append(_finding(VERSION, "$.teir", "1", repr(version)[:40]))
    name = document.get("name", "")
    if not isinstance(name, str):
        findings.append(_finding(FIELD_TYPE, "$.name", "a text", type(name).__name__))
        name = ""
    schedule = document.get("schedule", {})
    if not isinstance(schedule, dict):
        findings.append(_finding(FIELD_TYPE, "$.schedule", "an object", repr(schedule)[:40]))
        schedule = {}
    elif "schedule" in document:
        _check_fields(schedule, "$.schedule", _SCHEDULE_FIELDS, (), findings)
    tensors = _section(document, "$.tensors", TensorRecord, findings)
    axes = _section(document, "$.axes", AxisRecord, findings)
    iterations = _section(schedule, "$.schedule.iterations", IterationRecord, findings)
    invocations = _section(schedule, "$.schedule.invocations", InvocationRecord, findings)
    primitives = _section(document, "$.primitives", PrimitiveRecord, findings)
    roots, roots_complete = _roots(schedule, findings)
    sections = {
        NameSpace.TENSOR: tensors.complete,
        NameSpace.AXIS: axes.complete,
        NameSpace.NODE: iterations.complete and invocations.complete and roots_complete,
        NameSpace.PRIMITIVE: primitives.complete,
    }
    return Entries(
        name=name,
        tensors=tensors.entries,
        axes=axes.entries,
        roots=roots,
        iterations=iterations.entries,
        invocations=invocations.entries,
        primitives=primitives.entries,
        metadata=_metadata(document),
        complete=frozenset(space for space, complete in sections.items() if complete),
    )


@dataclass(frozen=True, slots=True)
class _Section(Generic[_Record]):
    entries: tuple[Entry[_Record], ...]
    complete: bool


def _section(
    holder: dict[str, Any], path: str, record: type[_Record], findings: list[Finding]
) -> _Section[_Record]:
    values = holder.get(path.rpartition(".")[2])
    if values is None and path.rpartition(".")[2] not in holder:
        return _Section((), False)
    if not isinstance(values, list):
        findings.append(_finding(FIELD_TYPE, path, "an array", repr(values)[:40]))
        return _Section((), False)
    if len(values) > ENTRIES.largest:
        expected = f"at most {ENTRIES.largest} entries"
        findings.append(_finding(COUNTS, path, expected, str(len(values))))
        return _Section((), False)
    entries = []
    for index, value in enumerate(values):
        if len(findings) > LISTED_FINDINGS.largest:
            break
        read = read_record(value, record, f"{path}[{index}]", findings)
        if read is not None:
            entries.append(Entry(f"{path}[{index}]", read))
    return _Section(tuple(entries), len(entries) == len(values))


def _roots(schedule: dict[str, Any], findings: list[Finding]) -> tuple[tuple[str, ...], bool]:
    if "roots" not in schedule:
        return (), False
    read = read_record({"roots": schedule["roots"]}, RootsRecord, "$.schedule", findings)
    return (cast(tuple[str, ...], read.roots), True) if read else ((), False)


def _metadata(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    primitives = document.get("primitives")
    if not isinstance(primitives, list):
        return {}
    return {
        f"$.primitives[{index}]": primitive["metadata"]
        for index, primitive in enumerate(primitives)
        if isinstance(primitive, dict) and isinstance(primitive.get("metadata"), dict)
    }


def _check_fields(
    holder: dict[str, Any],
    path: str,
    known: tuple[str, ...],
    optional: tuple[str, ...],
    findings: list[Finding],
) -> None:
    for field in known:
        if field not in holder and field not in optional:
            findings.append(
                _finding(FIELD_REQUIRED, f"{path}.{field}", f"the field {field}", "none")
            )
    for field in holder:
        if len(findings) > LISTED_FINDINGS.largest:
            return
        if field not in known:
            expected = f"one of the fields {', '.join(known)}"
            findings.append(
                _finding(FIELD_KNOWN, f"{path}.{field[:80]}", expected, repr(field[:80]))
            )


def _finding(rule: Any, path: str, expected: str, found: str) -> Finding:
    return Finding(rule=rule, place=RecordPlace(path=path), expected=expected, found=found)
