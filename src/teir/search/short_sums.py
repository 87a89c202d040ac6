"""The choice for short sums of operands that are near, whose output is large."""

from __future__ import annotations

from msgspec.structs import replace

from teir.search.asked_results import waits_for_lines
from teir.search.choice import Choice, Order, Packing, Sharing
from teir.search.chosen_blocks import joined_panel, tile_columns, written_panel
from teir.search.machine import BEYOND_L2, Machine
from teir.search.pair_panels import fills_pairs, pair_tile
from teir.search.shape import ProductShape, extent_of
from teir.search.shared_lines import (
    columns_follow,
    is_tall_tile_in_place,
    lines_of_columns,
    lines_of_runs,
    lines_of_tiles,
    row_run_bytes,
)
from teir.search.sharing import sharing_of
from teir.search.short_runs import fills_lines_later
from teir.search.step import is_adjacent
from teir.target import VECTORS_IN_A_ROW

SHORT_DEPTH = 96
"""Products per result up to which writing the output is a large part of the work."""
SHORT_PANEL = 4
"""Vectors of a panel with many ends of runs."""
_NEAR = 2
"""Sizes of the second cache up to which two operands may be walked in the order of the output."""
_NEAR_IN_FEW = 4
"""The same where registers are few: on Zen 3, 512 KB of a second cache and a third that is near,
1.5 MB of both operands take 0.8 of the time of rows packed in blocks."""
_LARGE_PART = 4
"""Rows that take this part of the second cache are large: whole, they would be read from it again
for every tile, or from beyond it."""
_PANEL_COLUMNS = 256
"""Columns that a panel of rows meets before the next one is packed; with more nothing is gained."""
_FEW_PRODUCTS = 12
"""Per result up to which rows packed whole, and read again for every block of columns, cost less
than lines that tiles share. Golden Cove: 0.83 of the time up to 12 products, 1.3 from 23 on."""
_MOST_IN_BATCHES, _FEWEST_BYTES_IN_BATCHES, _FEWEST_COLUMNS_IN_BATCHES = 48, 1536, 32
"""Products per result, bytes of rows that follow one another, and columns, in batches: beyond them
0.9 to 1.8 of the time."""

_FEW_PANELS = 8
"""Panels of rows that read columns where they lie."""
_MOST_BESIDE_PARTS = 192 << 10
"""Bytes of B that rows of less than a vector meet in place."""


def is_short(shape: ProductShape, machine: Machine) -> bool:
    """True where few products make each result of a large output of two operands that are near.

    Not of rows that one panel takes: packed columns would be read once. In part of a vector they
    would be stored one by one besides, whatever the machine: 0.2 to 0.8 of the time without; up to
    three vectors 0.4 to 1.0 on Golden Cove.

    Results that the second cache just loses are as good as in memory where the third is far:
    outputs of one to two sizes of it took 4 to 17 % longer in blocks. But rows in place that one
    tile takes are not copied: 0.43 to 0.82 of the time, where columns follow them.
    """
    if shape.m is None or shape.n is None or (shape.c and not _gains_in_batches(shape, machine)):
        return False
    if not makes_short_sums(shape) and not fills_pairs(shape, machine):
        return False
    rows, columns, is_third_far = shape.rows, shape.columns, machine.has_far_third_cache
    if is_tall_tile_in_place(shape, machine):
        return False
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    if rows < (SHORT_PANEL * lanes if is_third_far else lanes):
        return False
    width = shape.out.data_type.width
    caches = _NEAR_IN_FEW if machine.has_few_registers else _NEAR
    near = (rows + columns) * extent_of(shape.k) * width <= caches * machine.l2_bytes
    large = (1 if is_third_far else 2) * machine.l2_bytes
    return near and rows * columns * width >= large


def _gains_in_batches(shape: ProductShape, machine: Machine) -> bool:
    """True for long rows and many columns of every batch where the third cache is far.

    Measured on Golden Cove, drawn ones, one thread and two: FP64 0.61 to 0.64 of the time in the
    mean (0.15 to 1.24), FP32 0.49 to 0.53 (0.15 to 1.15).
    """
    if not machine.has_far_third_cache or extent_of(shape.k) > _MOST_IN_BATCHES:
        return False
    is_long = row_run_bytes(shape) >= _FEWEST_BYTES_IN_BATCHES
    return is_long and shape.columns >= _FEWEST_COLUMNS_IN_BATCHES


def makes_short_sums(shape: ProductShape) -> bool:
    """Not of types narrower than their sums: only kernels of whole ones write past the caches."""
    return not shape.out.data_type.is_narrow and extent_of(shape.k) <= SHORT_DEPTH


def is_far(shape: ProductShape, machine: Machine) -> bool:
    """True for an output that the second cache does not hold."""
    results = shape.rows * shape.columns * extent_of(shape.c)
    return results * shape.out.data_type.width >= BEYOND_L2 * machine.l2_bytes


def near_choice(shape: ProductShape, depth: int, machine: Machine) -> Choice:
    """Both operands packed, the rows a panel at a time where they are large; loops follow the
    lines of the output where rows share them with columns or with the next tile."""
    choice = short_choice(shape, depth, machine)
    if (by_lines := lines_of_columns(choice, shape, machine)) is not None:
        return by_lines
    if not machine.has_far_third_cache:
        return choice
    if (by_runs := lines_of_runs(choice, shape, machine)) is not None:
        return by_runs
    if _are_parts_of_vectors(shape, machine):
        assert shape.n is not None
        return replace(choice, packed_b=Packing.NONE, column_block=shape.n.extent)
    panels = _in_panels(choice, shape, machine)
    if panels is not None and extent_of(shape.k) > _FEW_PRODUCTS:
        return panels
    return lines_of_tiles(choice, shape, machine) or panels or choice


def _are_parts_of_vectors(shape: ProductShape, machine: Machine) -> bool:
    """True for rows of less than a vector that columns follow: one call takes all columns, each
    of which meets its sums where they lie in B, as a call of a few columns takes little longer.

    Asked where the third cache is far. Not of columns adjacent in B, nor of a large B. Measured on
    Golden Cove, drawn ones: 0.77 (FP64) and 0.73 (FP32) of the time in the mean (0.44 to 1.25); of
    whole vectors 0.9 to 1.2, of more of B up to 2.2.
    """
    if shape.n is None or not columns_follow(shape):
        return False
    if row_run_bytes(shape) >= machine.vector_bytes or is_adjacent(shape.n, shape.b):
        return False
    size = shape.columns * extent_of(shape.k) * shape.b.data_type.width
    return size <= _MOST_BESIDE_PARTS


def _in_panels(choice: Choice, shape: ProductShape, machine: Machine) -> Choice | None:
    if choice.sharing is not Sharing.NONE or not _goes_in_panels(shape, machine):
        return None
    return replace(choice, packed_a=Packing.BLOCKS, order=Order.ROWS, row_block=choice.panel)


def _goes_in_panels(shape: ProductShape, machine: Machine) -> bool:
    """True where rows packed whole would leave the second cache before all columns met them.

    Asked where the third cache is far. Not where a panel would take some elements of every line of
    A. Measured on Golden Cove: 0.68 (FP64) and 0.75 (FP32) of the time up to 32 columns, 0.84 up to
    96, 0.92 up to 256; C64 and C128 0.87, one of 43 cases 1.25.
    """
    if shape.columns > _PANEL_COLUMNS:
        return False
    size = shape.rows * extent_of(shape.k) * shape.a.data_type.width
    if _LARGE_PART * size < machine.l2_bytes:
        return False
    return not any(is_adjacent(axis, shape.a) for axis in shape.m_outer)


def short_choice(shape: ProductShape, depth: int, machine: Machine) -> Choice:
    """Both operands packed whole, or the second one in place; loops follow the output, which is
    written once."""
    if fills_pairs(shape, machine):
        panel, columns = pair_tile(shape)
        return _short_tiles(shape, depth, panel, columns, machine)
    rows = _rows_in_a_row(shape, machine)
    if rows is not None:
        assert shape.n is not None
        choice = _short_tiles(shape, depth, rows, shape.n.extent, machine)
        return replace(choice, prefetches_out=True)
    panel = joined_panel(shape, machine) or written_panel(shape, machine)
    choice = _short_tiles(shape, depth, panel, tile_columns(shape, panel, machine), machine)
    if _reads_columns_seldom(shape, panel, machine):
        return replace(choice, packed_b=Packing.NONE)
    return choice


def _rows_in_a_row(shape: ProductShape, machine: Machine) -> int | None:
    """In few registers, the rows of a result that columns follow, some whole vectors of them: one
    tile takes them beside all columns (`teir.lower.columns_in_a_row`). None elsewhere."""
    if not machine.has_few_registers or shape.m is None or not columns_follow(shape):
        return None
    rows, run_bytes = shape.m.extent, row_run_bytes(shape)
    vectors, left = divmod(run_bytes, machine.vector_bytes)
    is_run = run_bytes == rows * shape.out.data_type.width and left == 0
    return rows if is_run and vectors in VECTORS_IN_A_ROW else None


def _reads_columns_seldom(shape: ProductShape, panel: int, machine: Machine) -> bool:
    """True where few panels of rows meet sums that lie together in B: it is read where it lies.

    Measured on Golden Cove: 0.9 of the time in the mean (0.64 to 1.08), columns that follow the
    rows; others 0.9 (0.78 to 1.08).
    """
    if not machine.has_far_third_cache or shape.rows > _FEW_PANELS * panel:
        return False
    assert shape.n is not None
    lie_together = any(is_adjacent(axis, shape.b) for axis in shape.k)
    return lie_together and not is_adjacent(shape.n, shape.b)


def _short_tiles(
    shape: ProductShape, depth: int, panel: int, columns: int, machine: Machine
) -> Choice:
    return Choice(
        packed_a=Packing.WHOLE,
        packed_b=Packing.WHOLE,
        order=Order.OUTPUT,
        depth=depth,
        panel=panel,
        row_block=shape.rows,
        column_block=columns,
        sharing=sharing_of(shape, machine),
        streams=machine.writes_lines and not fills_lines_later(shape),
        prefetches_a=False,
        prefetches_b=False,
        prefetches_out=waits_for_lines(shape, is_far(shape, machine), machine),
        prefetches_packed=False,
    )
