"""Permutations of runs of a line and more, straight from input to output, past the caches.

    for every plane of the outer axes:
      for every group of rows:
        for every column:
          for every row of the group: write the whole lines that its run completes
          keep what the last run leaves of a line

Runs may start anywhere in a line. The line in which one ends and the next begins is put together
from two loads under masks; whole lines between are copied. What a group leaves of a column's last
line waits in a table for the next group, so only the ends of a column are written in part.

The rows of a group are read side by side, each of them run by run: they come from memory as streams
that the processor follows by itself. Asking some lines ahead adds a tenth.
"""

from __future__ import annotations

from teir.backends.llvm.emit_stream import PAST_CACHES, emit_fence, emit_offset_table
from teir.backends.llvm.emit_stream_copy import STREAM_COPY_ARGUMENTS
from teir.backends.llvm.emit_stream_planes import emit_plane, emit_plane_end
from teir.backends.llvm.emit_text import Cache, FunctionText, prefetch, vector
from teir.lower.copy_kernels import StreamRuns
from teir.lower.stream_room import stream_copy_room
from teir.target import LINE_BYTES

STREAM_RUNS_ARGUMENTS = (*STREAM_COPY_ARGUMENTS, "run")

_GROUP_ROWS = 16
"""Rows read side by side. Of 4, 8, 16 and 32 the best on Golden Cove, by some hundredths."""
_AHEAD_BYTES = 512
_BYTES = vector("i8", LINE_BYTES)
_MASK = vector("i1", LINE_BYTES)


def emit_stream_runs_body(kernel: StreamRuns) -> FunctionText:
    """The body for operands %A, %B and %C; arguments as the kernel's docstring names them."""
    text = FunctionText()
    text.label("entry")
    for name in ("rows", "columns", "kept"):
        start = stream_copy_room()[name]
        text.effect(f"%{name}_at = getelementptr i8, ptr %C, i64 {start}")
    text.effect(f"%run_bytes = mul i64 %run, {kernel.element_bytes}")
    emit_offset_table(text, "row", "%rows_at", "r", "r_in", "column_table")
    text.label("column_table")
    emit_offset_table(text, "column", "%columns_at", "c", "c_out", "plane")
    emit_plane(text, "column_entry", "group")
    _emit_group(text)
    _emit_column(text)
    _emit_run(text)
    _emit_lines(text)
    _emit_ends(text)
    text.label("finish")
    emit_fence(text)
    text.effect("ret void")
    return text


def _emit_group(text: FunctionText) -> None:
    """Block %group: rows that are read side by side."""
    text.write(f"""
group:
%row = phi i64 [ 0, %plane ], [ %row_next, %group_end ]
%row_next = add i64 %row, {_GROUP_ROWS}
%row_end = call i64 @llvm.smin.i64(i64 %row_next, i64 %row_count)
%is_first = icmp eq i64 %row, 0
%is_last = icmp eq i64 %row_end, %row_count
%row_bytes = mul i64 %row, %run_bytes
br label %column
""")


def _emit_column(text: FunctionText) -> None:
    """Block %column: where its lines go on, and what the group before left of them."""
    text.write(f"""
column:
%c = phi i64 [ 0, %group ], [ %c_next, %column_end ]
%c_cell = getelementptr i64, ptr %columns_at, i64 %c
%c_offset = load i64, ptr %c_cell
%c_out = getelementptr i8, ptr %plane_out, i64 %c_offset
%c_group = getelementptr i8, ptr %c_out, i64 %row_bytes
%c_address = ptrtoint ptr %c_group to i64
%c_begun = and i64 %c_address, {LINE_BYTES - 1}
%c_back = sub i64 0, %c_begun
%c_line = getelementptr i8, ptr %c_group, i64 %c_back
%c_along = mul i64 %c, %run_bytes
%c_in = getelementptr i8, ptr %plane_in, i64 %c_along
%c_kept_bytes = mul i64 %c, {LINE_BYTES}
%c_kept_at = getelementptr i8, ptr %kept_at, i64 %c_kept_bytes
br label %run_start
""")


def _emit_run(text: FunctionText) -> None:
    """Block %run_start: the line that the run before began, the first of a column in part.

    ``begun`` bytes of the line belong to the runs before; none are kept of a column's first line.
    """
    text.write(f"""
run_start:
%r = phi i64 [ %row, %column ], [ %r_next, %run_end ]
%line = phi ptr [ %c_line, %column ], [ %line_over, %run_end ]
%begun = phi i64 [ %c_begun, %column ], [ %over, %run_end ]
%left_at = phi ptr [ %c_kept_at, %column ], [ %from_over, %run_end ]
%r_cell = getelementptr i64, ptr %rows_at, i64 %r
%r_offset = load i64, ptr %r_cell
%r_in = getelementptr i8, ptr %c_in, i64 %r_offset
%r_back = sub i64 0, %begun
%from = getelementptr i8, ptr %r_in, i64 %r_back
%before_ones = shl i64 1, %begun
%before_bits = sub i64 %before_ones, 1
%mine_bits = xor i64 %before_bits, -1
%before = bitcast i64 %before_bits to {_MASK}
%mine = bitcast i64 %mine_bits to {_MASK}
%left = {_masked_load("%left_at", "%before")}
%begins = {_masked_load("%from", "%mine")}
%joined = or {_BYTES} %left, %begins
%opens_row = icmp eq i64 %r, 0
%is_begun = icmp ne i64 %begun, 0
%is_part = and i1 %opens_row, %is_begun
br i1 %is_part, label %part_line, label %joined_line
part_line:
{_masked_store("%begins", "%line", "%mine")}
br label %lines_start
joined_line:
store {_BYTES} %joined, ptr %line, align {LINE_BYTES}, {PAST_CACHES} !{{i32 1}}
br label %lines_start
""")


def _emit_lines(text: FunctionText) -> None:
    """Blocks %whole_line to %run_end: lines within the run, then what it leaves of one."""
    text.write(f"""
lines_start:
%reach = add i64 %begun, %run_bytes
%whole_end = and i64 %reach, {-LINE_BYTES}
%over = and i64 %reach, {LINE_BYTES - 1}
%any_whole = icmp sgt i64 %whole_end, {LINE_BYTES}
br i1 %any_whole, label %whole_line, label %run_end
whole_line:
%at = phi i64 [ {LINE_BYTES}, %lines_start ], [ %at_next, %whole_line ]
%whole_from = getelementptr i8, ptr %from, i64 %at
%whole_to = getelementptr i8, ptr %line, i64 %at
%whole_ahead = getelementptr i8, ptr %whole_from, i64 {_AHEAD_BYTES}
""")
    prefetch(text, "%whole_ahead", Cache.FIRST)
    text.write(f"""
%whole = load {_BYTES}, ptr %whole_from, align 1
store {_BYTES} %whole, ptr %whole_to, align {LINE_BYTES}, {PAST_CACHES} !{{i32 1}}
%at_next = add i64 %at, {LINE_BYTES}
%at_more = icmp slt i64 %at_next, %whole_end
br i1 %at_more, label %whole_line, label %run_end
run_end:
%from_over = getelementptr i8, ptr %from, i64 %whole_end
%line_over = getelementptr i8, ptr %line, i64 %whole_end
%r_next = add i64 %r, 1
%r_more = icmp slt i64 %r_next, %row_end
br i1 %r_more, label %run_start, label %column_over
""")


def _emit_ends(text: FunctionText) -> None:
    """Blocks %column_over to %plane_end: what is left of the column's last line, and the loops."""
    text.write(f"""
column_over:
%over_ones = shl i64 1, %over
%over_bits = sub i64 %over_ones, 1
%over_mask = bitcast i64 %over_bits to {_MASK}
%over_bytes = {_masked_load("%from_over", "%over_mask")}
br i1 %is_last, label %column_last, label %column_kept
column_last:
{_masked_store("%over_bytes", "%line_over", "%over_mask")}
br label %column_end
column_kept:
store {_BYTES} %over_bytes, ptr %c_kept_at, align {LINE_BYTES}
br label %column_end
column_end:
%c_next = add i64 %c, 1
%c_more = icmp slt i64 %c_next, %column_count
br i1 %c_more, label %column, label %group_end
""")
    emit_plane_end(text)


def _masked_load(address: str, mask: str) -> str:
    """The bytes under the mask, zeros elsewhere; nothing else is touched."""
    name = f"@llvm.masked.load.v{LINE_BYTES}i8.p0"
    return f"call {_BYTES} {name}(ptr {address}, i32 1, {_MASK} {mask}, {_BYTES} zeroinitializer)"


def _masked_store(value: str, address: str, mask: str) -> str:
    name = f"@llvm.masked.store.v{LINE_BYTES}i8.p0"
    return f"call void {name}({_BYTES} {value}, ptr {address}, i32 1, {_MASK} {mask})"
