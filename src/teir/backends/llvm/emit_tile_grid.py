"""The tiles of a `TileProduct`: 16 rows of A, or up to 16 columns of B, and where each one lies.

Rows and columns have two axes each. Tiles cut the inner one and are counted along both.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.lower.tile_kernels import TileProduct
from teir.lower.tile_room import TILE_SIDE


@dataclass(frozen=True, slots=True)
class Side:
    """``count`` tiles, ``inner`` for every index of the outer axis, of ``size`` rows or columns."""

    inner: str
    count: str
    size: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Tiles of rows and of columns, and where the operands begin."""

    rows: Side
    columns: Side
    a: str
    b: str
    c: str

    @classmethod
    def of(cls, text: FunctionText, operands: tuple[str, ...]) -> Grid:
        """The grid of a call; columns are cut evenly."""
        a, b, c, _ = operands
        above = _tiles(text, "%m")
        rows = Side(above, text.value(f"mul i64 {above}, %m_outer"), str(TILE_SIDE))
        across = _tiles(text, "%n")
        more = text.value(f"sub i64 {across}, 1")
        size = text.value(f"udiv i64 {text.value(f'add i64 %n, {more}')}, {across}")
        columns = Side(across, text.value(f"mul i64 {across}, %n_outer"), size)
        return cls(rows, columns, a, b, c)


@dataclass(frozen=True, slots=True)
class Rows:
    """A tile of rows: ``count`` of them exist; ``c`` is their place in column 0 of C."""

    a: str
    c: str
    count: str


@dataclass(frozen=True, slots=True)
class Columns:
    """A tile of columns of B; the first ``skipped`` of its results are not stored again.

    ``c_offset`` is how far the first column that is stored lies behind column 0 of C.
    """

    b: str
    c_offset: str
    skipped: str
    count: str


def row_tile(text: FunctionText, grid: Grid, kernel: TileProduct, number: str) -> Rows:
    """Tile ``number`` of the rows."""
    outer, inner = _place(text, grid.rows, number)
    row = text.value(f"mul i64 {inner}, {TILE_SIDE}")
    left = text.value(f"sub i64 %m, {row}")
    count = text.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 {TILE_SIDE})")
    a = _at(text, grid.a, (outer, "%a_m_outer"), (row, "%a_m"))
    c = _at(text, grid.c, (outer, "%c_m_outer"), (row, str(kernel.out_type.width)))
    return Rows(a, c, count)


def column_tile(text: FunctionText, grid: Grid, number: str) -> Columns:
    """Tile ``number`` of the columns."""
    size = grid.columns.size
    outer, inner = _place(text, grid.columns, number)
    stored = text.value(f"mul i64 {inner}, {size}")
    last = text.value(f"sub i64 %n, {size}")
    first = text.value(f"call i64 @llvm.umin.i64(i64 {stored}, i64 {last})")
    skipped = text.value(f"sub i64 {stored}, {first}")
    b = _at(text, grid.b, (outer, "%b_n_outer"), (first, "%b_n"))
    far = text.value(f"mul i64 {outer}, %c_n_outer")
    c_offset = text.value(f"add i64 {far}, {text.value(f'mul i64 {stored}, %c_n')}")
    return Columns(b, c_offset, skipped, text.value(f"sub i64 {size}, {skipped}"))


def _tiles(text: FunctionText, extent: str) -> str:
    rounded = text.value(f"add i64 {extent}, {TILE_SIDE - 1}")
    return text.value(f"lshr i64 {rounded}, {TILE_SIDE.bit_length() - 1}")


def _place(text: FunctionText, side: Side, number: str) -> tuple[str, str]:
    outer = text.value(f"udiv i64 {number}, {side.inner}")
    before = text.value(f"mul i64 {outer}, {side.inner}")
    return outer, text.value(f"sub i64 {number}, {before}")


def _at(text: FunctionText, place: str, *moves: tuple[str, str]) -> str:
    for index, stride in moves:
        place = shift_pointer(text, place, text.value(f"mul i64 {index}, {stride}"))
    return place
