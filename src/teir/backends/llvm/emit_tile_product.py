"""A product of BF16 matrices by the processor's tile registers (AMX): loops around its blocks.

    for as many tiles of columns as the room takes:
      copy them into the room, steps adjacent, padded with zeros
      for every two tiles of 16 rows of A:
        interleave the steps of their rows by twos, padded with zeros, into the room
        for every two of these tiles of columns:
          sum all steps in four tiles, of 16 x 16 results each
          put the tiles down in the room; add C, round, store

A tile of results has a row for every column of the block, since C is adjacent along m. A column of
B, 32 steps of it, is a row of a tile. Columns are cut into tiles of equal height, for the registers
have one configuration during a call, and the last tile of an axis forms some columns of the tile
before once more. Tile registers belong to the call: configured when it begins, released when it
ends. Source: Intel SDM volume 1 chapter 18, volume 2 TDPBF16PS.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from teir.backends.llvm.emit_flush import start_flushing, stop_flushing
from teir.backends.llvm.emit_loops import Carried, emit_loop, emit_when
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.backends.llvm.emit_tile_grid import Grid, column_tile, row_tile
from teir.backends.llvm.emit_tile_packing import copy_columns, pack_rows
from teir.backends.llvm.emit_tile_sums import Block, Depth, configure, emit_sums, store_sums
from teir.lower.kernels import TileProduct
from teir.lower.tile_room import (
    CONFIGURED_BYTES,
    GROUP_STEPS,
    PANEL_GROUP_BYTES,
    PANEL_START_BYTES,
    TILE_BYTES,
)
from teir.target import Isa

TILE_PRODUCT_ARGUMENTS = (
    "m", "n", "k", "a_k", "b_k", "batch", "a_batch", "b_batch", "outer", "a_outer", "b_outer",
    "b_n", "c_n", "accumulate", "piece", "a_piece", "m_outer", "a_m_outer", "c_m_outer", "n_outer",
    "b_n_outer", "c_n_outer", "packed",
)  # fmt: skip


def emit_tile_product_body(
    kernel: TileProduct, isa: Isa, operands: tuple[str, ...]
) -> FunctionText:
    """The body for the operands A, B, C and room and the arguments of `TileProduct`."""
    text = FunctionText()
    text.label("entry")
    mode = start_flushing(text, isa)
    room = operands[-1]
    grid, depth = Grid.of(text, operands), _depth(text)
    panel = shift_pointer(text, room, PANEL_START_BYTES)
    panel_bytes = text.value(f"mul i64 {depth.all_groups}, {PANEL_GROUP_BYTES}")
    packed = shift_pointer(text, panel, panel_bytes)
    configure(text, shift_pointer(text, room, CONFIGURED_BYTES), grid.columns.size)
    product = _Product(kernel, isa, grid, depth, room, panel, packed)

    def chunk(now: list[str]) -> list[str]:
        (first,) = now
        left = text.value(f"sub i64 {grid.columns.count}, {first}")
        count = text.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 %packed)")
        if kernel.copies:
            copy_columns(text, kernel, grid, depth, packed, (first, count))
        _emit_rows(text, product, first, count)
        return [text.value(f"add i64 {first}, %packed")]

    before = text.value("sub i64 %packed, 1")
    chunks = text.value(
        f"udiv i64 {text.value(f'add i64 {grid.columns.count}, {before}')}, %packed"
    )
    emit_loop(text, "chunks", chunks, 1, (Carried("i64", "0"),), chunk)
    text.effect("call void @llvm.x86.tilerelease()")
    stop_flushing(text, isa, mode)
    text.effect("ret void")
    return text


def _depth(text: FunctionText) -> Depth:
    whole = text.value(f"lshr i64 %k, {GROUP_STEPS.bit_length() - 1}")
    groups = text.value(
        f"lshr i64 {text.value(f'add i64 %k, {GROUP_STEPS - 1}')}, {GROUP_STEPS.bit_length() - 1}"
    )
    segments = text.value("mul i64 %batch, %outer")
    return Depth(whole, groups, text.value(f"mul i64 {segments}, {groups}"))


@dataclass(frozen=True, slots=True)
class _Product:
    """What every block of the call reads: ``panel`` and ``packed`` are places in the ``room``."""

    kernel: TileProduct
    isa: Isa
    grid: Grid
    depth: Depth
    room: str
    panel: str
    packed: str


def _emit_rows(text: FunctionText, product: _Product, first: str, count: str) -> None:
    """All rows beside ``count`` tiles of columns from the tile ``first`` on."""
    rows = product.grid.rows

    def pair(now: list[str]) -> list[str]:
        (number,) = now
        following = text.value(f"add i64 {number}, 1")
        is_pair = text.value(f"icmp ult i64 {following}, {rows.count}")
        is_single = text.value(f"xor i1 {is_pair}, true")
        for tiles, suits in ((2, is_pair), (1, is_single)):
            body = partial(_emit_panel, text, product, (number, following)[:tiles], (first, count))
            emit_when(text, f"rows{tiles}", suits, (), body)
        return [text.value(f"add i64 {number}, 2")]

    pairs = _halved(text, rows.count)
    emit_loop(text, "row_pairs", pairs, 1, (Carried("i64", "0"),), pair)


def _emit_panel(
    text: FunctionText, product: _Product, numbers: tuple[str, ...], columns: tuple[str, str]
) -> list[str]:
    """The tiles of rows ``numbers`` beside all tiles of ``columns``: the first, how many."""
    first, count = columns
    rows = [row_tile(text, product.grid, product.kernel, number) for number in numbers]
    pack_rows(text, product.depth, product.panel, rows)
    name = f"by{len(rows)}"

    def pair(now: list[str]) -> list[str]:
        (done,) = now
        following = text.value(f"add i64 {done}, 1")
        is_pair = text.value(f"icmp ult i64 {following}, {count}")
        is_single = text.value(f"xor i1 {is_pair}, true")

        def block(places: tuple[str, ...]) -> list[str]:
            numbers = [text.value(f"add i64 {first}, {place}") for place in places]
            tiles = [column_tile(text, product.grid, number) for number in numbers]
            size = text.value(f"mul i64 {product.depth.all_groups}, {TILE_BYTES}")
            packed = [
                shift_pointer(text, product.packed, text.value(f"mul i64 {place}, {size}"))
                for place in places
            ]
            at = Block(f"{name}x{len(places)}", tuple(rows), tuple(tiles), tuple(packed))
            emit_sums(text, product.kernel, product.depth, product.panel, at)
            store_sums(text, product.kernel, product.isa, at, product.room)
            return []

        for tiles, suits in ((2, is_pair), (1, is_single)):
            body = partial(block, (done, following)[:tiles])
            emit_when(text, f"{name}_columns{tiles}", suits, (), body)
        return [text.value(f"add i64 {done}, 2")]

    pairs = _halved(text, count)
    emit_loop(text, f"{name}_column_pairs", pairs, 1, (Carried("i64", "0"),), pair)
    return []


def _halved(text: FunctionText, count: str) -> str:
    """Pairs of so many, the last one perhaps a single."""
    return text.value(f"lshr i64 {text.value(f'add i64 {count}, 1')}, 1")
