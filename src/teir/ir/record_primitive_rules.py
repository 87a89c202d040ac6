"""Primitive and scratch rules on a record file, one function per rule, and operand defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import assert_never

from msgspec import UNSET

from teir.errors import Finding
from teir.ir.name_rules import NameSpace, shown
from teir.ir.nodes import Operation, Role
from teir.ir.record_entries import Entries
from teir.ir.record_form import PrimitiveRecord
from teir.ir.record_rules import (
    OPERANDS_GIVEN,
    ROLE_NAME,
    ROLE_REQUIRED,
    SCRATCH_OWNER,
)
from teir.ir.roles import allowed_roles, required_roles

_INPUT = re.compile(r"in(0|[1-9][0-9]*)")

Operands = tuple[tuple[str, ...], str]
"""Inputs and output of a primitive."""


def role_required(entries: Entries) -> Iterator[Finding]:
    """A primitive defines a role list for every role required by its operation."""
    for entry in entries.primitives:
        for role in required_roles(entry.record.operation):
            if role.value not in entry.record.axes:
                yield Finding(
                    rule=ROLE_REQUIRED,
                    place=entry.place(".axes"),
                    expected=f"a list for role {role.value} of {entry.record.operation.value}",
                    found="none",
                    hint="an empty list will do",
                )


def role_name(entries: Entries) -> Iterator[Finding]:
    """A role is C, M, N or K, and belongs to the operation."""
    for entry in entries.primitives:
        allowed = [role.value for role in allowed_roles(entry.record.operation)]
        for role in entry.record.axes:
            if role not in allowed:
                yield Finding(
                    rule=ROLE_NAME,
                    place=entry.place(".axes"),
                    expected=f"the roles {', '.join(allowed)} of {entry.record.operation.value}",
                    found=shown(role),
                )


def scratch_owner(entries: Entries) -> Iterator[Finding]:
    """A scratch tensor's owner is an iteration node, or null for the whole run."""
    if NameSpace.NODE not in entries.complete:
        return
    owners = {str(entry.record.id) for entry in entries.iterations}
    for entry in entries.tensors:
        owner = entry.record.scratch
        if owner is not UNSET and owner is not None and str(owner) not in owners:
            yield Finding(
                rule=SCRATCH_OWNER,
                place=entry.place(".scratch"),
                expected="an iteration node or null",
                found=shown(str(owner)),
            )


def operands_given(entries: Entries) -> Iterator[Finding]:
    """A primitive names its operands unless the defaults apply."""
    if not {NameSpace.TENSOR, NameSpace.PRIMITIVE} <= entries.complete:
        return
    inputs = default_inputs(entries)
    contracts = has_contraction(entries)
    for entry in entries.primitives:
        if given_operands(entry.record) is None and (
            inputs is None or default_operands(entry.record.operation, inputs, contracts) is None
        ):
            names = ", ".join(str(each.record.id) for each in entries.tensors[:8])
            yield Finding(
                rule=OPERANDS_GIVEN,
                place=entry.place(".metadata"),
                expected='{"operands": {"in": [...], "out": ...}}',
                found=f"none, with the tensors {names}",
            )


def given_operands(record: PrimitiveRecord) -> Operands | None:
    """The operands a primitive names, None where it names none."""
    if record.metadata is UNSET or record.metadata.operands is UNSET:
        return None
    operands = record.metadata.operands
    return tuple(map(str, operands.inputs)), str(operands.out)


def default_inputs(entries: Entries) -> tuple[str, ...] | None:
    """The inputs in number order; None where scratch or another name rules the defaults out."""
    names = [str(entry.record.id) for entry in entries.tensors]
    has_scratch = any(entry.record.scratch is not UNSET for entry in entries.tensors)
    inputs = [name for name in names if _INPUT.fullmatch(name)]
    if has_scratch or "out" not in names or len(inputs) + 1 != len(names):
        return None
    return tuple(sorted(inputs, key=lambda name: int(name[2:])))


def has_contraction(entries: Entries) -> bool:
    return any(entry.record.operation is Operation.CONTRACTION for entry in entries.primitives)


def default_operands(
    operation: Operation, inputs: tuple[str, ...], contracts: bool
) -> Operands | None:
    """What a primitive without operands reads and writes; None where there is no such input."""
    match operation:
        case Operation.ZERO:
            return (), "out"
        case Operation.RELU if contracts:
            return ("out",), "out"
        case Operation.COPY | Operation.RELU:
            return (("in0",), "out") if "in0" in inputs else None
        case Operation.CONTRACTION:
            return (inputs, "out") if inputs else None
        case (
            Operation.ADD
            | Operation.SUB
            | Operation.MUL
            | Operation.DIV
            | Operation.MIN
            | Operation.MAX
        ):
            return (("in0", "in1"), "out") if {"in0", "in1"} <= set(inputs) else None
        case _:
            assert_never(operation)


def role_axes(record: PrimitiveRecord, role: Role) -> tuple[str, ...]:
    return tuple(map(str, record.axes.get(role.value, ())))


PRIMITIVE_RULES = (
    (ROLE_REQUIRED, role_required),
    (ROLE_NAME, role_name),
    (SCRATCH_OWNER, scratch_owner),
    (OPERANDS_GIVEN, operands_given),
)
