"""Rows in memory as the pieces that are read at once.

A row of whole vectors is read vector by vector. Where rows begin 16 bytes into a cache line, as
those of large arrays do that an allocator put behind a header of its own, every whole vector lies
in two lines. Pieces of other sizes lie in one line each and are all of the row:

    for sums     16 | 32 | 64 | 64 | ... | 64 | 16 bytes
    for a dot    16 | 32 | 32 | 32 | ... | 32 | 16 bytes

The chains of a dot then lie in two vectors, turned in a circle: a piece of 16 bytes holds the first
chains, or the last, and stands where the other pieces have them. Chains that are halved are half a
circle apart wherever it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_fibres import LINE_BYTES
from teir.backends.llvm.emit_lanes import Lanes, load
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, shuffle
from teir.dtypes import DataType

_QUARTER = LINE_BYTES // 4
_HALF = LINE_BYTES // 2


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements of a row, ``lanes`` from the byte ``byte`` on, in a vector of ``width`` elements.

    They begin in its lane ``first``, between zeros. ``chains`` is the number of the vector of
    chains they belong to.
    """

    byte: int
    lanes: Lanes
    width: int
    first: int
    chains: int


def vector_pieces(vectors: Sequence[Lanes]) -> list[Piece]:
    """One piece per vector."""
    return [
        Piece(number * one.count * one.data_type.width, one, one.count, 0, 0)
        for number, one in enumerate(vectors)
    ]


def sum_pieces_in_lines(data_type: DataType, row_bytes: int) -> list[Piece]:
    """The pieces of a row of sums, or of what is added, that begins 16 bytes into a line."""
    ends = (0, _QUARTER, *range(_QUARTER + _HALF, row_bytes - _QUARTER, LINE_BYTES))
    sizes = [to - at for at, to in zip(ends, (*ends[1:], row_bytes - _QUARTER), strict=True)]
    places = (*zip(ends, sizes, strict=True), (row_bytes - _QUARTER, _QUARTER))
    counts = [(byte, size // data_type.width) for byte, size in places]
    return [Piece(byte, Lanes(data_type, count), count, 0, 0) for byte, count in counts]


def dot_pieces_in_lines(data_type: DataType, row_bytes: int) -> list[Piece]:
    """The pieces of a row to be multiplied with another, 16 bytes into a line; two chains."""
    quarter, half = (Lanes(data_type, size // data_type.width) for size in (_QUARTER, _HALF))
    middle = [
        Piece(byte, half, half.count, 0, number % 2)
        for number, byte in enumerate(range(_QUARTER, row_bytes - _QUARTER, _HALF))
    ]
    before = Piece(0, quarter, half.count, quarter.count, 1)
    behind = Piece(row_bytes - _QUARTER, quarter, half.count, 0, len(middle) % 2)
    return [before, *middle, behind]


def load_piece(text: FunctionText, piece: Piece, row: str, element: str) -> str:
    """The vector with the piece of the row at ``row``."""
    count = piece.lanes.count
    loaded = load(text, piece.lanes, shift_pointer(text, row, piece.byte))
    if count == piece.width:
        return loaded
    lanes = [
        lane - piece.first if 0 <= lane - piece.first < count else count
        for lane in range(piece.width)
    ]
    return shuffle(text, element, count, loaded, "zeroinitializer", lanes)


def begin_inside_lines(text: FunctionText, rows: Sequence[str], strides: Sequence[str]) -> str:
    """Whether all rows at ``rows``, ``strides`` bytes apart, begin 16 bytes into a line."""
    off = "0"
    for row in rows:
        address = text.value(f"ptrtoint ptr {row} to i64")
        off = text.value(f"or i64 {off}, {text.value(f'xor i64 {address}, {_QUARTER}')}")
    for stride in strides:
        off = text.value(f"or i64 {off}, {stride}")
    low = text.value(f"and i64 {off}, {LINE_BYTES - 1}")
    return text.value(f"icmp eq i64 {low}, 0")
