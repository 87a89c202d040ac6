"""Runs of results so short that parts of lines at their ends are dear past the caches."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of
from teir.search.shared_lines import columns_follow, row_run_bytes
from teir.target import LINE_BYTES

_FEWEST = 32
"""Products per result from which parts of lines are better written through the caches."""
_SHORT_BYTES = 2 * LINE_BYTES
"""Bytes of a run below which it may hold no whole line."""


def writes_short_runs(rows: int, shape: ProductShape, machine: Machine) -> bool:
    """True where runs of ``rows`` rows lie apart, and half of a panel's lines are parts of them.

    Measured on Golden Cove, FP64, sums of 48 products: 0.91 of the time; FP32, and sums of 3 to 12
    products, 0.94 to 1.05.
    """
    assert shape.n is not None
    out = shape.out
    lies_apart = shape.n.stride(out.name) > rows * out.data_type.width
    is_long = extent_of(shape.k) >= _FEWEST and out.data_type is DataType.FP64
    return machine.has_far_third_cache and lies_apart and is_long


def fills_lines_later(shape: ProductShape) -> bool:
    """True for short runs whose columns lie elsewhere: what is beside a run comes later.

    Past the caches one product of FP64 in runs of 80 bytes took 7 times as long (Zen 4), and one in
    runs of 96 bytes, whose result began at a line and not 16 bytes behind it, 21 times.
    """
    return row_run_bytes(shape) < _SHORT_BYTES and not columns_follow(shape)
