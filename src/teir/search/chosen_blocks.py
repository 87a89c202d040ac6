"""Rows and columns of one matrix-like step that are worked on together."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from teir.passes.cache_blocks import FEWEST_COLUMNS, most_columns, most_rows
from teir.passes.extents import even_block
from teir.passes.parallelise import CHUNKS
from teir.search.choice import Sharing
from teir.search.machine import Machine
from teir.search.packed_rows import rows_together
from teir.search.panel_rows import panel_of
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span

_USUAL_BYTES = 6144
"""Bytes of a column of the longest reduction blocks of outputs that stay in the caches."""
_TILE_COLUMNS = 8
_BESIDE = 16
"""Columns of a register block of three vectors; and side by side in a packed block."""
_BESIDE_COLUMNS = 512 << 10
"""Bytes of the second cache that panels of A, the one used and the next, and C take beside B where
B takes the rest of three quarters: fewer blocks of columns bring a far A less often."""


def written_panel(shape: ProductShape, machine: Machine) -> int:
    """Rows of a panel whose results go past the caches.

    Long rows make long panels of few columns: whole lines of the output, one after the other.
    """
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    rows = 1 if shape.m is None else shape.m.extent
    if machine.has_few_registers:
        return panel_of(shape, machine)
    for vectors in (9, 6):
        if rows % (vectors * lanes) == 0:
            return vectors * lanes
    return panel_of(shape, machine)


def joined_panel(shape: ProductShape, machine: Machine) -> int | None:
    """Rows of a panel of short rows that follow one another and fill whole vectors together; None
    where they do not. As many vectors as other panels have: lines side by side go past the caches
    at once. Measured on Golden Cove, one vector against four: 0.13 to 0.72 of the time."""
    if shape.m is None or not shape.m_outer:
        return None
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    rows, outer = shape.m.extent, shape.m_outer[-1]
    together = lanes // gcd(rows, lanes) * rows
    if rows % lanes == 0 or together > machine.highest_block * lanes:
        return None
    most = max(1, written_panel(shape, machine) // together)
    panels = (count * together for count in range(most, 0, -1))
    return next((one for one in panels if rows_together(shape.m, outer, one) > 1), None)


def tile_columns(shape: ProductShape, panel: int, machine: Machine) -> int:
    """Columns of one register block beside a panel; a number that divides the columns if one does.

    Short rows in so many columns are whole vectors.
    Four vectors leave room for 6 columns, three for 9, two for 12; in few registers three for 4,
    two for 6.
    """
    assert shape.n is not None
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    vectors = -(-panel // lanes)
    if machine.has_few_registers:
        largest = machine.columns_in_few(vectors)
    else:
        largest = {1: 16, 2: 12, 3: 9, 4: 6, 6: 4, 9: 2}.get(vectors, 4)
    extent = shape.n.extent
    rows = 1 if shape.m is None else shape.m.extent
    granule = lanes // gcd(rows, lanes)
    if extent <= largest:
        return extent
    fitting = [
        size
        for size in range(largest, largest // 2, -1)
        if extent % size == 0 and size % granule == 0
    ]
    even = -(-extent // -(-extent // largest))
    return fitting[0] if fitting else even


def row_block(shape: ProductShape, k: Sequence[Span], sharing: Sharing, machine: Machine) -> int:
    """Rows of A that are packed together at this depth; fewer where threads share them."""
    if shape.m is None:
        return 1
    step_bytes = extent_of(k) * shape.a.data_type.width
    panel = machine.panel_rows(shape.out.data_type.accumulator.width)
    largest = most_rows(step_bytes, panel, machine.l2_bytes)
    if sharing is Sharing.ROWS:
        largest = min(largest, max(panel, shape.rows // (CHUNKS * machine.threads)))
    if largest >= shape.m.extent:
        return largest
    return even_block(shape.m.extent, largest, panel)


def _deep_columns(shape: ProductShape, n: Span, column_bytes: int, machine: Machine) -> int:
    """All columns where three quarters of the second cache hold them, else half of it full.

    A panel of A is long as well, and comes from the third cache: many columns have to meet it.
    Of columns that are packed side by side as they lay few, so that a tile reads whole lines.
    """
    if n.stride(shape.b.name) == shape.b.data_type.width:
        return min(n.extent, _BESIDE)
    if 4 * n.extent * column_bytes <= 3 * machine.l2_bytes:
        return n.extent
    return max(FEWEST_COLUMNS, machine.l2_bytes // 2 // column_bytes)


def _meets_far_rows(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where every block of columns brings the rows of A from a third cache that is far.

    Not of types narrower than their sums, whose arithmetic needs fewer bytes.
    """
    kind = shape.a.data_type
    is_far = machine.has_far_third_cache and kind.accumulator is kind
    return is_far and shape.rows * extent_of(k) * kind.width > machine.l2_bytes // 2


def column_block(shape: ProductShape, k: Sequence[Span], sharing: Sharing, machine: Machine) -> int:
    """Columns of B that stay in L2; fewer where threads share them."""
    if shape.n is None:
        return 1
    step_bytes = extent_of(k) * shape.b.data_type.width
    largest, whole = most_columns(shape.n.extent, step_bytes, machine.l2_bytes), 1
    if _meets_far_rows(shape, k, machine):
        largest = max(largest, (3 * machine.l2_bytes // 4 - _BESIDE_COLUMNS) // step_bytes)
    if step_bytes > _USUAL_BYTES:
        largest, whole = _deep_columns(shape, shape.n, step_bytes, machine), _TILE_COLUMNS
    if sharing is Sharing.COLUMNS:
        shares = -(-CHUNKS * machine.threads // extent_of(shape.n_outer))
        largest = min(largest, max(FEWEST_COLUMNS, shape.n.extent // shares))
    return even_block(shape.n.extent, largest, whole)
