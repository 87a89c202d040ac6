"""One strip of a `StreamCopy`: two squares above each other, a line wide, and the lines they fill.

A column of the strip has three vectors: what the group before left (kept), and its elements of the
two squares. A line begins ``shift`` elements into one of them and ends in the next:

    kept      first     second        shift = 3, lanes of 8
    ...01234  56789abc  defghijk
       [line 0 ][line 1  ]            the next group keeps the second vector

In the first and the last group of a column lines may begin before its first row or end behind its
last; there the three vectors go to memory and are written line by line, under masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_stream import PAST_CACHES
from teir.backends.llvm.emit_text import FunctionText, constants, shift_pointer, splat, vector
from teir.backends.llvm.emit_transpose import SquareTile
from teir.lower.copy_kernels import StreamCopy
from teir.target import LINE_BYTES

GROUP_SQUARES = 2
"""Squares above each other in a group: 32 rows of four bytes are as many streams as Golden Cove
follows, and pieces of two lines are the shortest that reach memory at full speed whatever the
stride."""
EDGE_BYTES = (GROUP_SQUARES + 2) * LINE_BYTES
"""Of a column: kept, first and second vector, and what a line behind them reads."""


@dataclass(frozen=True, slots=True)
class _Words:
    """The vectors of a line: as words of four or eight bytes, some to an element."""

    element_bytes: int

    @property
    def bits(self) -> int:
        return 32 if self.element_bytes == 4 else 64

    @property
    def count(self) -> int:
        return 8 * LINE_BYTES // self.bits

    @property
    def per_element(self) -> int:
        return 8 * self.element_bytes // self.bits

    @property
    def kind(self) -> str:
        return vector(f"i{self.bits}", self.count)

    @property
    def numbers(self) -> str:
        """The constant 0, 1, 2, ... of all words."""
        return constants(f"i{self.bits}", range(self.count))


def emit_strip(text: FunctionText, kernel: StreamCopy) -> None:
    """Blocks %strip_start to before %strip_end."""
    width = kernel.element_bytes
    words = _Words(width)
    lanes = LINE_BYTES // width
    text.write(f"""
strip_start:
%strip = phi i64 [ 0, %group ], [ %strip_next, %strip_end ]
%strip_column = call i64 @llvm.smin.i64(i64 %strip, i64 %last_column)
%strip_bytes = mul i64 %strip_column, {width}
%strip_in = getelementptr i8, ptr %plane_in, i64 %strip_bytes
%strip_lines = getelementptr i64, ptr %lines_at, i64 %strip
%strip_shifts = getelementptr i64, ptr %shifts_at, i64 %strip
%strip_kept_bytes = mul i64 %strip, {LINE_BYTES}
%strip_kept = getelementptr i8, ptr %kept_at, i64 %strip_kept_bytes
""")
    tile = SquareTile(text, width, lanes)
    squares = [_places(text, number * lanes, lanes) for number in range(GROUP_SQUARES)]
    column = 0
    for part in range(0, tile.parts, tile.pieces):
        columns = [
            tile.transposed([tile.loaded_piece(places, part) for places in tile.across(square)])
            for square in squares
        ]
        pairs = list(zip(*columns, strict=True))
        text.effect(f"br i1 %is_whole, label %whole{part}, label %keep{part}")
        text.label(f"whole{part}")
        for number, vectors in enumerate(pairs):
            _emit_lines(text, words, column + number, vectors)
        text.effect(f"br label %written{part}")
        text.label(f"keep{part}")
        for number, vectors in enumerate(pairs):
            _emit_edge(text, words, column + number, vectors)
        text.effect(f"br label %written{part}")
        text.label(f"written{part}")
        column += len(pairs)
    text.effect("br i1 %is_whole, label %strip_end, label %edge_column")
    _emit_edge_columns(text, words)


def _places(text: FunctionText, first: int, count: int) -> list[str]:
    """Where the rows of one square begin in the strip."""
    found = []
    for row in range(first, first + count):
        at = text.value(f"getelementptr i64, ptr %row_table, i64 {row}")
        offset = text.value(f"load i64, ptr {at}")
        found.append(text.value(f"getelementptr i8, ptr %strip_in, i64 {offset}"))
    return found


def _emit_lines(text: FunctionText, words: _Words, column: int, vectors: Sequence[str]) -> None:
    """Write the lines of one column, whole and past the caches, and keep what is left."""
    kept_at = shift_pointer(text, "%strip_kept", column * LINE_BYTES)
    kept = text.value(f"load {words.kind}, ptr {kept_at}, align {LINE_BYTES}")
    shift_at = shift_pointer(text, "%strip_shifts", 8 * column)
    shift = text.value(f"load i{words.bits}, ptr {shift_at}")
    if words.per_element > 1:
        shift = text.value(f"mul i{words.bits} {shift}, {words.per_element}")
    shifts = splat(text, f"i{words.bits}", shift, words.count)
    chosen = text.value(f"add {words.kind} {shifts}, {words.numbers}")
    line_at = shift_pointer(text, "%strip_lines", 8 * column)
    line_bytes = text.value(f"load i64, ptr {line_at}")
    line = text.value(f"getelementptr i8, ptr %plane_out, i64 {line_bytes}")
    line = text.value(f"getelementptr i8, ptr {line}, i64 %row_bytes")
    letter = "d" if words.bits == 32 else "q"
    for number, (left, right) in enumerate(zip((kept, *vectors), vectors, strict=False)):
        joined = text.value(
            f"call {words.kind} @llvm.x86.avx512.vpermi2var.{letter}.512"
            f"({words.kind} {left}, {words.kind} {chosen}, {words.kind} {right})"
        )
        place = shift_pointer(text, line, number * LINE_BYTES)
        how = f"align {LINE_BYTES}, {PAST_CACHES} !{{i32 1}}"
        text.effect(f"store {words.kind} {joined}, ptr {place}, {how}")
    text.effect(f"store {words.kind} {vectors[-1]}, ptr {kept_at}, align {LINE_BYTES}")


def _emit_edge(text: FunctionText, words: _Words, column: int, vectors: Sequence[str]) -> None:
    """Leave the squares' vectors of one column in memory."""
    for number, one in enumerate(vectors, start=1):
        place = shift_pointer(text, "%edges_at", column * EDGE_BYTES + number * LINE_BYTES)
        text.effect(f"store {words.kind} {one}, ptr {place}, align {LINE_BYTES}")


def _emit_edge_columns(text: FunctionText, words: _Words) -> None:
    """Blocks %edge_column and %edge_line: lines of which parts lie outside of the rows."""
    width = words.element_bytes
    lanes = LINE_BYTES // width
    text.write(f"""
edge_column:
%e = phi i64 [ 0, %written{_last_part(width)} ], [ %e_next, %edge_column_end ]
%e_bytes = mul i64 %e, {EDGE_BYTES}
%e_at = getelementptr i8, ptr %edges_at, i64 %e_bytes
%e_kept_bytes = mul i64 %e, {LINE_BYTES}
%e_kept_at = getelementptr i8, ptr %strip_kept, i64 %e_kept_bytes
%e_kept = load {words.kind}, ptr %e_kept_at, align {LINE_BYTES}
store {words.kind} %e_kept, ptr %e_at, align {LINE_BYTES}
%e_last_at = getelementptr i8, ptr %e_at, i64 {GROUP_SQUARES * LINE_BYTES}
%e_last = load {words.kind}, ptr %e_last_at, align {LINE_BYTES}
store {words.kind} %e_last, ptr %e_kept_at, align {LINE_BYTES}
%e_line_cell = getelementptr i64, ptr %strip_lines, i64 %e
%e_line = load i64, ptr %e_line_cell
%e_line_at = getelementptr i8, ptr %plane_out, i64 %e_line
%e_out = getelementptr i8, ptr %e_line_at, i64 %row_bytes
%e_shift_cell = getelementptr i64, ptr %strip_shifts, i64 %e
%e_shift = load i64, ptr %e_shift_cell
%e_shift_bytes = mul i64 %e_shift, {width}
%e_from = getelementptr i8, ptr %e_at, i64 %e_shift_bytes
%e_row_some = add i64 %row, %e_shift
%e_row = sub i64 %e_row_some, {lanes}
br label %edge_line
edge_line:
%l = phi i64 [ 0, %edge_column ], [ %l_next, %edge_line_end ]
%l_rows = mul i64 %l, {lanes}
%l_row = add i64 %e_row, %l_rows
%l_before = sub i64 0, %l_row
%l_after = sub i64 %row_count, %l_row
%l_low = call i64 @llvm.smax.i64(i64 %l_before, i64 0)
%l_high = call i64 @llvm.smin.i64(i64 %l_after, i64 {lanes})
%l_bytes = mul i64 %l, {LINE_BYTES}
%l_from = getelementptr i8, ptr %e_from, i64 %l_bytes
%l_out = getelementptr i8, ptr %e_out, i64 %l_bytes
%l_any = icmp slt i64 %l_low, %l_high
br i1 %l_any, label %edge_some, label %edge_line_end
edge_some:
%l_line = load {words.kind}, ptr %l_from, align 1
%l_count = sub i64 %l_high, %l_low
%l_is_full = icmp eq i64 %l_count, {lanes}
%l_is_whole = and i1 %l_is_full, %streaming
br i1 %l_is_whole, label %edge_whole, label %edge_part
edge_whole:
store {words.kind} %l_line, ptr %l_out, align {LINE_BYTES}, {PAST_CACHES} !{{i32 1}}
br label %edge_line_end
""")
    text.label("edge_part")
    low = _splat_words(text, words, "%l_low")
    high = _splat_words(text, words, "%l_high")
    begun = text.value(f"icmp sge {words.kind} {words.numbers}, {low}")
    going = text.value(f"icmp slt {words.kind} {words.numbers}, {high}")
    bits = vector("i1", words.count)
    mask = text.value(f"and {bits} {begun}, {going}")
    text.effect(
        f"call void @llvm.masked.store.v{words.count}i{words.bits}.p0"
        f"({words.kind} %l_line, ptr %l_out, i32 1, {bits} {mask})"
    )
    text.write(f"""
br label %edge_line_end
edge_line_end:
%l_next = add i64 %l, 1
%l_more = icmp slt i64 %l_next, %line_count
br i1 %l_more, label %edge_line, label %edge_column_end
edge_column_end:
%e_next = add i64 %e, 1
%e_more = icmp slt i64 %e_next, {lanes}
br i1 %e_more, label %edge_column, label %strip_end
""")


def _last_part(width: int) -> int:
    """The number of the last piece of a square: the blocks are named by it."""
    tile = SquareTile(FunctionText(), width, LINE_BYTES // width)
    return tile.parts - tile.pieces


def _splat_words(text: FunctionText, words: _Words, count: str) -> str:
    """``count`` elements as words, in every word of a vector."""
    number = text.value(f"mul i64 {count}, {words.per_element}")
    if words.bits < 64:
        number = text.value(f"trunc i64 {number} to i{words.bits}")
    return splat(text, f"i{words.bits}", number, words.count)
