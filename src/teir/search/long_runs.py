"""A large operand that few columns meet, packed in long runs where the third cache is far.

    in place                                packed
    for rows in runs of A                   for rows in runs that half of the second cache holds
      for every panel of the run              copy A[run, k] into panels
        C[panel, all columns] += ...          for every panel of the run
                                                C[panel, all columns] += ...

In place every panel is a short piece of each of many rows that lie far apart, and comes from memory
in twice the time of long pieces, whatever is asked for ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.passes.extents import even_block
from teir.search.choice import Choice, Order, Packing
from teir.search.machine import BEYOND_L2, Machine
from teir.search.packed_operands import FEW_COLUMNS
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span

_LEAST_DEPTH = 256
"""Products of a block of the sum. Measured on Golden Cove, one thread, 8 to 60 columns: sums of 256
to 2000 products 0.62 to 0.81 of the time in FP32 and FP64, of 128 products 0.94 to 1.59."""
_VECTORS = 4
"""Vectors of a panel: those of three took 6 to 16 % longer."""
_LEAST_PANELS = 4
_WAYS = 16
"""Lines that one set of the second cache holds. Rows whole ways apart meet in the same sets: 20 to
64 of them took, packed, 0.38 to 0.70 of the time in place (Golden Cove, one thread, 5 to 40
columns)."""
_LONG_PART = 2
_SHORT_PART = 8
"""The parts of the second cache that a run takes: for sums of 20 to 64 products, half of it took
1.04 to 1.37 of the time."""
_MEASURED = (DataType.FP32, DataType.FP64)


def is_read_once(shape: ProductShape, machine: Machine) -> bool:
    """True where few columns meet a large A: a panel of A is read, used by all, and done with."""
    if shape.m is None or shape.n is None or shape.n_outer:
        return False
    size = shape.rows * extent_of(shape.k) * shape.a.data_type.width
    return shape.columns <= FEW_COLUMNS and size >= BEYOND_L2 * machine.l2_bytes


def is_dear_in_place(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where rows of A adjacent in memory are better copied, for a sum cut in blocks of ``k``:
    long ones, and those whose rows meet in the same sets of the second cache.

    A must be known to be read once.
    """
    kind = shape.a.data_type
    if shape.m is None or kind not in _MEASURED or shape.out.data_type is not kind:
        return False
    has_panels = shape.m.extent >= _LEAST_PANELS * _VECTORS * machine.lanes(kind.width)
    is_adjacent = shape.m.stride(shape.a.name) == kind.width
    is_dear = extent_of(k) >= _LEAST_DEPTH or _meet_in_sets(shape, k, machine)
    return machine.has_far_third_cache and is_dear and has_panels and is_adjacent


def _meet_in_sets(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where the rows of a panel take the place of each other in the second cache."""
    way = machine.l2_bytes // _WAYS
    alike = [axis for axis in k if axis.stride(shape.a.name) % way == 0]
    return extent_of(alike) > _WAYS


def long_run_choice(
    choice: Choice, shape: ProductShape, k: Sequence[Span], machine: Machine
) -> Choice:
    """``choice`` with A packed in runs as long as half of L2 holds; panels meet all columns."""
    assert shape.m is not None
    assert shape.n is not None
    width = shape.a.data_type.width
    panel = _VECTORS * machine.lanes(width)
    part = _LONG_PART if extent_of(k) >= _LEAST_DEPTH else _SHORT_PART
    most = max(panel, machine.l2_bytes // part // (extent_of(k) * width))
    return replace(
        choice,
        packed_a=Packing.BLOCKS,
        order=Order.ROWS,
        panel=panel,
        row_block=even_block(shape.m.extent, most, panel),
        column_block=shape.n.extent,
    )
