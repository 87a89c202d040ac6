"""A product of BF16 matrices by the processor's tile registers (AMX): loops around its blocks.

    for as many tiles of columns as the room takes:
      copy them into the room, steps adjacent, padded with zeros
      for every strip of tiles of 16 rows of A:
        interleave the steps of their rows by twos, padded with zeros, into the room
        for every two of these tiles of rows, for every two tiles of columns:
          sum all steps in four tiles, of 16 x 16 results each
          put the tiles down in the room; add C, round, store

Where the room holds all rows (``keeps_rows``), they are interleaved once before the columns. FAR
ones are walked outside the columns as above, NEAR ones inside:

    interleave the steps of all rows
    for as many tiles of columns as the room takes:
      copy them
      for every two of them:
        for every two tiles of rows: as above

A tile of results has a row for every column of the block, since C is adjacent along m. A column of
B, 32 steps of it, is a row of a tile. Columns are cut into tiles of equal height, for the registers
have one configuration during a call, and the last tile of an axis forms some columns of the tile
before once more. Tile registers belong to the call: configured when it begins, released when it
ends. Source: Intel SDM volume 1 chapter 18, volume 2 TDPBF16PS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from teir.backends.llvm.emit_flush import start_flushing, stop_flushing
from teir.backends.llvm.emit_loops import Carried, emit_loop, emit_when
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.backends.llvm.emit_tile_grid import Columns, Grid, Rows, column_tile, row_tile
from teir.backends.llvm.emit_tile_packing import copy_columns, distance, pack_rows
from teir.backends.llvm.emit_tile_rows import Strip, pack_strip, pair_place
from teir.backends.llvm.emit_tile_sums import (
    Asked,
    Block,
    Depth,
    configure,
    emit_sums,
    store_sums,
)
from teir.lower.tile_kernels import TileProduct, TileRows
from teir.lower.tile_room import (
    CONFIGURED_BYTES,
    GROUP_STEPS,
    PANEL_GROUP_BYTES,
    PANEL_START_BYTES,
    TILE_BYTES,
    TILE_SIDE,
)
from teir.target import LINE_BYTES, Isa

TILE_PRODUCT_ARGUMENTS = (
    "m", "n", "k", "a_k", "b_k", "batch", "a_batch", "b_batch", "outer", "a_outer", "b_outer",
    "b_n", "c_n", "accumulate", "piece", "a_piece", "m_outer", "a_m_outer", "c_m_outer", "n_outer",
    "b_n_outer", "c_n_outer", "a_m", "strip", "packed",
)  # fmt: skip
_LINES_OF_GROUP = 4
"""Of the rows that come next, so many are asked for by every group of products."""


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
    pair_bytes = text.value(f"mul i64 {depth.all_groups}, {PANEL_GROUP_BYTES}")
    kept = _halved(text, grid.rows.count if kernel.keeps_rows else "%strip")
    packed = shift_pointer(text, panel, text.value(f"mul i64 {pair_bytes}, {kept}"))
    configure(text, shift_pointer(text, room, CONFIGURED_BYTES), grid.columns.size)
    product = _Product(kernel, isa, grid, depth, room, panel, pair_bytes, packed)

    if kernel.keeps_rows:
        _each_strip(text, product, lambda _: None)

    def chunk(now: list[str]) -> list[str]:
        (first,) = now
        left = text.value(f"sub i64 {grid.columns.count}, {first}")
        count = text.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 %packed)")
        if kernel.copies:
            copy_columns(text, kernel, grid, depth, packed, (first, count))
        match kernel.rows:
            case TileRows.PASSING:
                _each_strip(
                    text, product, lambda strip: _emit_rows(text, product, (first, count), strip)
                )
            case TileRows.NEAR:
                _emit_columns(text, product, (first, count))
            case TileRows.FAR:
                _emit_rows(text, product, (first, count), ("0", grid.rows.count))
            case _:
                assert_never(kernel.rows)
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
    pair_bytes: str
    packed: str

    def row_tiles(self, text: FunctionText, numbers: Sequence[str]) -> list[Rows]:
        return [row_tile(text, self.grid, self.kernel, number) for number in numbers]

    def columns_at(self, text: FunctionText, place: str) -> str:
        """Where tile ``place`` of the copied columns lies."""
        size = text.value(f"mul i64 {self.depth.all_groups}, {TILE_BYTES}")
        return shift_pointer(text, self.packed, text.value(f"mul i64 {place}, {size}"))

    def block(self, text: FunctionText, at: Block) -> None:
        emit_sums(text, self.kernel, self.depth, at)
        store_sums(text, self.kernel, self.isa, at, self.room)


def _in_pairs(
    text: FunctionText, name: str, count: str, body: Callable[[tuple[str, ...]], None]
) -> None:
    """``body`` for two of ``count`` tiles at a time, and for a last single one."""

    def pair(now: list[str]) -> list[str]:
        (number,) = now
        following = text.value(f"add i64 {number}, 1")
        is_pair = text.value(f"icmp ult i64 {following}, {count}")
        is_single = text.value(f"xor i1 {is_pair}, true")

        def tiles(numbers: tuple[str, ...]) -> list[str]:
            body(numbers)
            return []

        for size, suits in ((2, is_pair), (1, is_single)):
            numbers = (number, following)[:size]
            emit_when(text, f"{name}{size}", suits, (), partial(tiles, numbers))
        return [text.value(f"add i64 {number}, 2")]

    pairs = _halved(text, count)
    emit_loop(text, f"{name}_pairs", pairs, 1, (Carried("i64", "0"),), pair)


def _each_strip(
    text: FunctionText, product: _Product, body: Callable[[tuple[str, str]], None]
) -> None:
    """Interleave the rows of every strip, then do ``body``: it is told the first tile, how many."""

    def strip(now: list[str]) -> list[str]:
        (first,) = now
        left = text.value(f"sub i64 {product.grid.rows.count}, {first}")
        count = text.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 %strip)")
        place = _kept(text, product, first if product.kernel.keeps_rows else "0")
        _pack(text, product, Strip("strip", first, count, place, product.pair_bytes))
        body((first, count))
        return [text.value(f"add i64 {first}, %strip")]

    before = text.value("sub i64 %strip, 1")
    strips = text.value(
        f"udiv i64 {text.value(f'add i64 {product.grid.rows.count}, {before}')}, %strip"
    )
    emit_loop(text, "strips", strips, 1, (Carried("i64", "0"),), strip)


def _pack(text: FunctionText, product: _Product, strip: Strip) -> None:
    if not product.kernel.packs_pairs:
        pack_strip(text, product.kernel, product.grid, product.depth, strip)
        return

    def pair(numbers: tuple[str, ...]) -> None:
        tiles = [text.value(f"add i64 {strip.first}, {number}") for number in numbers]
        rows = product.row_tiles(text, tiles)
        place = pair_place(text, strip.place, numbers[0], strip.pair_bytes)
        pack_rows(text, product.depth, place, rows)

    _in_pairs(text, "packed", strip.count, pair)


def _kept(text: FunctionText, product: _Product, number: str) -> str:
    """Where the pair of tiles of rows lies whose first one is ``number`` of those in the room."""
    return pair_place(text, product.panel, number, product.pair_bytes)


def _emit_columns(text: FunctionText, product: _Product, columns: tuple[str, str]) -> None:
    """All rows, which are kept, beside the tiles of ``columns``: the first, how many."""
    first, count = columns
    grid = product.grid

    def column_pair(places: tuple[str, ...]) -> None:
        numbers = [text.value(f"add i64 {first}, {place}") for place in places]
        tiles = [column_tile(text, grid, number) for number in numbers]
        packed = [product.columns_at(text, place) for place in places]
        ahead = [
            _columns_ahead(text, grid, number, len(places), tile)
            for number, tile in zip(numbers, tiles, strict=True)
        ]
        name = f"across{len(places)}"

        def row_pair(numbers: tuple[str, ...]) -> None:
            rows = product.row_tiles(text, numbers)
            place = _kept(text, product, numbers[0])
            at = Block(
                f"{name}x{len(rows)}",
                tuple(rows),
                tuple(tiles),
                place,
                tuple(packed),
                tuple(ahead),
                _results_asked(text, product, rows, tiles),
            )
            product.block(text, at)

        _in_pairs(text, f"{name}_rows", grid.rows.count, row_pair)

    _in_pairs(text, "columns", count, column_pair)


def _columns_ahead(text: FunctionText, grid: Grid, number: str, step: int, tile: Columns) -> str:
    """How far the results of the columns that come next lie behind those of ``tile``."""
    following = text.value(f"add i64 {number}, {step}")
    exists = text.value(f"icmp ult i64 {following}, {grid.columns.count}")
    after = column_tile(
        text, grid, text.value(f"select i1 {exists}, i64 {following}, i64 {number}")
    )
    return text.value(f"sub i64 {after.c_offset}, {tile.c_offset}")


def _emit_rows(
    text: FunctionText, product: _Product, columns: tuple[str, str], strip: tuple[str, str]
) -> None:
    """The rows of ``strip`` beside the tiles of ``columns``: of both the first, how many.

    The first of the strip lies first in the room.
    """
    first, count = columns
    grid = product.grid

    def row_pair(places: tuple[str, ...]) -> None:
        panel = _kept(text, product, places[0])
        numbers = [text.value(f"add i64 {strip[0]}, {place}") for place in places]
        rows = product.row_tiles(text, numbers)
        (next_rows,) = product.row_tiles(text, (text.value(f"add i64 {numbers[-1]}, 1"),))
        rows_ahead = distance(text, rows[0].c, next_rows.c)
        name = f"by{len(rows)}"

        def column_pair(places: tuple[str, ...]) -> None:
            numbers = [text.value(f"add i64 {first}, {place}") for place in places]
            tiles = [column_tile(text, grid, number) for number in numbers]
            packed = [product.columns_at(text, place) for place in places]
            ahead = [
                _ahead(text, grid, columns, len(places), rows_ahead, place, tile)
                for place, tile in zip(places, tiles, strict=True)
            ]
            at = Block(
                f"{name}x{len(places)}",
                tuple(rows),
                tuple(tiles),
                panel,
                tuple(packed),
                tuple(ahead),
                (
                    *_rows_asked(text, product, panel, places[0]),
                    *_results_asked(text, product, rows, tiles),
                ),
            )
            product.block(text, at)

        _in_pairs(text, f"{name}_columns", count, column_pair)

    _in_pairs(text, "rows", strip[1], row_pair)


def _rows_asked(text: FunctionText, product: _Product, panel: str, place: str) -> tuple[Asked, ...]:
    """The part of the next pair of tiles that the block at tile ``place`` of the columns asks for.

    They arrive from beyond the second cache while the registers multiply.
    """
    if product.kernel.rows is not TileRows.FAR:
        return ()
    size = _LINES_OF_GROUP * LINE_BYTES
    part = text.value(f"mul i64 {product.depth.all_groups}, {size}")
    before = text.value(f"mul i64 {text.value(f'lshr i64 {place}, 1')}, {part}")
    start = text.value(f"call i64 @llvm.umin.i64(i64 {before}, i64 {product.pair_bytes})")
    following = shift_pointer(text, panel, product.pair_bytes)
    end = shift_pointer(text, following, product.pair_bytes)
    lines = tuple(range(0, size, LINE_BYTES))
    return (Asked(shift_pointer(text, following, start), str(size), end, lines, False),)


def _results_asked(
    text: FunctionText, product: _Product, rows: Sequence[Rows], tiles: Sequence[Columns]
) -> tuple[Asked, ...]:
    """The results of a block, which are stored when it is summed."""
    if not product.kernel.asks:
        return ()
    last = len(rows) * TILE_SIDE * product.kernel.out_type.width - 1
    asked = []
    for tile in tiles:
        place = shift_pointer(text, rows[0].c, tile.c_offset)
        size = text.value(f"mul i64 {tile.count}, %c_n")
        asked.append(Asked(place, "%c_n", shift_pointer(text, place, size), (0, last), True))
    return tuple(asked)


def _ahead(
    text: FunctionText,
    grid: Grid,
    chosen: tuple[str, str],
    step: int,
    rows_ahead: str,
    place: str,
    tile: Columns,
) -> str:
    """How far the results of the block that comes next lie behind those of this one.

    It has the next columns of the ``chosen`` ones, or the first of them and the next rows.
    """
    first, count = chosen
    following = text.value(f"add i64 {place}, {step}")
    is_inside = text.value(f"icmp ult i64 {following}, {count}")
    start = text.value(f"select i1 {is_inside}, i64 {following}, i64 0")
    rows = text.value(f"select i1 {is_inside}, i64 0, i64 {rows_ahead}")
    after = column_tile(text, grid, text.value(f"add i64 {first}, {start}"))
    columns = text.value(f"sub i64 {after.c_offset}, {tile.c_offset}")
    return text.value(f"add i64 {rows}, {columns}")


def _halved(text: FunctionText, count: str) -> str:
    """Pairs of so many, the last one perhaps a single."""
    return text.value(f"lshr i64 {text.value(f'add i64 {count}, 1')}, 1")
