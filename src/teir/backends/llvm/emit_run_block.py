"""The block of a tile of runs: every column of one row copied, the same row fetched ahead."""

from __future__ import annotations

from teir.backends.llvm.emit_text import FunctionText, vector
from teir.lower.copy_kernels import RunCopy
from teir.target import LINE_BYTES, Isa


def emit_block_start(text: FunctionText) -> None:
    """Block %block: which block of the tile, and which piece of the one before, comes next."""
    text.label("block")
    for name in ("b", "row_block", "column_block"):
        text.effect(f"%{name} = phi i64 [ 0, %placed ], [ %{name}_next, %block_done ]")
    for name in ("piece", "segment", "segment_piece"):
        text.effect(f"%{name} = phi i64 [ 0, %placed ], [ %{name}_now, %block_done ]")
    text.effect("br label %block_begin")


def emit_run_block(text: FunctionText, kernel: RunCopy, isa: Isa) -> None:
    """Blocks %block to %transposed: one row of the tile, a run for every column.

    A run is copied in vectors of ``lanes`` elements: the first, the last, which may lie over its
    neighbour, then those between; or in one of twice as many (`_emit_reaching_runs`).
    """
    width, lanes = kernel.element_bytes, kernel.lanes
    kind = vector("i8", lanes * width)
    emit_block_start(text)
    text.write(f"""
block_begin:
%row_bytes = mul i64 %tile_columns, %unit_bytes
%next_block_row = call i64 @llvm.smin.i64(i64 %row_block, i64 %next_last_block)
%next_cell = getelementptr i64, ptr %next_row_table, i64 %next_block_row
br i1 %fetch, label %fetch_row, label %fetched
fetch_row:
%next_offset = load i64, ptr %next_cell
%next_run = getelementptr i8, ptr %next_in, i64 %next_offset
%row_last = sub i64 %row_bytes, 1
%next_run_end = getelementptr i8, ptr %next_run, i64 %row_last
call void @llvm.prefetch.p0(ptr %next_run_end, i32 0, i32 2, i32 1)
br label %fetch_line
fetch_line:
%fetch_byte = phi i64 [ 0, %fetch_row ], [ %fetch_byte_next, %fetch_line ]
%fetch_at = getelementptr i8, ptr %next_run, i64 %fetch_byte
call void @llvm.prefetch.p0(ptr %fetch_at, i32 0, i32 2, i32 1)
%fetch_byte_next = add i64 %fetch_byte, {LINE_BYTES}
%fetch_more = icmp slt i64 %fetch_byte_next, %row_bytes
br i1 %fetch_more, label %fetch_line, label %fetched
fetched:
br i1 %working, label %copy_row, label %transposed
copy_row:
%this_cell = getelementptr i64, ptr %this_row_table, i64 %row_block
%this_offset = load i64, ptr %this_cell
%from = getelementptr i8, ptr %this_in, i64 %this_offset
%into_bytes = mul i64 %row_block, %unit_bytes
%into = getelementptr i8, ptr %write_at, i64 %into_bytes
%last_vector = sub i64 %unit_bytes, {lanes * width}
%has_between = icmp sgt i64 %last_vector, {lanes * width}
""")
    begins = "[ 0, %copy_row ]", "[ %from, %copy_row ]", "[ %into, %copy_row ]"
    if 2 * lanes * width <= isa.vector_bytes:
        begins = _emit_reaching_runs(text, 2 * lanes * width)
    else:
        text.effect("br label %copy_run")
    text.write(f"""
copy_run:
%copy_column = phi i64 {begins[0]}, [ %copy_column_next, %copied_run ]
%run_from = phi ptr {begins[1]}, [ %run_from_next, %copied_run ]
%run_into = phi ptr {begins[2]}, [ %run_into_next, %copied_run ]
%run_last_from = getelementptr i8, ptr %run_from, i64 %last_vector
%run_last_into = getelementptr i8, ptr %run_into, i64 %last_vector
%run_first = load {kind}, ptr %run_from, align 1
%run_last = load {kind}, ptr %run_last_from, align 1
store {kind} %run_first, ptr %run_into, align 1
store {kind} %run_last, ptr %run_last_into, align 1
br i1 %has_between, label %copy_vector, label %copied_run
copy_vector:
%copy_byte = phi i64 [ {lanes * width}, %copy_run ], [ %copy_byte_next, %copy_vector ]
%copy_from = getelementptr i8, ptr %run_from, i64 %copy_byte
%copy_into = getelementptr i8, ptr %run_into, i64 %copy_byte
%copied = load {kind}, ptr %copy_from, align 1
store {kind} %copied, ptr %copy_into, align 1
%copy_byte_next = add i64 %copy_byte, {lanes * width}
%copy_more = icmp slt i64 %copy_byte_next, %last_vector
br i1 %copy_more, label %copy_vector, label %copied_run
copied_run:
%copy_column_next = add i64 %copy_column, 1
%run_from_next = getelementptr i8, ptr %run_from, i64 %unit_bytes
%run_into_next = getelementptr i8, ptr %run_into, i64 %pitch_bytes
%more_runs = icmp slt i64 %copy_column_next, %tile_columns
br i1 %more_runs, label %copy_run, label %transposed
""")


def _emit_reaching_runs(text: FunctionText, vector_bytes: int) -> tuple[str, str, str]:
    """Runs longer than a vector of the kernel and shorter than one of ``vector_bytes``, all but the
    last of a row, by one that reaches into the next run: there the input has one, and the next row
    comes into the tile, or nothing behind the last one, but where rows are dense. Returns where the
    other runs begin: column, input and tile.
    """
    kind = vector("i8", vector_bytes)
    text.write(f"""
%is_part = icmp sgt i64 %last_vector, 0
%is_reached = icmp slt i64 %unit_bytes, {vector_bytes}
%reaching_columns = sub i64 %tile_columns, 1
%has_reaching = icmp sgt i64 %reaching_columns, 0
%is_between = and i1 %is_part, %is_reached
%has_room = xor i1 %dense, true
%fits_between = and i1 %is_between, %has_room
%reaches = and i1 %fits_between, %has_reaching
br i1 %reaches, label %reach_run, label %copy_run
reach_run:
%reach_column = phi i64 [ 0, %copy_row ], [ %reach_column_next, %reach_run ]
%reach_from = phi ptr [ %from, %copy_row ], [ %reach_from_next, %reach_run ]
%reach_into = phi ptr [ %into, %copy_row ], [ %reach_into_next, %reach_run ]
%reached = load {kind}, ptr %reach_from, align 1
store {kind} %reached, ptr %reach_into, align 1
%reach_column_next = add i64 %reach_column, 1
%reach_from_next = getelementptr i8, ptr %reach_from, i64 %unit_bytes
%reach_into_next = getelementptr i8, ptr %reach_into, i64 %pitch_bytes
%more_reach = icmp slt i64 %reach_column_next, %reaching_columns
br i1 %more_reach, label %reach_run, label %copy_run
""")
    return (
        "[ 0, %copy_row ], [ %reaching_columns, %reach_run ]",
        "[ %from, %copy_row ], [ %reach_from_next, %reach_run ]",
        "[ %into, %copy_row ], [ %reach_into_next, %reach_run ]",
    )
