"""Small factors repeated as their products lie, so that short rows are long ones.

    out[c, b, d] = A[c, b, d] * v[b]:  v'[c', b, d] = v;  out[c/c', c'bd] = A[c/c', c'bd] * v'[c'bd]

So phases, controlled ones too, meet a state, and weights a few channels. With a number for every
row, or with rows of a few elements, most of every vector is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.ir.nodes import Tensor
from teir.passes.extents import largest_divisor
from teir.search.emission import Emission
from teir.search.in_parts import InParts, in_parts, moved_to, starts_where_it_moves
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step, elements_of

_LONG_ROW_BYTES = 256
"""Rows that meet one number as quickly as many, or that are as good as longer ones."""
_MOST_BYTES, _FEWEST_USES = 8192, 8
"""Of the factor as it is repeated, which stays in the first cache; and its uses."""
_AIM_BYTES = 2048
"""Of a factor that is repeated along a part of the next axis, at most."""


def spread_factor(emission: Emission, step: Step) -> InParts | None:
    """The product with its small factor repeated along rows; None where rows are long, or the
    factor is large."""
    if len(step.inputs) != 2 or step.reductions or not starts_where_it_moves(step):
        return None
    small, large = sorted(step.inputs, key=lambda one: elements_of(one, step))
    lying = _lying(step, large)
    moves = [place for place, axis in enumerate(lying) if axis.stride(small.name)]
    if not moves or any(axis.stride(small.name) for axis in step.axes if axis not in lying):
        return None
    run, width = lying[: moves[-1] + 1], small.data_type.width
    size = extent_of(run) * width
    meets_one = 1 < extent_of(lying[: moves[0]]) * width <= _LONG_ROW_BYTES and moves[0] > 0
    axes: Sequence[Span] = step.axes
    following = lying[len(run) : len(run) + 1]
    if size < _LONG_ROW_BYTES and following:
        (axis,) = following
        part = largest_divisor(axis.extent, _AIM_BYTES // size)
        if part > 1 and part < axis.extent:
            outer, inner = axis.split(part)
            axes = [one for one in axes if one is not axis] + [outer, inner]
            run, meets_one = [*run, inner], True
    repeats = extent_of(step.axes) // extent_of(run)
    if not meets_one or extent_of(run) * width > _MOST_BYTES or repeats < _FEWEST_USES:
        return None
    return in_parts(step, axes, [moved_to(emission, small, "spread", run[::-1])])


def _lying(step: Step, large: Tensor) -> list[Span]:
    """The axes along which results follow one another as the elements of the large factor do, the
    innermost first."""
    found, end, end_of_large = [], step.output.data_type.width, large.data_type.width
    for axis in outermost_first(step.axes, step.output)[::-1]:
        if axis.stride(step.output.name) != end or axis.stride(large.name) != end_of_large:
            break
        found.append(axis)
        end, end_of_large = end * axis.extent, end_of_large * axis.extent
    return found
