"""Permutations through a tile in cache: loads, shuffles and stores of three tiles in one stream.

While tile t is transposed in registers into one half of a scratch tile, the rows of tile t - 1 are
streamed from the other half and the lines of tile t + 1 are fetched to L2:

    for every tile, columns innermost:
      for every block of lanes x lanes elements:
        fetch the lines of the block in the next tile
        transpose the block of this tile into scratch
        stream some pieces of the previous tile

A row of the output is written in whole cache lines wherever it starts: its tile boundaries are
moved up to the next line, so that a tile computes up to a line more than it writes. Only the ends
of a row are written element by element. Stores bypass the caches where ``stream`` asks for it and
the output's elements are aligned; a fence ends the call, since such stores are not ordered.
"""

from __future__ import annotations

from typing import assert_never

from teir.backends.llvm.emit_run_block import emit_block_start, emit_run_block
from teir.backends.llvm.emit_stream import (
    LINE_BYTES,
    PIECE_LINES,
    Stream,
    emit_fence,
    emit_offset_table,
    emit_pieces,
    emit_stream_mode,
)
from teir.backends.llvm.emit_text import FunctionText
from teir.backends.llvm.emit_transpose import SquareTile
from teir.backends.llvm.layout import WORD_BYTES
from teir.lower.kernels import (
    MOST_PERMUTED,
    PERMUTE_AXES,
    PERMUTE_OUTER_AXES,
    PERMUTE_SCRATCH_BYTES,
    PermuteCopy,
    RunCopy,
)
from teir.target import Isa

PERMUTE_ARGUMENTS = (
    *(f"{name}{axis}" for name in ("r", "r_in", "c", "c_out") for axis in range(PERMUTE_AXES)),
    *(f"{name}{axis}" for name in ("o", "o_in", "o_out") for axis in range(PERMUTE_OUTER_AXES)),
    "tile_rows",
    "tile_columns",
    "group",
    "stream",
)
RUN_ARGUMENTS = (*PERMUTE_ARGUMENTS, "run")


def emit_permute_body(kernel: PermuteCopy | RunCopy, isa: Isa) -> FunctionText:
    """The body for operands %A, %B and %C; arguments as the kernel's docstring names them.

    Tables and tiles lie in the room at %C: a thread's stack may be shorter than they are.
    """
    text = FunctionText()
    width = kernel.element_bytes
    text.label("entry")
    table_bytes = MOST_PERMUTED * WORD_BYTES
    text.effect("%rows_at = getelementptr i8, ptr %C, i64 0")
    text.effect(f"%columns_at = getelementptr i8, ptr %C, i64 {table_bytes}")
    text.effect(f"%scratch = getelementptr i8, ptr %C, i64 {2 * table_bytes}")
    text.effect("%records = alloca [24 x i64], align 64")
    text.effect("%index = alloca [2 x i64], align 16")
    emit_offset_table(text, "row", "%rows_at", "r", "r_in", "column_table")
    text.label("column_table")
    emit_offset_table(text, "column", "%columns_at", "c", "c_out", "prepare")
    text.label("prepare")
    _emit_blocking(text, kernel)
    runs_start = ("%c_out0", "%c_out1", "%c_out2", "%o_out0", "%o_out1", "%tile_bytes")
    emit_stream_mode(text, width, runs_start)
    _emit_counts(text, width)
    _emit_tile_loop(text)
    match kernel:
        case PermuteCopy():
            _emit_squares(text, kernel)
        case RunCopy():
            emit_run_block(text, kernel)
        case _:
            assert_never(kernel)
    emit_pieces(text, Stream(isa, width))
    text.label("finish")
    emit_fence(text)
    text.effect("ret void")
    return text


def _emit_blocking(text: FunctionText, kernel: PermuteCopy | RunCopy) -> None:
    """Elements of an entry of the tables, and rows and columns of a block.

    A block is a square of elements, or the runs of all columns in one row.
    """
    match kernel:
        case PermuteCopy():
            unit, rows, columns = "1", str(kernel.lanes), str(kernel.lanes)
        case RunCopy():
            unit, rows, columns = "%run", "1", "%tile_columns"
        case _:
            assert_never(kernel)
    text.effect(f"%unit = add i64 {unit}, 0")
    text.effect(f"%block_height = add i64 {rows}, 0")
    text.effect(f"%block_width = add i64 {columns}, 0")
    text.effect(f"%unit_bytes = mul i64 %unit, {kernel.element_bytes}")
    text.effect("%tile_bytes = mul i64 %tile_rows, %unit_bytes")


def _emit_counts(text: FunctionText, width: int) -> None:
    """How many tiles there are, and how far a tile reaches over its rows' boundaries."""
    per_line = LINE_BYTES // width
    per_piece = PIECE_LINES * per_line
    for line in f"""
%rows = add i64 %row_count, 0
%columns = add i64 %column_count, 0
%dense = icmp sgt i64 %group, 1
%one_tile = icmp sge i64 %tile_rows, %rows
%no_shift = or i1 %dense, %one_tile
%keep_ends = or i1 %no_shift, %aligned
%cached = xor i1 %streaming, true
%exact = or i1 %keep_ends, %cached
%line_less = add i64 %unit, {per_line - 1}
%line_units = udiv i64 %line_less, %unit
%extra = select i1 %exact, i64 0, i64 %line_units
%pitch_over = add i64 %block_height, %line_units
%pitch_wide = add i64 %tile_rows, %pitch_over
%pitch = select i1 %dense, i64 %rows, i64 %pitch_wide
%pitch_bytes = mul i64 %pitch, %unit_bytes
%row_tiles_up = add i64 %rows, %tile_rows
%row_tiles_less = sub i64 %row_tiles_up, 1
%row_tiles = udiv i64 %row_tiles_less, %tile_rows
%column_tiles_up = add i64 %columns, %tile_columns
%column_tiles_less = sub i64 %column_tiles_up, 1
%column_tiles = udiv i64 %column_tiles_less, %tile_columns
%plane = mul i64 %row_tiles, %column_tiles
%outer = mul i64 %o0, %o1
%tiles = mul i64 %plane, %outer
%last_row_start = sub i64 %rows, %block_height
%last_column_start = sub i64 %columns, %tile_columns
%column_blocks_up = add i64 %tile_columns, %block_width
%column_blocks_less = sub i64 %column_blocks_up, 1
%column_blocks = udiv i64 %column_blocks_less, %block_width
%last_column_block = sub i64 %tile_columns, %block_width
%segments = udiv i64 %tile_columns, %group
%segment_rows = mul i64 %rows, %group
%segment_elements = mul i64 %segment_rows, %unit
%tile_elements = mul i64 %tile_rows, %unit
%piece_span = select i1 %dense, i64 %segment_elements, i64 %tile_elements
%segment_pieces_up = add i64 %piece_span, {per_piece - 1}
%segment_pieces = udiv i64 %segment_pieces_up, {per_piece}
%pieces = mul i64 %segments, %segment_pieces
%fetching = icmp ne i64 %stream, 0
store [2 x i64] zeroinitializer, ptr %index
%next_at = getelementptr i8, ptr %records, i64 0
%this_at = getelementptr i8, ptr %records, i64 64
%last_at = getelementptr i8, ptr %records, i64 128
br label %tile
""".strip().splitlines():
        text.effect(line)


def _emit_tile_loop(text: FunctionText) -> None:
    """Blocks %tile, %advance and %place: rotate the records and work out the tile after this one.

    A record holds: input and output of the plane, first column, first row, rows, row boundary.
    """
    text.label("tile")
    for line in """
%t = phi i64 [ -1, %prepare ], [ %t_next, %tile_done ]
%row_tile = phi i64 [ 0, %prepare ], [ %row_tile_next, %tile_done ]
%column_tile = phi i64 [ 0, %prepare ], [ %column_tile_next, %tile_done ]
%plane_in = phi ptr [ %A, %prepare ], [ %plane_in_next, %tile_done ]
%plane_out = phi ptr [ %B, %prepare ], [ %plane_out_next, %tile_done ]
%this_record = load <8 x i64>, ptr %this_at, align 64
store <8 x i64> %this_record, ptr %last_at, align 64
%next_record = load <8 x i64>, ptr %next_at, align 64
store <8 x i64> %next_record, ptr %this_at, align 64
%t_next = add i64 %t, 1
%has_next = icmp slt i64 %t_next, %tiles
%has_this = icmp sge i64 %t, 0
%is_tile = icmp slt i64 %t, %tiles
%working = and i1 %has_this, %is_tile
%has_last = icmp sge i64 %t, 1
br i1 %has_next, label %place, label %placed
""".strip().splitlines():
        text.effect(line)
    text.label("place")
    for line in """
%boundary = mul i64 %row_tile, %tile_rows
%row_start = call i64 @llvm.smin.i64(i64 %boundary, i64 %last_row_start)
%row_reach = add i64 %boundary, %tile_rows
%row_reach_over = add i64 %row_reach, %extra
%row_end = call i64 @llvm.smin.i64(i64 %row_reach_over, i64 %rows)
%row_extent = sub i64 %row_end, %row_start
%column_boundary = mul i64 %column_tile, %tile_columns
%column_start = call i64 @llvm.smin.i64(i64 %column_boundary, i64 %last_column_start)
%column_bytes = mul i64 %column_start, %unit_bytes
%tile_in = getelementptr i8, ptr %plane_in, i64 %column_bytes
store ptr %tile_in, ptr %next_at, align 64
%next_out_at = getelementptr i8, ptr %next_at, i64 8
store ptr %plane_out, ptr %next_out_at
%next_column_at = getelementptr i8, ptr %next_at, i64 16
store i64 %column_start, ptr %next_column_at
%next_row_at = getelementptr i8, ptr %next_at, i64 24
store i64 %row_start, ptr %next_row_at
%next_extent_at = getelementptr i8, ptr %next_at, i64 32
store i64 %row_extent, ptr %next_extent_at
%next_boundary_at = getelementptr i8, ptr %next_at, i64 40
store i64 %boundary, ptr %next_boundary_at
%opens = icmp eq i64 %column_tile, 0
%column_tile_up = add i64 %column_tile, 1
%more_columns = icmp slt i64 %column_tile_up, %column_tiles
%column_tile_now = select i1 %more_columns, i64 %column_tile_up, i64 0
%row_tile_up = add i64 %row_tile, 1
%row_tile_stepped = select i1 %more_columns, i64 %row_tile, i64 %row_tile_up
%more_rows = icmp slt i64 %row_tile_stepped, %row_tiles
%row_tile_now = select i1 %more_rows, i64 %row_tile_stepped, i64 0
br i1 %more_rows, label %placed, label %next_plane
""".strip().splitlines():
        text.effect(line)
    text.label("next_plane")
    for line in """
%index1_at = getelementptr i8, ptr %index, i64 8
%index0 = load i64, ptr %index
%index1 = load i64, ptr %index1_at
%index0_up = add i64 %index0, 1
%wraps = icmp eq i64 %index0_up, %o0
%index0_now = select i1 %wraps, i64 0, i64 %index0_up
%carry = zext i1 %wraps to i64
%index1_now = add i64 %index1, %carry
store i64 %index0_now, ptr %index
store i64 %index1_now, ptr %index1_at
%in_along0 = mul i64 %index0_now, %o_in0
%in_along1 = mul i64 %index1_now, %o_in1
%in_along = add i64 %in_along0, %in_along1
%out_along0 = mul i64 %index0_now, %o_out0
%out_along1 = mul i64 %index1_now, %o_out1
%out_along = add i64 %out_along0, %out_along1
%moved_in = getelementptr i8, ptr %A, i64 %in_along
%moved_out = getelementptr i8, ptr %B, i64 %out_along
br label %placed
""".strip().splitlines():
        text.effect(line)
    text.label("placed")
    for name, kind, placed, moved in (
        ("column_tile", "i64", "column_tile_now", "column_tile_now"),
        ("row_tile", "i64", "row_tile_now", "row_tile_now"),
        ("plane_in", "ptr", "plane_in", "moved_in"),
        ("plane_out", "ptr", "plane_out", "moved_out"),
    ):
        ways = f"[ %{name}, %tile ], [ %{placed}, %place ], [ %{moved}, %next_plane ]"
        text.effect(f"%{name}_next = phi {kind} {ways}")
    text.effect("%opens_row = phi i1 [ false, %tile ], [ %opens, %place ], [ %opens, %next_plane ]")
    for line in f"""
%fetch = and i1 %has_next, %fetching
%next_in = load ptr, ptr %next_at, align 64
%next_rows_at = getelementptr i8, ptr %next_at, i64 24
%next_row = load i64, ptr %next_rows_at
%next_rows_extent_at = getelementptr i8, ptr %next_at, i64 32
%next_extent = load i64, ptr %next_rows_extent_at
%next_last_block = sub i64 %next_extent, %block_height
%next_row_table = getelementptr i64, ptr %rows_at, i64 %next_row
%this_in = load ptr, ptr %this_at, align 64
%this_row_at = getelementptr i8, ptr %this_at, i64 24
%this_row = load i64, ptr %this_row_at
%this_extent_at = getelementptr i8, ptr %this_at, i64 32
%this_extent = load i64, ptr %this_extent_at
%this_last_block = sub i64 %this_extent, %block_height
%this_row_table = getelementptr i64, ptr %rows_at, i64 %this_row
%last_out_at = getelementptr i8, ptr %last_at, i64 8
%last_out = load ptr, ptr %last_out_at
%last_column_at = getelementptr i8, ptr %last_at, i64 16
%last_column = load i64, ptr %last_column_at
%last_row_at = getelementptr i8, ptr %last_at, i64 24
%last_row = load i64, ptr %last_row_at
%last_boundary_at = getelementptr i8, ptr %last_at, i64 40
%last_boundary = load i64, ptr %last_boundary_at
%last_end_row = add i64 %last_boundary, %tile_rows
%last_end = mul i64 %last_end_row, %unit
%last_from = mul i64 %last_boundary, %unit
%last_start = mul i64 %last_row, %unit
%last_column_table = getelementptr i64, ptr %columns_at, i64 %last_column
%block_rows = select i1 %working, i64 %this_extent, i64 %next_extent
%row_blocks_up = add i64 %block_rows, %block_height
%row_blocks_less = sub i64 %row_blocks_up, 1
%row_blocks_some = udiv i64 %row_blocks_less, %block_height
%row_blocks = call i64 @llvm.smax.i64(i64 %row_blocks_some, i64 1)
%blocks = mul i64 %row_blocks, %column_blocks
%pieces_up = add i64 %pieces, %blocks
%pieces_less = sub i64 %pieces_up, 1
%share = udiv i64 %pieces_less, %blocks
%parity = and i64 %t, 1
%write_half = mul i64 %parity, {PERMUTE_SCRATCH_BYTES}
%read_half = sub i64 {PERMUTE_SCRATCH_BYTES}, %write_half
%write_at = getelementptr i8, ptr %scratch, i64 %write_half
%read_at = getelementptr i8, ptr %scratch, i64 %read_half
br label %block
tile_done:
%finished = icmp sgt i64 %t_next, %tiles
br i1 %finished, label %finish, label %tile
""".strip().splitlines():
        text.label(line[:-1]) if line.endswith(":") else text.effect(line)


def _emit_squares(text: FunctionText, kernel: PermuteCopy) -> None:
    """Blocks %block to %transposed: fetch ahead, transpose into scratch."""
    width, lanes = kernel.element_bytes, kernel.lanes
    emit_block_start(text)
    text.label("block_begin")
    for line in f"""
%block_row = mul i64 %row_block, {lanes}
%block_column_whole = mul i64 %column_block, {lanes}
%block_column = call i64 @llvm.smin.i64(i64 %block_column_whole, i64 %last_column_block)
%block_column_bytes = mul i64 %block_column, {width}
br i1 %fetch, label %fetch_block, label %fetched
""".strip().splitlines():
        text.effect(line)
    _emit_fetch(text, width, lanes)
    text.label("fetched")
    text.effect("br i1 %working, label %transpose_block, label %transposed")
    text.label("transpose_block")
    for line in f"""
%this_block_row = call i64 @llvm.smin.i64(i64 %block_row, i64 %this_last_block)
%from = getelementptr i8, ptr %this_in, i64 %block_column_bytes
%from_table = getelementptr i64, ptr %this_row_table, i64 %this_block_row
%into_row = mul i64 %block_column, %pitch_bytes
%into_column = mul i64 %this_block_row, {width}
%into_bytes = add i64 %into_row, %into_column
%into = getelementptr i8, ptr %write_at, i64 %into_bytes
""".strip().splitlines():
        text.effect(line)
    tile = SquareTile(text, width, lanes)
    places = []
    for row in range(lanes):
        at = text.value(f"getelementptr i64, ptr %from_table, i64 {row}")
        offset = text.value(f"load i64, ptr {at}")
        places.append(text.value(f"getelementptr i8, ptr %from, i64 {offset}"))
    columns = tile.transposed([tile.loaded_parts(group) for group in tile.across(places)])
    place = "%into"
    for row, value in enumerate(columns):
        if row:
            place = text.value(f"getelementptr i8, ptr {place}, i64 %pitch_bytes")
        text.effect(f"store {tile.kind} {value}, ptr {place}, align 1")
    text.effect("br label %transposed")


def _emit_fetch(text: FunctionText, width: int, lanes: int) -> None:
    """Fetch the line where each row of the block ends in the next tile, and the first of a row.

    A row of a block that starts inside a line was fetched with the block before it.
    """
    text.label("fetch_block")
    for line in f"""
%next_block_row = call i64 @llvm.smin.i64(i64 %block_row, i64 %next_last_block)
%next_table = getelementptr i64, ptr %next_row_table, i64 %next_block_row
%next_block = getelementptr i8, ptr %next_in, i64 %block_column_bytes
%next_end = getelementptr i8, ptr %next_block, i64 {lanes * width - 1}
%first_block = icmp eq i64 %column_block, 0
%fetch_start = and i1 %first_block, %opens_row
""".strip().splitlines():
        text.effect(line)
    offsets = []
    for row in range(lanes):
        at = text.value(f"getelementptr i64, ptr %next_table, i64 {row}")
        offsets.append(text.value(f"load i64, ptr {at}"))
    _emit_prefetches(text, "%next_end", offsets)
    text.effect("br i1 %fetch_start, label %fetch_first, label %fetched")
    text.label("fetch_first")
    _emit_prefetches(text, "%next_block", offsets)
    text.effect("br label %fetched")


def _emit_prefetches(text: FunctionText, start: str, offsets: list[str]) -> None:
    for offset in offsets:
        line = text.value(f"getelementptr i8, ptr {start}, i64 {offset}")
        text.effect(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 2, i32 1)")
