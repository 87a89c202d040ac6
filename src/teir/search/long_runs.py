"""A large operand that few columns meet, packed in long runs where the third cache is far and the
rows of a panel meet in the same sets of the second.

    in place                                packed
    for rows in runs of A                   for rows in runs that a part of the second cache holds
      for every panel of the run              copy A[run, k] into panels
        C[panel, all columns] += ...          for every panel of the run
                                                C[panel, all columns] += ...

In place the rows of every panel take the place of each other.
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
from teir.search.step import Span, is_adjacent

_VECTORS = 4
"""Vectors of a panel: those of three took 6 to 16 % longer."""
_LEAST_PANELS = 4
_WAYS = 16
"""Lines that one set of the second cache holds. Rows whole ways apart meet in the same sets: 20 to
64 of them took, packed, 0.38 to 0.70 of the time in place (Golden Cove, one thread, 5 to 40
columns)."""
_RUN_PART = 8
"""The part of the second cache that a run takes: half of it took 1.04 to 1.37 of the time."""
_MEASURED = (DataType.FP32, DataType.FP64)


def is_read_once(shape: ProductShape, machine: Machine) -> bool:
    """True where few columns meet a large A: a panel of A is read, used by all, and done with."""
    if shape.m is None or shape.n is None or shape.n_outer:
        return False
    size = shape.rows * extent_of(shape.k) * shape.a.data_type.width
    return shape.columns <= FEW_COLUMNS and size >= BEYOND_L2 * machine.l2_bytes


def is_dear_in_place(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where rows of A adjacent in memory are better copied, for a sum cut in blocks of ``k``.

    A must be known to be read once.
    """
    kind = shape.a.data_type
    if shape.m is None or kind not in _MEASURED or shape.out.data_type is not kind:
        return False
    has_panels = shape.m.extent >= _LEAST_PANELS * _VECTORS * machine.lanes(kind.width)
    if not machine.has_far_third_cache or not has_panels or not is_adjacent(shape.m, shape.a):
        return False
    return _meet_in_sets(shape, k, machine)


def _meet_in_sets(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where the rows of a panel take the place of each other in the second cache."""
    way = machine.l2_bytes // _WAYS
    alike = [axis for axis in k if axis.stride(shape.a.name) % way == 0]
    return extent_of(alike) > _WAYS


def long_run_choice(
    choice: Choice, shape: ProductShape, k: Sequence[Span], machine: Machine
) -> Choice:
    """``choice`` with A packed in runs that a part of L2 holds; panels meet all columns."""
    assert shape.m is not None
    assert shape.n is not None
    width = shape.a.data_type.width
    panel = _VECTORS * machine.lanes(width)
    most = max(panel, machine.l2_bytes // _RUN_PART // (extent_of(k) * width))
    return replace(
        choice,
        packed_a=Packing.BLOCKS,
        order=Order.ROWS,
        panel=panel,
        row_block=even_block(shape.m.extent, most, panel),
        column_block=shape.n.extent,
    )
