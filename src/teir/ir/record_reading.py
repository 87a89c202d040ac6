"""JSON values read into the classes of `teir.ir.record_form`, with every misfit reported.

msgspec itself stops at the first misfit; this reader walks msgspec's own description of the
classes, so that there is one definition of the record form.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import NODEFAULT
from msgspec import inspect as shape

from teir.dtypes import DataType
from teir.errors import Finding, RecordPlace, Rule
from teir.ir.json_scan import path_step
from teir.ir.limits import IDENTIFIER_BYTES, LISTED_FINDINGS
from teir.ir.name_rules import shown
from teir.ir.nodes import Operation, Policy
from teir.ir.reading_rules import IDENTIFIER_LENGTH
from teir.ir.record_rules import (
    DATA_TYPE,
    FIELD_KNOWN,
    FIELD_REQUIRED,
    FIELD_TYPE,
    OPERATION,
    POLICY,
)

_Record = TypeVar("_Record", bound=msgspec.Struct)

_ENUM_RULES: Mapping[type[Enum], Rule] = {
    DataType: DATA_TYPE,
    Operation: OPERATION,
    Policy: POLICY,
}


def read_record(
    value: object, record: type[_Record], path: str, findings: list[Finding]
) -> _Record | None:
    """``value`` as a ``record``; None, and findings added, where it does not fit."""
    before = len(findings)
    result = _read(value, _described(record), path, findings)
    if len(findings) > before:
        return None
    assert isinstance(result, record)
    return result


@cache
def _described(record: type) -> shape.Type:
    return shape.type_info(record)


def _read(value: object, type_: shape.Type, path: str, findings: list[Finding]) -> Any:
    """The value in its form; what it is after a finding was added does not matter."""
    match type_:
        case shape.StructType():
            return _read_struct(value, type_, path, findings)
        case shape.VarTupleType():
            return _read_array(value, type_, path, findings)
        case shape.DictType():
            return _read_map(value, type_, path, findings)
        case shape.EnumType():
            return _read_enum(value, type_, path, findings)
        case shape.UnionType():
            return _read_union(value, type_, path, findings)
        case shape.Metadata():
            return _read(value, type_.type, path, findings)
        case shape.IntType():
            return value if type(value) is int else _misfit("an integer", value, path, findings)
        case shape.StrType():
            return value if isinstance(value, str) else _misfit("a text", value, path, findings)
        case _:
            raise AssertionError(f"the record form has no field of type {type_}")


def _read_struct(value: object, type_: shape.StructType, path: str, findings: list[Finding]) -> Any:
    if not isinstance(value, dict):
        return _misfit("an object", value, path, findings)
    before = len(findings)
    fields: dict[str, Any] = {}
    for part in type_.fields:
        inner = f"{path}.{part.encode_name}"
        if part.encode_name in value:
            fields[part.name] = _read(value[part.encode_name], part.type, inner, findings)
        elif part.required and part.default is NODEFAULT:
            findings.append(
                Finding(
                    rule=FIELD_REQUIRED,
                    place=RecordPlace(path=inner),
                    expected=f"the field {part.encode_name}",
                    found="none",
                )
            )
    if type_.forbid_unknown_fields:
        _report_unknown(value, type_, path, findings)
    return type_.cls(**fields) if len(findings) == before else None


def _report_unknown(
    value: dict[str, object], type_: shape.StructType, path: str, findings: list[Finding]
) -> None:
    known = [part.encode_name for part in type_.fields]
    for key in value:
        if len(findings) > LISTED_FINDINGS.largest:
            return
        if key not in known:
            findings.append(
                Finding(
                    rule=FIELD_KNOWN,
                    place=RecordPlace(path=path + path_step(key)),
                    expected=f"one of the fields {', '.join(known)}",
                    found=shown(key),
                )
            )


def _read_array(
    value: object, type_: shape.VarTupleType, path: str, findings: list[Finding]
) -> Any:
    if not isinstance(value, list):
        return _misfit("an array", value, path, findings)
    if isinstance(type_.item_type, shape.IntType) and all(type(item) is int for item in value):
        return tuple(value)
    if isinstance(type_.item_type, shape.UnionType | shape.StrType) and all(map(_is_short, value)):
        return tuple(value)
    items: list[Any] = []
    for index, item in enumerate(value):
        if len(findings) > LISTED_FINDINGS.largest:
            break
        items.append(_read(item, type_.item_type, f"{path}[{index}]", findings))
    return tuple(items)


def _is_short(item: object) -> bool:
    """Whether this is a text that no rule on identifiers can refuse."""
    return isinstance(item, str) and len(item) <= IDENTIFIER_BYTES.largest // 4


def _read_map(value: object, type_: shape.DictType, path: str, findings: list[Finding]) -> Any:
    if not isinstance(value, dict):
        return _misfit("an object", value, path, findings)
    return {
        key: _read(item, type_.value_type, path + path_step(key), findings)
        for key, item in value.items()
    }


def _read_enum(value: object, type_: shape.EnumType, path: str, findings: list[Finding]) -> Any:
    known = {member.value: member for member in type_.cls}
    if isinstance(value, str) and value in known:
        return known[value]
    findings.append(
        Finding(
            rule=_ENUM_RULES[type_.cls],
            place=RecordPlace(path=path),
            expected=f"one of {', '.join(known)}",
            found=shown(value),
        )
    )
    return None


def _read_union(value: object, type_: shape.UnionType, path: str, findings: list[Finding]) -> Any:
    options = [option for option in type_.types if not isinstance(option, shape.NoneType)]
    if value is None and len(options) < len(type_.types):
        return None
    if len(options) == 1:
        return _read(value, options[0], path, findings)
    return _identifier(value, path, findings)


def _identifier(value: object, path: str, findings: list[Finding]) -> Any:
    """The one union of the record form beside null: a text, or an integer read as its text."""
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        return _misfit("an identifier (a text or an integer)", value, path, findings)
    if len(value) > IDENTIFIER_BYTES.largest // 4:
        size = len(value.encode())
        if size > IDENTIFIER_BYTES.largest:
            findings.append(
                Finding(
                    rule=IDENTIFIER_LENGTH,
                    place=RecordPlace(path=path),
                    expected=f"at most {IDENTIFIER_BYTES.largest} bytes",
                    found=f"{size} bytes",
                )
            )
    return value


def _misfit(expected: str, value: object, path: str, findings: list[Finding]) -> None:
    findings.append(
        Finding(
            rule=FIELD_TYPE,
            place=RecordPlace(path=path),
            expected=expected,
            found=shown(value),
        )
    )
