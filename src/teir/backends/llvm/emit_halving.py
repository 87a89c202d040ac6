"""Chains of sums halved until one is left, several rows side by side.

    row 0   a b c d            a+c b+d | e+g f+h         a+c+b+d | e+g+f+h
    row 1   e f g h      ->                        ->

Two vectors with the chains of different rows become one of the same width: both halves of the
additions are then useful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_products import Arithmetic
from teir.backends.llvm.emit_text import FunctionText, shuffle, vector


@dataclass(frozen=True, slots=True)
class Pack:
    """A vector with the chains of ``rows`` rows side by side, ``segment`` numbers each."""

    value: str
    rows: int
    segment: int


def emit_halving(
    text: FunctionText, kind: Arithmetic, rows: Sequence[Sequence[str]], numbers: int
) -> list[Pack]:
    """Every row's vectors of chains as one element of ``numbers`` numbers; the rows keep order.

    The number of rows, and of vectors of a row, is a power of two.
    """
    packs = [Pack(_one_vector(text, kind, row), 1, kind.count) for row in rows]
    while packs[0].segment > numbers:
        packs = [_halved(text, kind, packs[at : at + 2]) for at in range(0, len(packs), 2)]
    return packs


def _one_vector(text: FunctionText, kind: Arithmetic, chains: Sequence[str]) -> str:
    """The chains of one row, which lie in several vectors, added to one vector's."""
    left = list(chains)
    while len(left) > 1:
        half = len(left) // 2
        left = [
            text.value(f"fadd {kind.kind} {one}, {other}")
            for one, other in zip(left[:half], left[half:], strict=True)
        ]
    return left[0]


def _halved(text: FunctionText, kind: Arithmetic, packs: Sequence[Pack]) -> Pack:
    """The upper half of every row's chains added to the lower; one or two packs become one."""
    rows, segment = packs[0].rows, packs[0].segment
    half, width, element = segment // 2, rows * segment, kind.element
    starts = range(0, len(packs) * width, segment)
    lower = [start + number for start in starts for number in range(half)]
    upper = [number + half for number in lower]
    values = [pack.value for pack in packs] + ["poison"]
    low = shuffle(text, element, width, values[0], values[1], lower)
    high = shuffle(text, element, width, values[0], values[1], upper)
    total = text.value(f"fadd {vector(element, len(lower))} {low}, {high}")
    return Pack(total, rows * len(packs), half)
