"""Rows that share the lines of a large output with columns in between, or with the next tile.

    out[b, c, d, a] = sum of A[k, b, a] * B[k, c, d], a and d few, tiles of a and blocks of c

    for b: for d: for blocks of c:        every line is left and met again for each d
    for blocks of c: for b: for d:        lines of a block of c stay in the second cache meanwhile

    out[c, b, a] = sum of A[k, b, a] * B[k, c], tiles of a that end within lines

    for b: for tiles of a: for c:         a line is met again for the next tile when all c have been
    for blocks of c: for b: for tiles:    when a block of c has been

    out[c, a] = sum of A[k, a] * B[k, c], some tiles of a, which c follow

    for tiles of a: for c:                all lines are met once for each tile
    for blocks of c: for tiles of a:      once

They are written through the caches: parts of lines that go past them wait for one another, and
those of two threads far longer.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.search.choice import Choice, Order
from teir.search.machine import Machine
from teir.search.packed_operands import rows_in_a_row
from teir.search.shape import ProductShape, extent_of
from teir.search.step import is_adjacent

_MOST_RUN_BYTES = 512
"""Bytes of the rows that follow one another, at most. Measured on Golden Cove: runs of 240 to 720
bytes 0.8 of the time in the mean, some from 580 on 1.3; shorter ones 0.46 to 0.77."""
_MOST_PARTS, _PARTS = 3, 4
"""Parts of the second cache, of so many, that lines of a block of columns take at most."""
_FEWEST_COLUMNS = 4
"""Of a block: 8 at least, or 2, took longer in the mean."""
_FEWEST_ROW_BYTES = 4096
"""Of the rows that follow one another, where tiles share lines: 1.5 times as long with fewer."""
_MOST_PRODUCTS = 32
"""Per result where tiles share lines: packed rows are read again for every block of columns."""
_MOST_FOLLOWED_BYTES = 720
"""Bytes of the rows, at most, where columns follow them and several tiles take them. Measured on
Golden Cove: runs of 264 to 704 bytes 0.75 of the time in the mean (0.53 to 1.04), of 736 to 1640
0.69 to 1.5."""
_TALL, _TALL_COLUMNS = 5, 5
"""Vectors of rows that one tile takes beside so many columns: 0.92 of the time of two tiles."""
_COLUMNS_TOGETHER = 24
"""Columns of a block where tiles share lines: 6 took up to 2.8 times as long, 48 1 to 4 % more."""


def lines_of_tiles(choice: Choice, shape: ProductShape, machine: Machine) -> Choice | None:
    """The choice with blocks of columns outside the loops over tiles of rows; None where the tiles
    share few lines."""
    if shape.n is None or not _tiles_share_lines(shape, machine):
        return None
    return _by_lines(choice, min(shape.n.extent, _COLUMNS_TOGETHER))


def lines_of_runs(choice: Choice, shape: ProductShape, machine: Machine) -> Choice | None:
    """The choice with blocks of columns, which follow the rows, outside the loop over their tiles;
    None where one tile takes the rows, or they are long."""
    if not machine.has_far_third_cache or not columns_follow(shape):
        return None
    run_bytes, width = row_run_bytes(shape), shape.out.data_type.width
    if not choice.panel * width < run_bytes <= _MOST_FOLLOWED_BYTES:
        return None
    if _is_tall_tile(shape, machine):
        choice = replace(choice, panel=shape.rows, column_block=_TALL_COLUMNS)
    return _by_lines(choice, choice.column_block)


def is_tall_tile_in_place(shape: ProductShape, machine: Machine) -> bool:
    """True where one tile takes the rows, which are adjacent in A, and columns follow them."""
    if not machine.has_far_third_cache or shape.m is None or not columns_follow(shape):
        return False
    return is_adjacent(shape.m, shape.a) and _is_tall_tile(shape, machine)


def _is_tall_tile(shape: ProductShape, machine: Machine) -> bool:
    """True for rows of one axis that are one vector more than other tiles have."""
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    if machine.has_few_registers or shape.m is None or shape.m_outer:
        return False
    return (_TALL - 1) * lanes < shape.m.extent <= _TALL * lanes


def columns_follow(shape: ProductShape) -> bool:
    """True where the next column begins where the rows of one end."""
    run_bytes = row_run_bytes(shape)
    return shape.n is not None and run_bytes == shape.n.stride(shape.out.name)


def lines_of_columns(choice: Choice, shape: ProductShape, machine: Machine) -> Choice | None:
    """The choice with blocks of columns outside the loops that fill their lines; None where all
    columns are one block, rows are long, no columns lie between them, or lines of a few columns
    leave the second cache."""
    if shape.n is None or choice.column_block >= shape.n.extent:
        return None
    column_bytes = shape.n.stride(shape.out.name)
    room = _MOST_PARTS * machine.l2_bytes // (_PARTS * column_bytes)
    if room < _FEWEST_COLUMNS or not _share_lines(shape):
        return None
    return _by_lines(choice, min(choice.column_block, room))


def _by_lines(choice: Choice, columns: int) -> Choice:
    return replace(
        choice, order=Order.LINES, column_block=columns, streams=False, prefetches_out=False
    )


def _tiles_share_lines(shape: ProductShape, machine: Machine) -> bool:
    """True where rows are long, so that tiles, which begin anywhere in a line, end within one.

    Measured on Golden Cove, rows of one axis: 0.74 of the time in the mean (FP64, 0.28 to 1.09)
    and 0.82 (FP32, 0.5 to 1.24); of several 0.80 (0.47 to 1.3) and 0.66 (0.24 to 1.14). From 33
    products on 0.6 to 1.75, nothing in the mean.
    """
    if not machine.has_far_third_cache or extent_of(shape.k) > _MOST_PRODUCTS:
        return False
    return row_run_bytes(shape) >= _FEWEST_ROW_BYTES


def row_run_bytes(shape: ProductShape) -> int:
    """Bytes of the rows that lie next to each other in the result; 0 where none do."""
    width = shape.out.data_type.width
    if shape.m is None or shape.m.stride(shape.out.name) != width:
        return 0
    return rows_in_a_row(shape.m, shape) * width


def _share_lines(shape: ProductShape) -> bool:
    """True where columns of an outer loop lie next to a short run of rows."""
    out = shape.out.name
    if shape.m is None:
        return False
    run_bytes = rows_in_a_row(shape.m, shape) * shape.m.stride(out)
    is_short = run_bytes <= _MOST_RUN_BYTES
    return is_short and any(axis.stride(out) == run_bytes for axis in shape.n_outer)
