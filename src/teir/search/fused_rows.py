"""Short rows that follow one another in the result along several axes, laid as one long row first.

    out[n, z, y, x] = sum of A[x, k, y, z] * B[k, n], x and y a few:
    A'[k, zyx] = A;  out[n, zyx] = sum of A'[k, zyx] * B[k, n]

Panels of packed rows go on from one row to the next along one axis. Rows of two are short all the
same: their vectors end with them, and so do the runs of the result that are written at once.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.search.emission import Emission
from teir.search.in_parts import InParts, in_parts, moved_to, starts_where_it_moves
from teir.search.packing import all_follow
from teir.search.shape import ProductShape, outermost_first
from teir.search.step import Step, elements_of
from teir.target import LINE_BYTES

_TYPES = (DataType.FP32, DataType.FP64, DataType.C64, DataType.C128)
_SHORT_LINES = 8
"""Lines of the rows of two axes from which they are long."""
_MANY_RESULTS = 4
"""Results by elements of the operand from which laying it costs little."""


def fused_rows(emission: Emission, step: Step, shape: ProductShape) -> InParts | None:
    """The step with its rows as one; None where they are no one row of the result, or well."""
    a, out, m = shape.a, shape.out, shape.m
    if m is None or len(shape.m_outer) < 2 or a.data_type not in _TYPES:
        return None
    if out.data_type is not a.data_type or not starts_where_it_moves(step):
        return None
    rows = (*shape.m_outer, m)
    if not all_follow(rows, out.name):
        return None
    pair_bytes = m.extent * shape.m_outer[-1].extent * out.data_type.width
    results, elements = elements_of(out, step), elements_of(a, step)
    if pair_bytes >= _SHORT_LINES * LINE_BYTES or results < _MANY_RESULTS * elements:
        return None
    order = (*outermost_first(shape.c, a), *outermost_first(shape.k, a), *rows)
    return in_parts(step, step.axes, [moved_to(emission, a, "joined", order)])
