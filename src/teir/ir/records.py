"""The record form: a program read from and written to JSON.

Reading decodes the bytes, reads every entry on its own, applies every rule of section 10.5 that
concerns records, and only then builds the tree, so that one error carries all findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from teir.errors import Finding, RecordPlace, TeirError
from teir.ir.json_scan import scan
from teir.ir.limits import LISTED_FINDINGS
from teir.ir.name_rules import (
    Mention,
    NameSpace,
    name_again,
    unknown_names,
)
from teir.ir.nodes import Program
from teir.ir.reading_rules import ENCODING, JSON_SYNTAX, KIND, TOO_MANY_FINDINGS
from teir.ir.record_axis_rules import AXIS_RULES
from teir.ir.record_entries import Entries, Entry, read_entries
from teir.ir.record_primitive_rules import PRIMITIVE_RULES
from teir.ir.record_schedule_rules import SCHEDULE_RULES
from teir.ir.record_tree import build_program
from teir.ir.record_writing import dumps_records

RECORD_RULE_FUNCTIONS = (*AXIS_RULES, *SCHEDULE_RULES, *PRIMITIVE_RULES)
"""The rules of record files: each a rule and the function that finds where it is broken."""


def loads_records(data: bytes) -> Program:
    """The program in the record form. Raises `TeirError` with every finding at its JSON path."""
    return program_from_records(decode_object(data))


def decode_object(data: bytes) -> dict[str, Any]:
    """The JSON object that ``data`` holds, with nesting, keys and numbers checked."""
    text = decode_text(data)
    scanned = scan(text)
    faults = tuple(
        Finding(
            rule=fault.rule,
            place=RecordPlace(path=fault.path),
            expected=fault.expected,
            found=fault.found,
        )
        for fault in scanned.faults
    )
    if faults:
        raise TeirError(faults)
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        found = str(error)
        raise TeirError((_document(JSON_SYNTAX, "one JSON value", found),)) from error
    if not isinstance(value, dict):
        raise TeirError((_document(KIND, "a JSON object", f"{type(value).__name__}"),))
    return value


def decode_text(data: bytes) -> str:
    """``data`` as text. Raises `TeirError` unless it is UTF-8 without a byte order mark."""
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise TeirError((_document(ENCODING, "UTF-8 text", "a byte order mark"),))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        raise TeirError((_document(ENCODING, "UTF-8 text", found),)) from error
    if "\0" in text:
        raise TeirError((_document(ENCODING, "UTF-8 text", "a zero byte"),))
    return text


def program_from_records(document: dict[str, Any]) -> Program:
    """The program of a decoded record file."""
    findings: list[Finding] = []
    entries = read_entries(document, findings)
    for _, broken in RECORD_RULE_FUNCTIONS:
        findings.extend(_first(broken(entries)))
    findings.extend(_first(_again(entries)))
    findings.extend(_first(_unknown(entries)))
    if findings:
        raise TeirError(_listed(findings))
    return build_program(entries)


def _sections(entries: Entries) -> tuple[tuple[NameSpace, tuple[Entry[Any], ...]], ...]:
    return (
        (NameSpace.TENSOR, entries.tensors),
        (NameSpace.AXIS, entries.axes),
        (NameSpace.NODE, entries.nodes),
        (NameSpace.PRIMITIVE, entries.primitives),
    )


def _again(entries: Entries) -> Iterator[Finding]:
    """Names declared a second time."""
    for space, section in _sections(entries):
        first: dict[str, Entry[Any]] = {}
        for entry in section:
            known = first.setdefault(str(entry.record.id), entry)
            if known is not entry:
                name = str(entry.record.id)
                yield name_again(space, name, entry.place(".id"), f"{known.path}.id")


def _unknown(entries: Entries) -> Iterator[Finding]:
    """Unknown names, in the sections that could be read in full."""
    known = {
        space: frozenset(str(entry.record.id) for entry in section)
        for space, section in _sections(entries)
    }
    wrong = (
        Mention(space=space, name=name, place=RecordPlace(path=path))
        for space, name, path in _references(entries)
        if name not in known[space] and space in entries.complete
    )
    return unknown_names(known, wrong)


def _references(entries: Entries) -> Iterator[tuple[NameSpace, str, str]]:
    for index, root in enumerate(entries.roots):
        yield NameSpace.NODE, root, f"$.schedule.roots[{index}]"
    for iteration in entries.iterations:
        yield NameSpace.AXIS, str(iteration.record.axis), f"{iteration.path}.axis"
        for index, child in enumerate(iteration.record.children):
            yield NameSpace.NODE, str(child), f"{iteration.path}.children[{index}]"
    for invocation in entries.invocations:
        yield NameSpace.PRIMITIVE, str(invocation.record.primitive), f"{invocation.path}.primitive"
    for node in entries.nodes:
        for index, term in enumerate(node.record.guard or ()):
            for field, axis in (("first", term.first), ("last", term.last)):
                if isinstance(axis, str):
                    yield NameSpace.AXIS, axis, f"{node.path}.guard[{index}].{field}"
    yield from _tensor_and_role_references(entries)


def _tensor_and_role_references(entries: Entries) -> Iterator[tuple[NameSpace, str, str]]:
    for primitive in entries.primitives:
        for role, axes in primitive.record.axes.items():
            for index, axis in enumerate(axes):
                yield NameSpace.AXIS, str(axis), f"{primitive.path}.axes.{role}[{index}]"
        metadata = primitive.record.metadata
        if metadata is not msgspec.UNSET and metadata.operands is not msgspec.UNSET:
            path = f"{primitive.path}.metadata.operands"
            for index, tensor in enumerate(metadata.operands.inputs):
                yield NameSpace.TENSOR, str(tensor), f"{path}.in[{index}]"
            yield NameSpace.TENSOR, str(metadata.operands.out), f"{path}.out"
    for axis_entry in entries.axes:
        for number, segment in enumerate(axis_entry.record.segments):
            path = f"{axis_entry.path}.segments[{number}]"
            yield NameSpace.TENSOR, str(segment.pos), f"{path}.pos"
            yield NameSpace.TENSOR, str(segment.crd), f"{path}.crd"
            for index, tensor in enumerate(segment.by_position):
                yield NameSpace.TENSOR, str(tensor), f"{path}.by_position[{index}]"


def _first(findings: Iterator[Finding]) -> Iterator[Finding]:
    for _, finding in zip(range(LISTED_FINDINGS.largest), findings, strict=False):
        yield finding


def _listed(findings: list[Finding]) -> tuple[Finding, ...]:
    ordered = sorted(findings, key=_file_order)
    if len(ordered) <= LISTED_FINDINGS.largest:
        return tuple(ordered)
    expected = f"at most {LISTED_FINDINGS.largest} findings"
    more = _document(TOO_MANY_FINDINGS, expected, f"{len(ordered)} or more; the rest is left out")
    return (*ordered[: LISTED_FINDINGS.largest], more)


_SECTIONS = ("$.teir", "$.name", "$.tensors", "$.axes", "$.schedule", "$.primitives")


def _file_order(finding: Finding) -> tuple[int, list[tuple[int, str]]]:
    path = str(finding.place)
    section = path[: len(path)].split("[")[0].split(".")
    head = ".".join(section[:2])
    rank = _SECTIONS.index(head) if head in _SECTIONS else len(_SECTIONS)
    parts = re.split(r"(\d{1,15})", path)
    return rank, [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _document(rule: Any, expected: str, found: str) -> Finding:
    return Finding(rule=rule, place=RecordPlace(path="$"), expected=expected, found=found)


__all__ = ["decode_object", "decode_text", "dumps_records", "loads_records", "program_from_records"]
