"""Permutations that read rows side by side and write lines past the caches at once.

    for every plane of the outer axes:
      note where the first line of every column begins
      for every group of rows, two lines high:
        for every strip of columns, one line wide:
          transpose the strip in registers
          write the lines it completes with what the group before left of them
          keep what it leaves, a line for every column

Rows that are read side by side, in pieces of some KB, come from memory as streams that the
processor follows by itself; a tile that is as high as wide has too many rows for that. Lines may
be written alone: past the caches the order in which whole lines come does not matter.

A column may start anywhere in a line: a group writes its column up to the last whole line, and the
group after goes on there. The columns of the last strip are moved back over their neighbours and
have places of their own for what is kept, so that what is written twice is equal.
"""

from __future__ import annotations

from teir.backends.llvm.emit_stream import emit_fence, emit_offset_table, emit_stream_mode
from teir.backends.llvm.emit_stream_planes import emit_plane, emit_plane_end
from teir.backends.llvm.emit_stream_strip import GROUP_SQUARES, emit_strip
from teir.backends.llvm.emit_text import FunctionText
from teir.lower.copy_kernels import PERMUTE_AXES, PERMUTE_OUTER_AXES, StreamCopy
from teir.lower.stream_room import stream_copy_room
from teir.target import LINE_BYTES

STREAM_COPY_ARGUMENTS = (
    *(f"{name}{axis}" for name in ("r", "r_in", "c", "c_out") for axis in range(PERMUTE_AXES)),
    *(f"{name}{axis}" for name in ("o", "o_in", "o_out") for axis in range(PERMUTE_OUTER_AXES)),
)


def emit_stream_copy_body(kernel: StreamCopy) -> FunctionText:
    """The body for operands %A, %B and %C; arguments as the kernel's docstring names them."""
    text = FunctionText()
    text.label("entry")
    for name, start in stream_copy_room().items():
        text.effect(f"%{name}_at = getelementptr i8, ptr %C, i64 {start}")
    text.effect("%stream = add i64 1, 0")
    emit_offset_table(text, "row", "%rows_at", "r", "r_in", "row_rest")
    _emit_row_rest(text, GROUP_SQUARES * LINE_BYTES // kernel.element_bytes)
    emit_offset_table(text, "column", "%columns_at", "c", "c_out", "prepare")
    text.label("prepare")
    starts = ("%c_out0", "%c_out1", "%c_out2", "%o_out0", "%o_out1")
    emit_stream_mode(text, kernel.element_bytes, starts)
    _emit_planes(text, kernel)
    _emit_first_lines(text, kernel)
    _emit_groups(text, kernel)
    emit_strip(text, kernel)
    _emit_ends(text, kernel)
    text.label("finish")
    emit_fence(text)
    text.effect("ret void")
    return text


def _emit_row_rest(text: FunctionText, rows: int) -> None:
    """The last group of ``rows`` reads the last row again where it has no more."""
    text.write(f"""
row_rest:
%last_row = sub i64 %row_count, 1
%last_row_cell = getelementptr i64, ptr %rows_at, i64 %last_row
%last_row_offset = load i64, ptr %last_row_cell
br label %row_again
row_again:
%again = phi i64 [ %row_count, %row_rest ], [ %again_next, %row_again ]
%again_cell = getelementptr i64, ptr %rows_at, i64 %again
store i64 %last_row_offset, ptr %again_cell
%again_next = add i64 %again, 1
%again_in_group = and i64 %again_next, {rows - 1}
%again_more = icmp ne i64 %again_in_group, 0
br i1 %again_more, label %row_again, label %column_table
column_table:
""")


def _emit_planes(text: FunctionText, kernel: StreamCopy) -> None:
    """Block %plane: one step of the outer axes, the first fastest."""
    lanes = LINE_BYTES // kernel.element_bytes
    text.write(f"""
%slots_up = add i64 %column_count, {lanes - 1}
%slots = and i64 %slots_up, {-lanes}
%last_column = sub i64 %column_count, {lanes}
br label %plane
""")
    emit_plane(text, "prepare", "slot")


def _emit_first_lines(text: FunctionText, kernel: StreamCopy) -> None:
    """Block %slot: of every column the line before its first, and the rows before that ends.

    Lines are kept as bytes from the plane's first: an address is made of the operand's pointer.
    """
    width = kernel.element_bytes
    lanes = LINE_BYTES // width
    text.write(f"""
slot:
%k = phi i64 [ 0, %plane ], [ %k_next, %slot ]
%k_strip = and i64 %k, {-lanes}
%k_inside = and i64 %k, {lanes - 1}
%k_start = call i64 @llvm.smin.i64(i64 %k_strip, i64 %last_column)
%k_column = add i64 %k_start, %k_inside
%k_cell = getelementptr i64, ptr %columns_at, i64 %k_column
%k_offset = load i64, ptr %k_cell
%k_out = getelementptr i8, ptr %plane_out, i64 %k_offset
%k_address = ptrtoint ptr %k_out to i64
%k_negative = sub i64 0, %k_address
%k_ahead = and i64 %k_negative, {LINE_BYTES - 1}
%k_ahead_bytes = select i1 %streaming, i64 %k_ahead, i64 0
%k_shift = udiv i64 %k_ahead_bytes, {width}
%k_back = sub i64 %k_ahead_bytes, {LINE_BYTES}
%k_line = add i64 %k_offset, %k_back
%k_line_cell = getelementptr i64, ptr %lines_at, i64 %k
store i64 %k_line, ptr %k_line_cell
%k_shift_cell = getelementptr i64, ptr %shifts_at, i64 %k
store i64 %k_shift, ptr %k_shift_cell
%k_next = add i64 %k, 1
%k_more = icmp slt i64 %k_next, %slots
br i1 %k_more, label %slot, label %group
""")


def _emit_groups(text: FunctionText, kernel: StreamCopy) -> None:
    """Block %group: rows that are read side by side, and whether all their lines are whole."""
    rows = GROUP_SQUARES * LINE_BYTES // kernel.element_bytes
    text.write(f"""
group:
%row = phi i64 [ 0, %slot ], [ %row_next, %group_end ]
%row_next = add i64 %row, {rows}
%row_table = getelementptr i64, ptr %rows_at, i64 %row
%row_bytes = mul i64 %row, {kernel.element_bytes}
%is_first = icmp eq i64 %row, 0
%is_last = icmp sge i64 %row_next, %row_count
%is_edge = or i1 %is_first, %is_last
%is_inside = xor i1 %is_edge, true
%is_whole = and i1 %is_inside, %streaming
%line_count = select i1 %is_last, i64 {GROUP_SQUARES + 1}, i64 {GROUP_SQUARES}
br label %strip_start
""")


def _emit_ends(text: FunctionText, kernel: StreamCopy) -> None:
    """Blocks %strip_end, %group_end and %plane_end."""
    text.write(f"""
strip_end:
%strip_next = add i64 %strip, {LINE_BYTES // kernel.element_bytes}
%strip_more = icmp slt i64 %strip_next, %slots
br i1 %strip_more, label %strip_start, label %group_end
""")
    emit_plane_end(text)
