"""Rows in memory as the pieces that are read at once.

A row of whole vectors is read vector by vector. Where rows begin inside a cache line, as those of
arrays do that an allocator put behind a header of its own, every whole vector lies in two lines.
Pieces of other sizes lie in one line each and are all of the row. For sums, by where rows begin:

    16    16 | 32 | 64 | 64 | ... | 64 | 16 bytes
    32    32 | 64 | 64 | ... | 64 | 32
    48    16 | 64 | 64 | ... | 64 | 32 | 16

For a dot, where they begin 16 or 48 bytes into a line:

          16 | 32 | 32 | 32 | ... | 32 | 16

The chains of a dot then lie in two vectors, turned in a circle: a piece of 16 bytes holds the first
chains, or the last, and stands where the other pieces have them. Chains that are halved are half a
circle apart wherever it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_lanes import Lanes, load
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, shuffle
from teir.dtypes import DataType
from teir.target import LINE_BYTES

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


def sum_pieces_in_lines(data_type: DataType, row_bytes: int, inside: int) -> list[Piece]:
    """The pieces of a row of sums, or of what is added, ``inside`` bytes into a line."""
    pieces: list[Piece] = []
    byte = 0
    while byte < row_bytes:
        left, size = row_bytes - byte, LINE_BYTES
        while (inside + byte) % size or size > left:
            size //= 2
        count = size // data_type.width
        pieces.append(Piece(byte, Lanes(data_type, count), count, 0, 0))
        byte += size
    return pieces


def dot_pieces_in_lines(data_type: DataType, row_bytes: int) -> list[Piece]:
    """The pieces of a row to be multiplied with another, 16 or 48 bytes into a line; two chains."""
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


def emit_place_in_line(text: FunctionText, row: str, stride: str) -> str:
    """How far into a line rows begin: 0, 16, 32 or 48 bytes; 0 where not all rows do so."""
    address = text.value(f"ptrtoint ptr {row} to i64")
    lines = text.value(f"or i64 {stride}, {text.value(f'and i64 {address}, {_QUARTER - 1}')}")
    differs = text.value(f"icmp ne i64 {text.value(f'and i64 {lines}, {LINE_BYTES - 1}')}, 0")
    inside = text.value(f"and i64 {address}, {LINE_BYTES - 1}")
    return text.value(f"select i1 {differs}, i64 0, i64 {inside}")
