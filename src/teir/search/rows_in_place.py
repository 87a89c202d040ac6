"""Short sums of long rows that few columns meet, read in place, where the third cache is far.

    both packed                             rows in place
    pack A; pack B                          pack B
    for every tile as the output lies       for every panel of A
      C[panel, columns] = ...                 for every few columns of B
                                                C[panel, few columns] = ...

Adjacent rows need no copy to be read in whole vectors, and all columns meet a panel while it is in
the first cache. Measured on Golden Cove, one thread, sums of 4 to 96 products, results of 3 to
40 MB: beside both operands packed 0.44 to 0.95 of the time for 4 to 120 columns, mostly 0.75; for
300 columns 0.93 to 1.2. Beside rows that every block of columns brings again, 60 to 120 columns:
0.25 to 0.94.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.search.choice import Choice, Order, Packing, Sharing
from teir.search.machine import Machine
from teir.search.reductions import reductions_of
from teir.search.shape import ProductShape

_VECTORS, _COLUMNS = 4, 6
"""Vectors of a panel and columns of a register block; three and nine took 1.05 of the time."""
_FEWEST_PANELS = 4
_FEWEST, _MOST = 4, 200
"""Columns that meet a panel."""
_STREAMED = 32
"""Columns up to which results are better written through the caches, in a panel each: 0.87 of the
time past them."""
_MEASURED = (DataType.FP32, DataType.FP64)


def rows_in_place(shape: ProductShape, depth: int, machine: Machine) -> Choice | None:
    """The choice that reads A in place; None where its rows are not long and adjacent.

    The sum must be known to be short.
    """
    kind = shape.a.data_type
    if shape.m is None or shape.n is None or shape.c or machine.threads > 1:
        return None
    if kind not in _MEASURED or not shape.has_adjacent_rows or not machine.has_far_third_cache:
        return None
    panel = _VECTORS * machine.lanes(kind.width)
    if shape.m.extent < _FEWEST_PANELS * panel or machine.has_few_registers:
        return None
    if not _FEWEST <= shape.columns <= _MOST or not reductions_of(shape, depth).is_one_block:
        return None
    streams = shape.columns > _STREAMED and machine.writes_lines
    return Choice(
        packed_a=Packing.NONE,
        packed_b=Packing.WHOLE,
        order=Order.ROWS,
        depth=depth,
        panel=panel,
        row_block=panel,
        column_block=_COLUMNS,
        sharing=Sharing.NONE,
        streams=streams,
        prefetches_a=False,
        prefetches_b=False,
        prefetches_out=streams,
        prefetches_packed=False,
    )
