"""What products that tile registers form ask of a choice: their panels, blocks and layouts.

The kernel packs rows of A by itself, 16 to a tile, and copies columns of B, so it wants many of
both in one call: rows in panels without remainders, and reductions of B that follow one another,
for every run of them is padded to whole groups of 32 steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.dtypes import DataType
from teir.passes.extents import even_block
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span

_TILE = 16
_GROUP = 32
_LEAST_COLUMNS = 4
_LEAST_PRODUCTS = 8192
_LEAST_OF_A_TURN, _LEAST_OF_ALL_TURNS, _LEAST_STEPS = 1 << 10, 1 << 15, 4
"""Products of a tile in loops that one call takes, of all its turns, and steps of its sums."""
_PANELS = range(512, 2 * _TILE - 1, -1)
"""Rows of a panel."""
_WASTE = 0.04
"""The part of a panel's tiles that may be empty for a larger panel."""
_WASTE_IN_PLACE = 0.26
"""The same of rows that a call reads where they lie: 0.6 to 1.0 of the time with a copy of them."""
_WASTE_OF_COLUMNS = 0.34
"""The part of the tiles of columns of a call that may be empty."""
_MOST_REDUCTIONS = 3
"""Axes of sums that a call takes."""
_LONGEST_SUM, _MANY = 4096, 1024
"""Steps of a sum in one block, and rows and columns for which it takes 0.87 of the time of blocks
of 512; sums along both operands take 0.69 to 0.91, all sums of 8,000 steps 1.0 to 1.5."""
_LEAST_TURNED = 64
"""Adjacent steps of rows from which the kernel turns them by itself, 32 at a time."""
_INTERLEAVED_BYTES = 1 << 24
"""Rows of a call, which the kernel interleaves once for all columns."""
_LONGEST_CALL = 1 << 36
"""Products of a call, which nothing ends before it is done: 150 ms."""
_PADDING = 1.2
"""Steps of padded runs per step from which a copy of B without gaps costs less where four groups of
rows read it, or fewer that read as much padding: 0.06 to 0.7 of the time for runs of 2 to 16."""


def are_tiles(shape: ProductShape, machine: Machine) -> bool:
    """True where tile registers form the product."""
    if not machine.has_tiles or shape.m is None or shape.n is None or not shape.k:
        return False
    if shape.a.data_type is not DataType.BF16 or shape.b.data_type is not DataType.BF16:
        return False
    if shape.n.extent < _LEAST_COLUMNS:
        return False
    steps = extent_of(shape.k)
    products = shape.m.extent * shape.n.extent * steps
    if products >= _LEAST_PRODUCTS:
        return True
    if machine.threads > 1 or steps < _LEAST_STEPS or products < _LEAST_OF_A_TURN:
        return False
    return shape.rows * shape.columns * steps >= _LEAST_OF_ALL_TURNS


def tile_panel(rows: int) -> int:
    """Rows of a panel: of those that leave no remainder one that fills its tiles, a large one."""
    if rows <= _PANELS.start:
        return rows
    even = [panel for panel in _PANELS if rows % panel == 0]
    if not even:
        return _PANELS.start // 2
    least = min(map(_waste, even))
    return next(panel for panel in even if _waste(panel) <= least + _WASTE)


def tile_column_block(shape: ProductShape, k: Sequence[Span], machine: Machine) -> int:
    """Columns that the kernel keeps in the second cache beside two tiles of rows."""
    assert shape.n is not None
    column_bytes = extent_of(k) * shape.b.data_type.width
    tiles = max(2, 5 * machine.l2_bytes // 8 // (column_bytes * _TILE) - 2)
    blocks = -(-shape.n.extent // (tiles * _TILE))
    return -(-shape.n.extent // blocks)


def are_laid_for_tiles(shape: ProductShape, k: Sequence[Span]) -> bool:
    """True for rows and columns that the kernel brings into tiles by itself: both adjacent in their
    operands, or their steps.

    One more axis of each goes into the call where the inner one fills its tiles.
    """
    assert shape.m is not None
    assert shape.n is not None
    if len(k) > _MOST_REDUCTIONS or not k:
        return False
    for axis, outer, waste in (
        (shape.m, shape.m_outer, _WASTE_IN_PLACE),
        (shape.n, shape.n_outer, _WASTE_OF_COLUMNS),
    ):
        if len(outer) > 1 or (outer and _waste(axis.extent) > waste):
            return False
    if len(k) > 1 and k[-1].extent % _GROUP:
        return False
    is_turned = shape.m.stride(shape.a.name) != shape.a.data_type.width
    if is_turned and (k[-1].extent < _LEAST_TURNED or shape.m.extent < _TILE):
        return False
    sides = ((shape.m, shape.a), (shape.n, shape.b))
    return all(
        operand.data_type.width in (axis.stride(operand.name), k[-1].stride(operand.name))
        for axis, operand in sides
    )


def is_one_sum_of_tiles(shape: ProductShape) -> bool:
    """True for long sums that are not worth cutting: both operands lie along them, or both have so
    many rows and columns that sums in scratch would come and go from far."""
    if len(shape.k) != 1 or shape.k[0].extent > _LONGEST_SUM:
        return False
    (k,) = shape.k
    are_along = all(k.stride(one.name) == one.data_type.width for one in (shape.a, shape.b))
    return are_along or min(shape.rows, shape.columns) >= _MANY


def tile_rows_of_call(shape: ProductShape, k: Sequence[Span]) -> int:
    """Rows of one call: all, or as many as the kernel interleaves once for all columns."""
    assert shape.m is not None
    row_bytes = extent_of(k) * shape.a.data_type.width
    most = max(_PANELS.start, _INTERLEAVED_BYTES // row_bytes // _TILE * _TILE)
    return even_block(shape.m.extent, most, 2 * _TILE)


def tile_columns_of_call(shape: ProductShape, k: Sequence[Span], rows: int) -> int:
    """Columns of a call of so many rows: all, or as many as it takes before it can be ended."""
    assert shape.n is not None
    most = max(_TILE, _LONGEST_CALL // (rows * extent_of(k)))
    return even_block(shape.n.extent, most, _TILE)


def tile_rows(rows: int, outer: int) -> int:
    """Short rows that make a panel: as few tiles as can be, all panels alike, and large ones."""
    most = min(outer, max(1, _PANELS.start // rows))

    def worth(count: int) -> tuple[int, bool, int]:
        whole, left = divmod(outer, count)
        tiles = whole * -(-count * rows // _TILE) + -(-left * rows // _TILE)
        return tiles, left != 0, -count

    return min(range(1, most + 1), key=worth)


def _waste(panel: int) -> float:
    return -(-panel // _TILE) * _TILE / panel - 1


def pads_runs(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where runs of k that lie apart in B are short for their padding, and often read."""
    if not are_tiles(shape, machine) or not k:
        return False
    name, width = shape.b.name, shape.b.data_type.width
    run = k[-1].extent
    assert shape.n is not None
    if width not in (k[-1].stride(name), shape.n.stride(name)) or run == extent_of(k):
        return False
    for axis in reversed(k[:-1]):
        if axis.stride(name) != run * k[-1].stride(name):
            break
        run *= axis.extent
    padding = -(-run // _GROUP) * _GROUP / run
    return padding >= _PADDING and shape.rows * padding >= 4 * _GROUP
