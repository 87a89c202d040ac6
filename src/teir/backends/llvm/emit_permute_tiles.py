"""The loop over the tiles of a permutation: which tile is written, transposed and fetched.

Three records hold a tile each: the one written, the one transposed and the one fetched. They move
up by one with every turn, then the tile after the next is placed.
"""

from __future__ import annotations

from teir.backends.llvm.emit_text import FunctionText
from teir.lower.copy_kernels import permute_scratch_bytes
from teir.target import Isa

_FIELDS = {
    "in": "ptr",
    "out": "ptr",
    "column": "i64",
    "row": "i64",
    "extent": "i64",
    "boundary": "i64",
}
"""Of a record, in order: input and output, first column, first row, rows, row boundary."""
_FIELD_BYTES = 8


def emit_tile_loop(text: FunctionText, isa: Isa) -> None:
    """Blocks %tile, %place, %next_plane, %placed and %tile_done, around the blocks of one tile."""
    _emit_rotation(text)
    _emit_place(text)
    _emit_next_plane(text)
    _emit_meetings(text)
    _emit_tiles_at_work(text)
    _emit_shares(text, permute_scratch_bytes(isa))
    text.write("""
br label %block
tile_done:
%finished = icmp sgt i64 %t_next, %tiles
br i1 %finished, label %finish, label %tile
""")


def _emit_rotation(text: FunctionText) -> None:
    """Which of the three there are, and their records moved up by one."""
    text.write("""
tile:
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
""")


def _emit_place(text: FunctionText) -> None:
    """The record of the tile after this one, and the numbers of the one after that."""
    text.write("""
place:
%boundary = mul i64 %row_tile, %tile_rows
%row_start = call i64 @llvm.smin.i64(i64 %boundary, i64 %last_row_start)
%row_reach = add i64 %boundary, %tile_rows
%row_reach_over = add i64 %row_reach, %extra
%row_end = call i64 @llvm.smin.i64(i64 %row_reach_over, i64 %rows)
%row_extent = sub i64 %row_end, %row_start
%column_boundary = mul i64 %column_tile, %tile_columns
%column_start = call i64 @llvm.smin.i64(i64 %column_boundary, i64 %last_column_start)
%column_bytes = mul i64 %column_start, %step_bytes
%tile_in = getelementptr i8, ptr %plane_in, i64 %column_bytes
""")
    values = ("%tile_in", "%plane_out", "%column_start", "%row_start", "%row_extent", "%boundary")
    for (field, kind), value in zip(_FIELDS.items(), values, strict=True):
        text.effect(f"store {kind} {value}, ptr {_field_at(text, 'next', field, 'placed')}")
    text.write("""
%opens = icmp eq i64 %column_tile, 0
%column_tile_up = add i64 %column_tile, 1
%more_columns = icmp slt i64 %column_tile_up, %column_tiles
%column_tile_now = select i1 %more_columns, i64 %column_tile_up, i64 0
%row_tile_up = add i64 %row_tile, 1
%row_tile_stepped = select i1 %more_columns, i64 %row_tile, i64 %row_tile_up
%more_rows = icmp slt i64 %row_tile_stepped, %row_tiles
%row_tile_now = select i1 %more_rows, i64 %row_tile_stepped, i64 0
br i1 %more_rows, label %placed, label %next_plane
""")


def _emit_next_plane(text: FunctionText) -> None:
    """Input and output one step further along the outer axes, the first fastest."""
    text.write("""
next_plane:
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
""")


def _emit_meetings(text: FunctionText) -> None:
    """What the next turn starts from, and whether the tile after this one opens a row of tiles."""
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


def _emit_tiles_at_work(text: FunctionText) -> None:
    """Where the tiles fetched, transposed and written lie."""
    text.effect("%fetch = and i1 %has_next, %fetching")
    for record in ("next", "this"):
        for field in ("in", "row", "extent"):
            _emit_field(text, record, field)
        text.write(f"""
%{record}_last_block = sub i64 %{record}_extent, %block_height
%{record}_row_table = getelementptr i64, ptr %rows_at, i64 %{record}_row
""")
    for field in ("out", "column", "row", "boundary"):
        _emit_field(text, "last", field)
    text.write("""
%last_end_row = add i64 %last_boundary, %tile_rows
%last_end = mul i64 %last_end_row, %unit
%last_from = mul i64 %last_boundary, %unit
%last_start = mul i64 %last_row, %unit
%last_column_table = getelementptr i64, ptr %columns_at, i64 %last_column
""")


def _emit_shares(text: FunctionText, scratch_bytes: int) -> None:
    """How many pieces are written beside every block, and which half of the scratch is which."""
    text.write(f"""
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
%write_half = mul i64 %parity, {scratch_bytes}
%read_half = sub i64 {scratch_bytes}, %write_half
%write_at = getelementptr i8, ptr %scratch, i64 %write_half
%read_at = getelementptr i8, ptr %scratch, i64 %read_half
""")


def _emit_field(text: FunctionText, record: str, field: str) -> None:
    """Defines %RECORD_FIELD."""
    at = _field_at(text, record, field, "read")
    text.effect(f"%{record}_{field} = load {_FIELDS[field]}, ptr {at}")


def _field_at(text: FunctionText, record: str, field: str, use: str) -> str:
    at = f"%{record}_{field}_{use}"
    offset_bytes = tuple(_FIELDS).index(field) * _FIELD_BYTES
    text.effect(f"{at} = getelementptr i8, ptr %{record}_at, i64 {offset_bytes}")
    return at
