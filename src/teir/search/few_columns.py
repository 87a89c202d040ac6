"""Few columns that meet rows of a large operand, which is read where it lies.

    both packed                             rows in place
    pack A; pack B                          for runs of some panels of A
    for every tile as the output lies         for every panel: C[panel, all columns] = ...
      C[panel, columns] = ...

So few columns read a panel of A as often as a copy of it would, and the copy, nearly as large as a
second cache, is written and read beside what the results take. Where the third cache is far results
are asked for and written through the caches: the next step finds them there, and up to four second
caches they are written no more slowly than past them (FP64: 0.95 of that time in the mean, 0.8
where the next step reads them).

Measured on Golden Cove, one thread, drawn ones whose program changed: 2 to 12 columns, sums of 2 to
16 products, runs of 32 bytes to 8 KB and long ones, results of one to four second caches. FP64 0.86
of the time in the mean (0.36 to 1.22), FP32 0.85 (0.41 to 1.17), C64 0.68 (0.41 to 1.13), C128 0.69
(0.38 to 1.29). Of those that were packed FP64 0.60 (0.36 to 1.17), FP32 0.61 (0.44 to 1.14), and
where each step reads what the step before wrote, as gates of quantum circuits do, 0.51 (0.37 to
0.69). Two threads 0.67 (FP64) and 0.62 (C64).
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.passes.extents import even_block
from teir.search.choice import Choice, Order, Packing, Sharing
from teir.search.machine import BEYOND_L2, Machine
from teir.search.panel_rows import panel_of
from teir.search.rows_in_place import rows_in_place
from teir.search.shape import ProductShape, extent_of
from teir.search.short_sums import SHORT_PANEL, is_far, is_short, near_choice
from teir.search.step import is_adjacent
from teir.target import LINE_BYTES

_MOST_COLUMNS = 12
_MOST_PRODUCTS = 16
_RUN_BYTES, _VERY_FEW = 32, 4
"""Of rows that follow one another, for so few columns. Of more, runs of a line, and of two where
runs lie apart along two axes: 12 columns and runs of 40 bytes took up to 1.6 times as long, in
another order than in A also those of a line up to 1.4 times."""
_PANELS_OF_A_RUN = 4
_PLAIN = (DataType.FP32, DataType.FP64)
_MEASURED = (*_PLAIN, DataType.C64, DataType.C128)


def few_columns_choice(shape: ProductShape, depth: int, machine: Machine) -> Choice | None:
    """The choice that reads A in place; None where its rows are not adjacent, many columns meet
    them, or the results stay in the second cache.

    Columns of several axes come in several calls, and long rows beside packed ones in few: 0.82 to
    1.1 of the time of runs, in FP32 and FP64.
    """
    if not _are_few(shape, machine):
        return None
    if not machine.has_far_third_cache:
        return _as_written(shape, depth, machine) if is_short(shape, machine) else None
    if not _leaves_caches(shape, machine):
        return None
    beside_packed = rows_in_place(shape, depth, machine) if shape.n_outer else None
    return beside_packed or _in_runs(shape, depth, machine)


def _are_few(shape: ProductShape, machine: Machine) -> bool:
    """True for one thread and few columns of plain or complex numbers beside adjacent rows."""
    kind = shape.a.data_type
    if shape.m is None or shape.n is None or shape.c or not shape.k or machine.threads > 1:
        return False
    if kind not in _MEASURED or shape.out.data_type is not kind or shape.columns > _MOST_COLUMNS:
        return False
    return is_adjacent(shape.m, shape.a) and shape.m.extent * kind.width >= _least_run(shape)


def _least_run(shape: ProductShape) -> int:
    """Bytes of rows that follow one another in A from which on they are better in place."""
    if shape.columns <= _VERY_FEW:
        return _RUN_BYTES
    return 2 * LINE_BYTES if len(shape.m_outer) > 1 else LINE_BYTES


def _leaves_caches(shape: ProductShape, machine: Machine) -> bool:
    """True for results that the second cache does not hold, beside an A that is near, or, of plain
    numbers, not so large that memory brings it: those are read and written as streams.

    A larger A was in place before: asking for results alone gave FP64 0.95 of the time in the mean
    (0.77 to 1.1). Nothing asks for complex ones.
    """
    if is_short(shape, machine):
        return True
    kind, depth = shape.a.data_type, extent_of(shape.k)
    if kind not in _PLAIN or depth > _MOST_PRODUCTS or is_far(shape, machine):
        return False
    rows_bytes = shape.rows * kind.width
    is_near = rows_bytes * depth < BEYOND_L2 * machine.l2_bytes
    return is_near and rows_bytes * shape.columns >= machine.l2_bytes


def _in_runs(shape: ProductShape, depth: int, machine: Machine) -> Choice:
    """Panels of A side by side, each for all columns; results asked for, plain ones.

    Asking for the next panel of A, too, took 1.03 times as long in the mean, and up to three times
    beside columns of several axes.
    """
    assert shape.m is not None
    assert shape.n is not None
    panel = panel_of(shape, machine)
    return Choice(
        packed_a=Packing.NONE,
        packed_b=Packing.NONE,
        order=Order.ROWS,
        depth=depth,
        panel=panel,
        row_block=even_block(shape.m.extent, _PANELS_OF_A_RUN * panel, panel),
        column_block=shape.n.extent,
        sharing=Sharing.NONE,
        streams=False,
        prefetches_a=False,
        prefetches_b=False,
        prefetches_out=shape.a.data_type in _PLAIN,
        prefetches_packed=False,
    )


def _as_written(shape: ProductShape, depth: int, machine: Machine) -> Choice | None:
    """The choice for short sums without its copy of A; None for rows of few vectors.

    Whatever the machine: a panel comes to the first cache once, for all columns. Measured on Golden
    Cove as if it had caches of 1 MB and 32 MB: FP64 0.58 of the time in the mean, FP32 0.55, C64
    0.67 (0.36 to 0.85).
    """
    assert shape.m is not None
    choice = near_choice(shape, depth, machine)
    lanes = machine.lanes(shape.a.data_type.accumulator.width)
    if shape.m.extent < SHORT_PANEL * lanes or choice.packed_a is not Packing.WHOLE:
        return None
    return replace(choice, packed_a=Packing.NONE, row_block=choice.panel)
