"""overlap: what becomes of operands that share bytes with what is written (docs/safety.md G10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from teir.arrays.adapters import ArrayView
from teir.arrays.numpy_fields import address_of
from teir.arrays.operand import BoundOperand
from teir.errors import Rule, refuse, shown
from teir.pipeline.operands import bytes_of

OVERLAP = Rule(
    code="TEIR649",
    sentence="overlap is 'refuse' or 'copy'.",
    source="docs/safety.md G10",
)


class Overlap(Enum):
    """What a call does where memory that it reads is memory that it writes."""

    REFUSE = "refuse"
    """It raises, before anything is written."""
    COPY = "copy"
    """It reads a copy, made before anything is written."""


def checked_overlap(overlap: Any) -> Overlap:
    """The mode by its name. Raises TeirError (TEIR649) for what is none."""
    known = {mode.value: mode for mode in Overlap}
    if not isinstance(overlap, str) or overlap not in known:
        refuse(OVERLAP, "overlap", " or ".join(map(repr, known)), shown(overlap))
    return known[overlap]


Span = tuple[int, int]
"""The first byte and one past the last one."""


def meet(one: Span, other: Span) -> bool:
    """True where spans share a byte."""
    return one[0] < other[1] and other[0] < one[1]


def span_of(view: ArrayView) -> Span:
    """The addresses that the elements of ``view`` lie between."""
    low, high = view.span_bytes
    return view.address + low, view.address + high


def bound_apart(
    operands: Mapping[str, BoundOperand], written: frozenset[str], overlap: Any
) -> dict[str, BoundOperand]:
    """The operands of a program; with "copy" those it only reads lie apart from those it writes.

    Operands that are written stay where they are: two of them that overlap are refused later.
    """
    if checked_overlap(overlap) is Overlap.REFUSE:
        return dict(operands)
    spans = [_room(operand) for name, operand in operands.items() if name in written]
    return {
        name: _in_private_memory(operand)
        if name not in written and any(meet(span, _room(operand)) for span in spans)
        else operand
        for name, operand in operands.items()
    }


def _room(operand: BoundOperand) -> Span:
    return operand.address - operand.before_bytes, operand.address + operand.after_bytes


def _in_private_memory(operand: BoundOperand) -> BoundOperand:
    content = bytes_of(operand).copy()
    address = address_of(content) + operand.before_bytes
    return replace(operand, address=address, owner=content)
