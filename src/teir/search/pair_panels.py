"""Panels of rows for short BF16 sums: what `teir.lower.pair_blocks` forms six vectors at a time.

288 rows -> three panels of 96;  24 rows that lie apart -> four of them side by side
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.passes.extents import even_block
from teir.passes.pair_rows import TWO_VECTORS, rows_left_over
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of
from teir.target import LINE_BYTES

PAIR_PANEL = 96
"""Rows of a panel that loses nothing."""
_PANELS = (PAIR_PANEL, 128, 160)
_HIGHEST = 2 * PAIR_PANEL
_ROWS_OF_VECTOR = 16
_LOWEST = 2.4
_LEFT_OVER = 1.25
"""The time of rows that fill no pair of vectors, in that of as many vectors of rows that do: at
least so many vectors', and by so much longer."""
_WORD_ROWS = 4
_COLUMNS, _MOST_COLUMNS = 4, 48
_LEAST_DEPTH = 16
"""Products of a sum from which operands are worth a layout of their own: of 8 to 12 products large
results took 1.2 to 1.7 of the time."""
_NEAR_BYTES = 24 << 10
"""The rows of a panel for all products of a sum stay in the first cache."""
_FEWEST_READERS = 64
"""Rows from which columns are worth turning, so that one load brings a pair of factors.

Measured on Zen 5: products of class b whose columns lie side by side took 0.72 to 0.94 of the time,
one of 60 rows 1.0 to 1.1. Zen 4 multiplies as long as it loads two factors: `ad,bdc->abc` took
1.28 times as long, small products of class b 1.04 to 1.08, large ones 0.9 to 1.03.
"""


def are_short_pairs(shape: ProductShape, machine: Machine) -> bool:
    """True for products of BF16 by pairs whose sums are short."""
    if machine.has_tiles or machine.vector_bytes < LINE_BYTES or shape.n is None or not shape.k:
        return False
    if shape.a.data_type is not DataType.BF16:
        return False
    types = {shape.a.data_type, shape.b.data_type, shape.out.data_type}
    depth = extent_of(shape.k)
    is_near = PAIR_PANEL * depth * DataType.BF16.width <= _NEAR_BYTES
    return types == {DataType.BF16} and is_near and depth >= _LEAST_DEPTH


def turns_columns(shape: ProductShape, machine: Machine) -> bool:
    """True for columns of BF16 that are read by pairs, in sums that are not short, where the
    factors of a column lie apart and loading them one by one takes longer than multiplying."""
    if machine.has_tiles or not machine.multiplies_whole or not shape.k:
        return False
    b = shape.b
    if b.data_type is not DataType.BF16 or are_short_pairs(shape, machine):
        return False
    depth = extent_of(shape.k)
    is_apart = shape.k[-1].stride(b.name) != b.data_type.width
    return is_apart and depth >= _LEAST_DEPTH and shape.rows >= _FEWEST_READERS


def fills_pairs(shape: ProductShape, machine: Machine) -> bool:
    """True for such products whose tiles are pairs of vectors, but for the last of many rows."""
    if shape.m is None or not are_short_pairs(shape, machine):
        return False
    return pair_tile(shape)[0] % TWO_VECTORS == 0


def pair_tile(shape: ProductShape) -> tuple[int, int]:
    """Rows and columns that one call forms."""
    assert shape.m is not None
    assert shape.n is not None
    rows, outer = shape.m.extent, shape.m_outer[-1].extent if shape.m_outer else 1
    panel = rows * pair_runs(rows, outer) if rows < PAIR_PANEL else pair_panel(rows)
    return panel, even_block(shape.n.extent, _MOST_COLUMNS, _COLUMNS)


def pair_panel(rows: int) -> int:
    """Rows of a panel: those that leave few rows for tiles of other kinds."""
    whole = (rows,) if rows <= _HIGHEST and rows % PAIR_PANEL else ()
    panels: tuple[int, ...] = (*whole, *(panel for panel in _PANELS if panel <= rows))

    def time(panel: int) -> float:
        return rows // panel * _time(panel) + _time(rows % panel)

    return min(panels, key=time)


def _time(rows: int) -> float:
    """The time of a panel, in rows that lose nothing; see `rows_left_over`."""
    left = rows_left_over(rows)
    vectors = max(_LOWEST, -(-left // _ROWS_OF_VECTOR)) if left else 0
    return rows - left + _LEFT_OVER * _ROWS_OF_VECTOR * vectors


def pair_runs(rows: int, outer: int) -> int:
    """How many of ``outer`` short rows fill pairs of vectors side by side; 1 where none do."""
    if rows % _WORD_ROWS:
        return 1
    counts = range(PAIR_PANEL // rows, 1, -1)
    return next((one for one in counts if one * rows % TWO_VECTORS == 0 and outer % one == 0), 1)
