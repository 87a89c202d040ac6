"""LLVM IR that computes one row from two fibres: their sum, or the product of what both store.

A step at a time: every step takes the lesser coordinate, and moves on in either fibre that has it.
Only the end of a fibre is a branch that is guessed.
"""

from __future__ import annotations

from teir.backends.llvm.fibre_steps import lengths_text, steps_text
from teir.backends.llvm.fibre_words import (
    SCALE_BYTES,
    TERM_WORDS,
    scale_text,
    two_fibres_text,
    two_spans_text,
)


def pair_text(width: int, number: str) -> str:
    """``teir_pair(terms, way, row, out, values)``: how many columns, -1 where there are too many.

    The way is 1 for the sum of two fibres, 2 for the product of what both store.
    """
    return f"""
define internal i64 @teir_pair(ptr %terms, i64 %way, i64 %r, ptr %out, ptr %values) nounwind {{
entry:
  %is.union = icmp eq i64 %way, 1
  %second = select i1 %is.union, i64 {8 * (TERM_WORDS + 1)}, i64 32
{two_fibres_text("%second")}{scale_text("scale", "terms", SCALE_BYTES, number)}
  %second.scale = select i1 %is.union, i64 {8 * TERM_WORDS + SCALE_BYTES}, i64 {SCALE_BYTES}
  %own.place = getelementptr i8, ptr %terms, i64 %second.scale
{scale_text("own", "own.place", 0, number)}
  %other.scale = select i1 %is.union, {number} %own, {number} 1.0
  %r.next = add i64 %r, 1
{two_spans_text(width)}{_steps_text(width, number)}}}"""


def _steps_text(width: int, number: str) -> str:
    value = f"""{_number("x", "%val", "%p", "%scale", number)}{
        _number("y", "%oval", "%q", "%other.scale", number)
    }
  %x.counted = select i1 %x.first, {number} %x.number, {number} 0.0
  %y.counted = select i1 %y.first, {number} %y.number, {number} 0.0
  %x.sum = fadd {number} %x.counted, 0.0
  %sum = fadd {number} %x.sum, %y.counted
  %zero.product = call {number} @{_fused(number)}({number} %x.number, {number} %y.number,
                                                  {number} 0.0)
  %made = select i1 %is.union, {number} %sum, {number} %zero.product
  %value.at = getelementptr {number}, ptr %values, i64 %n
  store {number} %made, ptr %value.at
"""
    return f"""{lengths_text()}long:
  ret i64 -1
{steps_text(width, value, lambda label: _rest_text(label, number))}"""


def _number(name: str, array: str, place: str, scale: str, number: str) -> str:
    """``%name.number``: a value with the sign of its term."""
    return f"""  %{name}.number.at = getelementptr {number}, ptr {array}, i64 {place}
  %{name}.stored = load {number}, ptr %{name}.number.at, align 1
  %{name}.number = fmul {number} {scale}, %{name}.stored
"""


def _rest_text(label: str, number: str) -> str:
    """The value beside what is left of one fibre."""
    values, scale = ("%val", "%scale") if label == "left" else ("%oval", "%other.scale")
    return f"""{_number(label, values, f"%{label}.at", scale, number)}
  %{label}.sum = fadd {number} %{label}.number, 0.0
  %{label}.value.at = getelementptr {number}, ptr %values, i64 %{label}.n
  store {number} %{label}.sum, ptr %{label}.value.at"""


def _fused(number: str) -> str:
    return f"llvm.fma.f{64 if number == 'double' else 32}"
