"""Rows copied one after another, in lines written past the caches.

for every o
  for every n
    the elements before the first line, the lines, those behind the last one
"""

from __future__ import annotations

from teir.backends.llvm.emit_opaque import hidden
from teir.backends.llvm.emit_stream import Stream, emit_fence, emit_piece, emit_stream_mode
from teir.backends.llvm.emit_text import FunctionText
from teir.lower.copy_kernels import StreamRows
from teir.target import Isa


def emit_stream_rows_body(kernel: StreamRows, isa: Isa) -> FunctionText:
    """The body for operands %A, %B and the arguments of `StreamRows`.

    Where a row begins is hidden from LLVM, as where a piece does (`emit_pieces`).
    """
    text = FunctionText()
    text.label("entry")
    text.define("%stream", "add i64 0, 1")
    emit_stream_mode(text, kernel.element_bytes, ("%out_n", "%out_o"))
    text.define("%piece_count", f"udiv i64 %row_bytes, {kernel.element_bytes}")
    text.write("""
br label %outer
outer:
%outer_left = phi i64 [ %o, %entry ], [ %outer_less, %outer_next ]
%outer_from = phi ptr [ %A, %entry ], [ %outer_from_next, %outer_next ]
%outer_to = phi ptr [ %B, %entry ], [ %outer_to_next, %outer_next ]
br label %row
row:
%rows_left = phi i64 [ %n, %outer ], [ %rows_less, %row_done ]
%row_from = phi ptr [ %outer_from, %outer ], [ %row_from_next, %row_done ]
%row_to = phi ptr [ %outer_to, %outer ], [ %row_to_next, %row_done ]
""")
    text.define("%piece_from", hidden("ptr", "%row_from"))
    text.define("%piece_to", hidden("ptr", "%row_to"))
    emit_piece(text, Stream(isa, kernel.element_bytes), "row_done")
    text.write("""
row_done:
%row_from_next = getelementptr i8, ptr %row_from, i64 %in_n
%row_to_next = getelementptr i8, ptr %row_to, i64 %out_n
%rows_less = sub i64 %rows_left, 1
%more_rows = icmp sgt i64 %rows_less, 0
br i1 %more_rows, label %row, label %outer_next
outer_next:
%outer_from_next = getelementptr i8, ptr %outer_from, i64 %in_o
%outer_to_next = getelementptr i8, ptr %outer_to, i64 %out_o
%outer_less = sub i64 %outer_left, 1
%more_outer = icmp sgt i64 %outer_less, 0
br i1 %more_outer, label %outer, label %finish
""")
    text.label("finish")
    emit_fence(text)
    text.effect("ret void")
    return text
