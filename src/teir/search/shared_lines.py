"""Short rows that share the lines of a large output with columns in between, written together.

    out[b, c, d, a] = sum of A[k, b, a] * B[k, c, d], a and d few, tiles of a and blocks of c

    for b: for d: for blocks of c:        every line is left and met again for each d
    for blocks of c: for b: for d:        lines of a block of c stay in the second cache meanwhile

They are written through the caches: parts of lines that go past them wait for one another, and
those of two threads far longer.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.search.choice import Choice, Order
from teir.search.machine import Machine
from teir.search.packed_operands import rows_in_a_row
from teir.search.shape import ProductShape

_MOST_RUN_BYTES = 512
"""Bytes of the rows that follow one another, at most. Measured on Golden Cove: runs of 240 to 720
bytes 0.8 of the time in the mean, some from 580 on 1.3; shorter ones 0.46 to 0.77."""
_MOST_PARTS, _PARTS = 3, 4
"""Parts of the second cache, of so many, that lines of a block of columns take at most."""
_FEWEST_COLUMNS = 4
"""Of a block: 8 at least, or 2, took longer in the mean."""


def ordered_by_lines(choice: Choice, shape: ProductShape, machine: Machine) -> Choice | None:
    """The choice with blocks of columns outside the loops that fill their lines; None where all
    columns are one block, rows are long, no columns lie between them, or lines of a few columns
    leave the second cache."""
    if shape.n is None or choice.column_block >= shape.n.extent or not _share_lines(shape):
        return None
    column_bytes = shape.n.stride(shape.out.name)
    room = _MOST_PARTS * machine.l2_bytes // (_PARTS * column_bytes)
    if room < _FEWEST_COLUMNS:
        return None
    return replace(
        choice,
        order=Order.LINES,
        column_block=min(choice.column_block, room),
        streams=False,
        prefetches_out=False,
    )


def _share_lines(shape: ProductShape) -> bool:
    """True where columns of an outer loop lie next to a short run of rows."""
    out = shape.out.name
    if shape.m is None:
        return False
    run_bytes = rows_in_a_row(shape.m, shape) * shape.m.stride(out)
    is_short = run_bytes <= _MOST_RUN_BYTES
    return is_short and any(axis.stride(out) == run_bytes for axis in shape.n_outer)
