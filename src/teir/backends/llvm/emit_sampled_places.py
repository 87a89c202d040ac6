"""How rows that are sampled and added lie in cache lines, and in which pieces they are read then.

Rows that begin inside a line are read in pieces that lie in one line each: vectors of a half and
less where processors halve whole ones anyway, else lines, the first and the last under masks. A
line takes one load and one multiply-add; on a Golden Cove core that is 0.92 of the time of smaller
pieces (rows of four vectors, 6 and 7 stored elements to a row, both gathered from beyond the second
cache). Rows of two vectors lost: three lines take as long as two vectors in two lines each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from teir.backends.llvm.emit_fibres import line_lanes
from teir.backends.llvm.emit_row_pieces import (
    Piece,
    dot_pieces_in_lines,
    emit_place_in_line,
    sum_pieces_in_lines,
    vector_pieces,
)
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.lower.walked_kernels import WalkedSampledSum
from teir.target import LINE_BYTES, Isa

_QUARTER = LINE_BYTES // 4
_LEAST_IN_PIECES = 3
"""Vectors of the shorter row from which pieces take less time than vectors in two lines each."""


@dataclass(frozen=True, slots=True)
class SampledRows:
    """Pointers to the rows, and the pieces they are read in: those of dots, then those of sums."""

    fixed: str
    sampled: str
    added: str
    sums: str
    dot_pieces: Sequence[Piece]
    pieces: Sequence[Piece]


@dataclass(frozen=True, slots=True)
class SampledPlace:
    """A way in which gathered rows lie: how they are read, and whether they lie so."""

    read: Callable[[SampledRows], SampledRows]
    chosen: str


def gains_by_pieces(kernel: WalkedSampledSum) -> bool:
    """Whether rows may be read in other pieces than vectors, and are long enough to gain by it."""
    is_whole = not kernel.masked and not kernel.dot_masked
    fills = kernel.lanes * kernel.data_type.width == LINE_BYTES
    return is_whole and fills and min(kernel.vectors, kernel.dot_vectors) >= _LEAST_IN_PIECES


def sampled_places(
    text: FunctionText, kernel: WalkedSampledSum, isa: Isa, rows: Sequence[str]
) -> tuple[SampledPlace, ...]:
    """All ways in which ``rows``, the sampled ones and those added, can lie."""
    dot, row = (
        emit_place_in_line(text, one, stride)
        for one, stride in zip(rows, ("%b_stride", "%d_stride"), strict=True)
    )
    if isa.multiplies_twice_a_cycle:
        return _line_places(text, kernel, dot, row)
    in_halves = text.value(f"and i64 {dot}, {_QUARTER}")
    places = []
    for is_apart, inside in product((False, True), range(0, LINE_BYTES, _QUARTER)):
        facts = (
            f"icmp eq i64 {in_halves}, {_QUARTER * is_apart}",
            f"icmp eq i64 {row}, {inside}",
        )
        read = partial(_in_pieces, kernel, is_apart, inside)
        places.append(SampledPlace(read, _both(text, facts)))
    return tuple(places)


def _line_places(
    text: FunctionText, kernel: WalkedSampledSum, dot: str, row: str
) -> tuple[SampledPlace, ...]:
    """Rows that begin ``dot`` and ``row`` bytes into a line, or with one."""
    places = []
    for dot_is_inside, row_is_inside in product((False, True), repeat=2):
        facts = [
            f"icmp {'ne' if is_inside else 'eq'} i64 {one}, 0"
            for one, is_inside in ((dot, dot_is_inside), (row, row_is_inside))
        ]
        read = partial(_in_lines, text, kernel, dot_is_inside, row_is_inside)
        places.append(SampledPlace(read, _both(text, facts)))
    return tuple(places)


def _both(text: FunctionText, facts: Sequence[str]) -> str:
    one, other = (text.value(fact) for fact in facts)
    return text.value(f"and i1 {one}, {other}")


def _in_pieces(
    kernel: WalkedSampledSum, dot_is_apart: bool, row_inside: int, rows: SampledRows
) -> SampledRows:
    """Rows in pieces of a line and less: sampled ones begin 16 or 48 bytes into one or not, those
    that are added ``row_inside`` bytes."""
    data_type, row_bytes = kernel.data_type, kernel.vectors * LINE_BYTES
    dot_pieces = rows.dot_pieces
    if dot_is_apart:
        dot_pieces = dot_pieces_in_lines(data_type, kernel.dot_vectors * LINE_BYTES)
    pieces = sum_pieces_in_lines(data_type, row_bytes, row_inside)
    return replace(rows, dot_pieces=dot_pieces, pieces=pieces)


def _in_lines(
    text: FunctionText,
    kernel: WalkedSampledSum,
    dot_is_inside: bool,
    row_is_inside: bool,
    rows: SampledRows,
) -> SampledRows:
    """Rows line by line, pointers to what is read or written with them moved as far back.

    The chains of a dot are turned in a circle then; halved they are half of one apart all the same.
    """

    def lines(row: str, vectors: int) -> tuple[list[Piece], str]:
        inside, lanes = line_lanes(text, kernel.data_type, kernel.lanes, vectors, row)
        return vector_pieces(lanes), text.value(f"sub i64 0, {inside}")

    if dot_is_inside:
        pieces, back = lines(rows.sampled, kernel.dot_vectors)
        fixed, sampled = (shift_pointer(text, one, back) for one in (rows.fixed, rows.sampled))
        rows = replace(rows, fixed=fixed, sampled=sampled, dot_pieces=pieces)
    if row_is_inside:
        pieces, back = lines(rows.added, kernel.vectors)
        added, sums = (shift_pointer(text, one, back) for one in (rows.added, rows.sums))
        rows = replace(rows, added=added, sums=sums, pieces=pieces)
    return rows
