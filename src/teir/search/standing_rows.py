"""The choice where A is the same for every iteration of a loop around: packed once, before it.

The columns of one iteration are few, so each panel of rows comes from the third cache, meets them
all and goes; sums are made whole, and the result is written once.
"""

from __future__ import annotations

from teir.search.choice import Choice, Order, Packing, Sharing
from teir.search.machine import Machine
from teir.search.panel_rows import panel_of
from teir.search.reductions import reductions_of
from teir.search.shape import ProductShape, extent_of

SHORTEST_SUM = 512
"""Products of a sum from which rows as they lie are too far apart for one panel."""
_NEAR_PART = 3 / 4
"""The part of the second cache that a panel takes at most, with the columns that meet it."""


def standing_choice(shape: ProductShape, machine: Machine) -> Choice | None:
    """All rows packed before the loops, sums whole; None where the second cache holds no panel
    beside the columns."""
    depth = extent_of(shape.k)
    if shape.m is None or shape.n is None or shape.c or machine.threads > 1:
        return None
    if depth < SHORTEST_SUM:
        return None
    panel = panel_of(shape, machine)
    near = (panel + shape.columns) * depth * shape.a.data_type.width
    if near > _NEAR_PART * machine.l2_bytes or not reductions_of(shape, depth).is_one_block:
        return None
    return Choice(
        packed_a=Packing.WHOLE,
        packed_b=Packing.NONE,
        order=Order.COLUMNS,
        depth=depth,
        panel=panel,
        row_block=shape.rows,
        column_block=shape.n.extent,
        sharing=Sharing.NONE,
        streams=False,
        prefetches_a=False,
        prefetches_b=False,
        prefetches_out=False,
        prefetches_packed=False,
    )
