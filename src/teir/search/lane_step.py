"""A step of two inputs whose lanes lie along an axis of all three tensors."""

from __future__ import annotations

from dataclasses import dataclass

from teir.ir.nodes import Tensor
from teir.search.shape import comes_from_memory, extent_of, outermost_first
from teir.search.step import Span, Step, elements_of, is_adjacent

FEWEST_LANES = 16
"""Lanes from which transposing both inputs' tiles is better than gathering them."""
_MOST_TILE = 4096
"""Products of one lane up to which the operands are small matrices."""


@dataclass(frozen=True, slots=True)
class LaneStep:
    """A step of two inputs by kinds of axes, outermost first; ``lanes`` moves all three tensors.

    ``rows``: axes of rows or columns taken one at a time, below the copies of a slab.
    """

    step: Step
    lanes: Span
    c: tuple[Span, ...]
    m: tuple[Span, ...]
    n: tuple[Span, ...]
    k: tuple[Span, ...]
    rows: tuple[Span, ...]


def lane_step_of(step: Step) -> LaneStep | None:
    """The step with its lanes along a batch axis; None where no such axis serves best.

    That is the axis of the smallest stride on the output, if it moves all tensors; else one that
    is adjacent on both inputs, for small matrices.
    """
    first, second, out = (*step.inputs, step.output)
    free = [axis for axis in step.axes if axis.stride(out.name)]
    batch = [axis for axis in free if axis.stride(first.name) and axis.stride(second.name)]
    if not batch:
        return None
    nearest = min(free, key=lambda axis: (axis.stride(out.name), -axis.extent))
    if nearest in batch:
        return _lane_step(step, nearest)
    rest = extent_of([axis for axis in step.axes if axis not in batch])
    for axis in batch:
        if is_adjacent(axis, first) and is_adjacent(axis, second):
            suits = axis.extent >= FEWEST_LANES and rest <= _MOST_TILE
            return _lane_step(step, axis) if suits else None
    return None


def _lane_step(step: Step, lanes: Span) -> LaneStep:
    first, second = step.inputs
    out = step.output
    rest = [axis for axis in step.axes if axis is not lanes and axis.stride(out.name)]
    c, m, n = [], [], []
    for axis in rest:
        if not axis.stride(second.name):
            m.append(axis)
        elif not axis.stride(first.name):
            n.append(axis)
        else:
            c.append(axis)
    return LaneStep(
        step,
        lanes,
        outermost_first(c, out),
        outermost_first(m, out),
        outermost_first(n, out),
        outermost_first(step.reductions, _read_in_order(step)),
        rows=(),
    )


def _read_in_order(step: Step) -> Tensor:
    """The input in whose order sums are taken: the larger one where it comes from memory."""
    first, second = step.inputs
    is_larger = elements_of(second, step) > elements_of(first, step)
    return second if is_larger and comes_from_memory(second, step.axes) else first
