"""Transposing copies of few columns, of which a row of the output holds all: panels [k][columns].

    for every line of k:
      ask for the line of every column some lines ahead
      for every 128 bits of the line:
        128 bits of every column -> vectors -> rows of the output

Vector i holds 128 bits of columns i, i + p, i + 2 p, ..., p elements in 128 bits, so that turning
inside these leaves whole rows of the output, one in a vector. Squares would move what few columns
do not fill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    constants,
    prefetch,
    shift_pointer,
    vector,
)
from teir.backends.llvm.emit_transpose import SquareTile
from teir.lower.copy_kernels import TransposeCopy
from teir.target import LINE_BYTES

_PART_BYTES = 16
_WORDS = _PART_BYTES // 8
_AHEAD_BYTES = 2 * LINE_BYTES
"""How far ahead of what is read a line of every column is asked for."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """The elements of a row of the output from ``first`` on: ``count`` of those in ``value``."""

    value: str
    kind: str
    element_bytes: int
    lanes: int
    first: int
    count: int

    def store(self, text: FunctionText, row: str) -> None:
        place = shift_pointer(text, row, self.first * self.element_bytes)
        if self.count == self.lanes:
            text.effect(f"store {self.kind} {self.value}, ptr {place}, align 1")
            return
        mask = constants("i1", [int(lane < self.count) for lane in range(self.lanes)])
        name = f"@llvm.masked.store.v{self.lanes}i{8 * self.element_bytes}.p0"
        lanes = vector("i1", self.lanes)
        text.effect(
            f"call void {name}({self.kind} {self.value}, ptr {place}, i32 1, {lanes} {mask})"
        )


def emit_transpose_columns_body(kernel: TransposeCopy) -> FunctionText:
    """The body for operands %A (adjacent along m), %B (adjacent along n), `TransposeCopy`."""
    text = FunctionText()
    per_line = LINE_BYTES // kernel.element_bytes
    text.label("entry")
    text.effect(f"%m_last = sub i64 %m, {per_line}")
    text.effect("%narrow = icmp slt i64 %m_last, 0")
    starts = ["%A"]
    for _ in range(1, kernel.columns):
        starts.append(shift_pointer(text, starts[-1], "%in_n"))
    text.effect("br i1 %narrow, label %row, label %line")
    _emit_lines(text, kernel, starts, per_line)
    _emit_rows(text, kernel, starts)
    text.label("exit")
    text.effect("ret void")
    return text


def _emit_lines(
    text: FunctionText, kernel: TransposeCopy, starts: Sequence[str], per_line: int
) -> None:
    """Block %line: a line of every column; the last one is moved back over the one before."""
    width = kernel.element_bytes
    text.label("line")
    text.effect("%i = phi i64 [ 0, %entry ], [ %i_next, %line ]")
    text.effect("%i_line = call i64 @llvm.smin.i64(i64 %i, i64 %m_last)")
    text.effect(f"%a_bytes = mul i64 %i_line, {width}")
    text.effect("%b_bytes = mul i64 %i_line, %out_m")
    places = [shift_pointer(text, start, "%a_bytes") for start in starts]
    for place in places:
        prefetch(text, shift_pointer(text, place, _AHEAD_BYTES), Cache.FIRST)
    row = text.value("getelementptr i8, ptr %B, i64 %b_bytes")
    for at_bytes in range(0, LINE_BYTES, _PART_BYTES):
        for pieces in _turned(text, kernel, places, at_bytes):
            for piece in pieces:
                piece.store(text, row)
            row = shift_pointer(text, row, "%out_m")
    text.effect(f"%i_next = add i64 %i, {per_line}")
    text.effect("%i_more = icmp slt i64 %i_next, %m")
    text.effect("br i1 %i_more, label %line, label %exit")


def _turned(
    text: FunctionText, kernel: TransposeCopy, places: Sequence[str], at_bytes: int
) -> Iterator[list[_Piece]]:
    """The rows of the output made of 128 bits of every column, a line of elements in a piece."""
    width = kernel.element_bytes
    per_part, per_line = _PART_BYTES // width, LINE_BYTES // width
    pieces: list[list[_Piece]] = [[] for _ in range(per_part)]
    for first in range(0, kernel.columns, per_line):
        some = places[first : first + per_line]
        parts = 1 << (-(-len(some) // per_part) - 1).bit_length()
        tile = SquareTile(text, width, parts * per_part)
        vectors = [_joined(text, some[i::per_part], at_bytes, parts) for i in range(per_part)]
        rows = tile.transposed([[one] for one in vectors])
        for found, row in zip(pieces, rows, strict=True):
            found.append(_Piece(row, tile.kind, width, parts * per_part, first, len(some)))
    yield from pieces


def _joined(text: FunctionText, places: Sequence[str], at_bytes: int, parts: int) -> str:
    """128 bits at every place, end to end, as a vector of ``parts`` such parts."""
    kind = vector("i64", _WORDS)
    vectors = [
        text.value(f"load {kind}, ptr {shift_pointer(text, place, at_bytes)}, align 1")
        for place in places
    ]
    vectors += ["poison"] * (parts - len(vectors))
    words = _WORDS
    while len(vectors) > 1:
        kind = vector("i64", words)
        lanes = f"<{2 * words} x i32> {constants('i32', range(2 * words))}"
        vectors = [
            text.value(f"shufflevector {kind} {low}, {kind} {high}, {lanes}")
            for low, high in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        words *= 2
    return vectors[0]


def _emit_rows(text: FunctionText, kernel: TransposeCopy, starts: Sequence[str]) -> None:
    """Block %row: one row of the output, for less than a line of every column."""
    element = f"i{8 * kernel.element_bytes}"
    text.label("row")
    text.effect("%r = phi i64 [ 0, %entry ], [ %r_next, %row ]")
    text.effect(f"%a_row = mul i64 %r, {kernel.element_bytes}")
    text.effect("%b_row = mul i64 %r, %out_m")
    text.effect("%into = getelementptr i8, ptr %B, i64 %b_row")
    for column, start in enumerate(starts):
        place = shift_pointer(text, start, "%a_row")
        moved = text.value(f"load {element}, ptr {place}, align 1")
        place = shift_pointer(text, "%into", column * kernel.element_bytes)
        text.effect(f"store {element} {moved}, ptr {place}, align 1")
    text.effect("%r_next = add i64 %r, 1")
    text.effect("%r_more = icmp slt i64 %r_next, %m")
    text.effect("br i1 %r_more, label %row, label %exit")
