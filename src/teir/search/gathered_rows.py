"""Operands of matrix products whose rows would be gathered again and again, laid in rows first.

    out[y, n, x] = sum of A[x, k, y] * B[k, n], a few columns n, long sums:
    A'[k, y, x] = A;  out[y, n, x] = sum of A'[k, y, x] * B[k, n]

Packing rows x for one y takes one element of each line of A, and for the next y those lines again.
Measured on Zen 4, 110 of 5000 drawn contractions: 0.15 to 1.7 of the time, 0.7 in the mean.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.search.emission import Emission
from teir.search.in_parts import InParts, axes_of, in_parts, moved_to, starts_where_it_moves
from teir.search.shape import ProductShape, extent_of, outermost_first
from teir.search.step import Step, elements_of, is_adjacent
from teir.target import LINE_BYTES

_TYPES = (DataType.FP32, DataType.FP64, DataType.C64)
"""Those of 2 bytes are packed in pairs, and took 0.3 to 2 of the time; those of 16 0.7 to 1.9."""
_MOST_COMPLEX_BYTES = 8 << 20
"""Of complex operands: 0.4 to 1.1 of the time, 0.72 in the mean; larger ones up to 2.7."""
_MOST_COLUMNS = 96
"""Columns beside which packing costs little, however often lines are read."""
_LONG_SUM = 48
"""Shorter sums, or fewer elements of a block that is turned, do not pay for writing the operand
once more."""
_FEWEST_TURNED = 64
_FEW_RESULTS = 2
"""Results, by elements of the operand, that are few enough to pay where whole lines are read."""


def gathered_rows(emission: Emission, step: Step, shape: ProductShape) -> InParts | None:
    """The step with its rows laid as the result has them; None where they are packed as fast."""
    a, m = shape.a, shape.m
    if m is None or shape.columns > _MOST_COLUMNS or a.data_type not in _TYPES:
        return None
    elements = elements_of(a, step)
    if a.data_type.is_complex and elements * a.data_type.width > _MOST_COMPLEX_BYTES:
        return None
    if not starts_where_it_moves(step):
        return None
    apart = (*shape.c, *shape.m_outer)
    adjacent = next((axis for axis in apart if is_adjacent(axis, a)), None)
    if adjacent is None or is_adjacent(m, a):
        return None
    inner = [axis for axis in axes_of(a, step) if axis.stride(a.name) <= m.stride(a.name)]
    if extent_of(shape.k) < _LONG_SUM or extent_of(inner) < _FEWEST_TURNED:
        return None
    is_short = adjacent.extent * a.data_type.width < LINE_BYTES
    results = elements_of(shape.out, step)
    if not is_short and results > _FEW_RESULTS * elements:
        return None
    # All else stays in its order, so that the copy turns whole blocks.
    rest = [axis for axis in axes_of(a, step) if axis is not m]
    order = (*outermost_first(rest, a), m)
    return in_parts(step, step.axes, [moved_to(emission, a, "turned", order)])
