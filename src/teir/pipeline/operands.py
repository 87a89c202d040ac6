"""The caller's arrays as the operands of a program."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from teir.arrays.operand import GIVEN, BoundOperand, bind_operand
from teir.errors import Finding, Rule, TeirError, at_argument
from teir.ir.nodes import Program

UNKNOWN_OPERAND = Rule(
    code="TEIR704",
    sentence="Every operand given is a tensor of the program.",
    source="section 10.6",
)
OPERANDS_MAPPED = Rule(
    code="TEIR705",
    sentence="Operands are given as a mapping from tensor names to arrays.",
    source="section 10.6",
)


def written_tensors(program: Program) -> frozenset[str]:
    """The names of the tensors some primitive writes."""
    return frozenset(map(attrgetter("output"), program.primitives))


def bind_operands(
    program: Program, operands: Mapping[str, Any], written: frozenset[str]
) -> dict[str, BoundOperand]:
    """Every tensor's operand. Raises TeirError with all refusals."""
    if not isinstance(operands, Mapping):
        raise TeirError((_not_a_mapping(operands),))
    names = {tensor.name for tensor in program.tensors}
    findings = [_unknown(name, names) for name in operands if name not in names]
    bound: dict[str, BoundOperand] = {}
    for tensor in program.tensors:
        if tensor.name not in operands:
            findings.append(_missing(tensor.name))
            continue
        try:
            bound[tensor.name] = bind_operand(
                tensor.name, operands[tensor.name], tensor.data_type, tensor.name in written
            )
        except TeirError as error:
            findings += error.findings
    if findings:
        raise TeirError(tuple(findings))
    return bound


def bytes_of(operand: BoundOperand) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The operand's memory as an array, the room before its base included."""
    size = operand.before_bytes + operand.after_bytes
    start = operand.address - operand.before_bytes
    return np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(start))


def _unknown(name: object, names: set[str]) -> Finding:
    expected = "one of " + ", ".join(sorted(names))
    return at_argument(UNKNOWN_OPERAND, str(name), expected, repr(name))


def _missing(name: str) -> Finding:
    return at_argument(GIVEN, name, "an array", "none given by this name")


def _not_a_mapping(operands: object) -> Finding:
    expected = "a mapping from tensor names to arrays"
    return at_argument(OPERANDS_MAPPED, "operands", expected, type(operands).__name__)
