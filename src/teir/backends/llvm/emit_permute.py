"""Permutations through a tile in cache: loads, shuffles and stores of three tiles in one stream.

While tile t is transposed in registers into one half of a scratch tile, the rows of tile t - 1 are
streamed from the other half and the lines of tile t + 1 are fetched (see `cache_of_next`):

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

from teir.backends.llvm.emit_permute_tiles import emit_tile_loop
from teir.backends.llvm.emit_run_block import emit_block_start, emit_run_block
from teir.backends.llvm.emit_stream import (
    PIECE_LINES,
    Stream,
    emit_fence,
    emit_offset_table,
    emit_pieces,
    emit_stream_mode,
)
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    cache_of_next,
    prefetch,
    shift_pointer,
)
from teir.backends.llvm.emit_transpose import SquareTile
from teir.backends.llvm.layout import WORD_BYTES
from teir.lower.copy_kernels import (
    MOST_PERMUTED,
    PERMUTE_AXES,
    PERMUTE_OUTER_AXES,
    PermuteCopy,
    RunCopy,
)
from teir.target import LINE_BYTES, Isa

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
    emit_tile_loop(text, isa)
    match kernel:
        case PermuteCopy():
            _emit_squares(text, kernel, cache_of_next(isa))
        case RunCopy():
            emit_run_block(text, kernel, isa)
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
    text.effect(f"%step_bytes = mul i64 %unit_bytes, {_step(kernel)}")
    text.effect("%tile_bytes = mul i64 %tile_rows, %unit_bytes")


def _step(kernel: PermuteCopy | RunCopy) -> int:
    """Units of the input from one column to the next."""
    return kernel.step if isinstance(kernel, PermuteCopy) else 1


def _emit_counts(text: FunctionText, width: int) -> None:
    """How many tiles there are, and how far a tile reaches over its rows' boundaries."""
    per_line = LINE_BYTES // width
    per_piece = PIECE_LINES * per_line
    text.write(f"""
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
""")


def _emit_squares(text: FunctionText, kernel: PermuteCopy, cache: Cache) -> None:
    """Blocks %block to %transposed: fetch ahead, transpose into scratch."""
    width, lanes = kernel.element_bytes, kernel.lanes
    emit_block_start(text)
    text.write(f"""
block_begin:
%block_row = mul i64 %row_block, {lanes}
%block_column_whole = mul i64 %column_block, {lanes}
%block_column = call i64 @llvm.smin.i64(i64 %block_column_whole, i64 %last_column_block)
%block_column_bytes = mul i64 %block_column, %step_bytes
br i1 %fetch, label %fetch_block, label %fetched
""")
    _emit_fetch(text, kernel, cache)
    text.label("fetched")
    text.effect("br i1 %working, label %transpose_block, label %transposed")
    text.write(f"""
transpose_block:
%this_block_row = call i64 @llvm.smin.i64(i64 %block_row, i64 %this_last_block)
%from = getelementptr i8, ptr %this_in, i64 %block_column_bytes
%from_table = getelementptr i64, ptr %this_row_table, i64 %this_block_row
%into_row = mul i64 %block_column, %pitch_bytes
%into_column = mul i64 %this_block_row, {width}
%into_bytes = add i64 %into_row, %into_column
%into = getelementptr i8, ptr %write_at, i64 %into_bytes
""")
    tile = SquareTile(text, width, lanes, kernel.step)
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


def _emit_fetch(text: FunctionText, kernel: PermuteCopy, cache: Cache) -> None:
    """Fetch the lines where each row of the block ends in the next tile, and the first of a row.

    A row of a block that starts inside a line was fetched with the block before it.
    """
    row_bytes = kernel.lanes * kernel.step * kernel.element_bytes
    text.write(f"""
fetch_block:
%next_block_row = call i64 @llvm.smin.i64(i64 %block_row, i64 %next_last_block)
%next_table = getelementptr i64, ptr %next_row_table, i64 %next_block_row
%next_block = getelementptr i8, ptr %next_in, i64 %block_column_bytes
%next_end = getelementptr i8, ptr %next_block, i64 {row_bytes - 1}
%first_block = icmp eq i64 %column_block, 0
%fetch_start = and i1 %first_block, %opens_row
""")
    offsets = []
    for row in range(kernel.lanes):
        at = text.value(f"getelementptr i64, ptr %next_table, i64 {row}")
        offsets.append(text.value(f"load i64, ptr {at}"))
    for line in range(max(1, row_bytes // LINE_BYTES)):
        end = shift_pointer(text, "%next_end", -line * LINE_BYTES)
        _emit_prefetches(text, end, offsets, cache)
    text.effect("br i1 %fetch_start, label %fetch_first, label %fetched")
    text.label("fetch_first")
    _emit_prefetches(text, "%next_block", offsets, cache)
    text.effect("br label %fetched")


def _emit_prefetches(text: FunctionText, start: str, offsets: list[str], cache: Cache) -> None:
    for offset in offsets:
        line = text.value(f"getelementptr i8, ptr {start}, i64 {offset}")
        prefetch(text, line, cache)
