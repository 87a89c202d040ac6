"""Which loops of one matrix-like step the threads share."""

from __future__ import annotations

from teir.passes.cache_blocks import FEWEST_COLUMNS
from teir.search.choice import Sharing
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of


def sharing_of(shape: ProductShape, machine: Machine) -> Sharing:
    """Rows where there are enough panels, else columns; none where the batch axes are enough.

    Threads that share rows pack their own: cores that are far from each other exchange nothing.
    """
    if machine.threads == 1 or not is_worth_sharing(shape, machine):
        return Sharing.NONE
    if shares_batch(shape, machine):
        return Sharing.NONE
    panels = shape.rows // machine.panel_rows(shape.out.data_type.accumulator.width)
    columns = shape.columns // FEWEST_COLUMNS
    if max(panels, columns) < machine.threads:
        return Sharing.NONE
    return Sharing.ROWS if panels >= min(columns, 2 * machine.threads) else Sharing.COLUMNS


def shares_batch(shape: ProductShape, machine: Machine) -> bool:
    """True where the batch axes alone give every thread something to do."""
    return is_worth_sharing(shape, machine) and extent_of(shape.c) >= machine.threads


def is_worth_sharing(shape: ProductShape, machine: Machine) -> bool:
    """True for several threads and enough products."""
    if machine.threads == 1:
        return False
    work = shape.rows * shape.columns * extent_of(shape.k) * extent_of(shape.c)
    return work >= machine.threaded_work
