"""Copies of short rows: whole pieces, no masks and no loop inside a row.

    for every o
      for every n, some rows at a time
        piece 0, piece 1, ..., the piece that ends the row

A row of 27 doubles is three pieces of 64 bytes and one more that ends where it ends. All of a row
is loaded before it is stored: input and output may be the same memory.
"""

from __future__ import annotations

from functools import partial

from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, vector
from teir.lower.copy_kernels import RowCopy

ROW_COPY_ARGUMENTS = ("row_bytes", "n", "in_n", "out_n", "o", "in_o", "out_o")

_ROWS_AT_ONCE = (4, 1)
_MOST_AT_ONCE = 8
"""Pieces that hide a loop."""
_WORD_BYTES = 8


def emit_row_copy_body(kernel: RowCopy) -> FunctionText:
    """The body for operands %A, %B and the arguments of `RowCopy`."""
    text = FunctionText()
    text.label("entry")
    text.define("%last", f"sub i64 %row_bytes, {kernel.piece_bytes}")
    carried = [Carried("ptr", "%A"), Carried("ptr", "%B")]
    emit_loop(text, "outer", "%o", 1, carried, partial(_rows, text, kernel))
    text.effect("ret void")
    return text


def _rows(text: FunctionText, kernel: RowCopy, starts: Values) -> Values:
    """All rows of one o, and where those of the next begin."""
    left, places = "%n", starts
    for count in _ROWS_AT_ONCE:
        if count > 1 and count * kernel.pieces > _MOST_AT_ONCE:
            continue
        carried = [Carried("ptr", place) for place in places]
        body = partial(_some_rows, text, kernel, count)
        left, places = emit_loop(text, f"rows{count}", left, count, carried, body)
    source, target = starts
    return [shift_pointer(text, source, "%in_o"), shift_pointer(text, target, "%out_o")]


def _some_rows(text: FunctionText, kernel: RowCopy, count: int, places: Values) -> Values:
    kind = _piece_kind(kernel.piece_bytes)
    offsets: list[int | str] = [piece * kernel.piece_bytes for piece in range(kernel.pieces)]
    if kernel.pieces > 1:
        offsets[-1] = "%last"
    for _ in range(count):
        source, target = places
        moved = []
        for offset in offsets:
            place = shift_pointer(text, source, offset)
            moved.append(text.value(f"load {kind}, ptr {place}, align 1"))
        for offset, piece in zip(offsets, moved, strict=True):
            place = shift_pointer(text, target, offset)
            text.effect(f"store {kind} {piece}, ptr {place}, align 1")
        places = [shift_pointer(text, source, "%in_n"), shift_pointer(text, target, "%out_n")]
    return places


def _piece_kind(piece_bytes: int) -> str:
    if piece_bytes <= _WORD_BYTES:
        return f"i{8 * piece_bytes}"
    return vector("i64", piece_bytes // _WORD_BYTES)
