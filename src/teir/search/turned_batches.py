"""Operands of matrix products whose batches are innermost, laid with the batches outermost first.

    out[d, x, y] = sum of A[x, k, d] * B[d, k, y]:
    A'[d, x, k] = A;  out[d, x, y] = sum of A'[d, x, k] * B[d, k, y]

Without this every product reads one element of each line of A, and the next one those lines again.
Measured on Zen 4, drawn contractions: 0.15 to 1.6 of the time, 0.7 in the mean.
"""

from __future__ import annotations

from teir.ir.nodes import Tensor
from teir.search.emission import Emission
from teir.search.in_parts import (
    InParts,
    axes_of,
    in_parts,
    is_batch,
    moved_to,
    nearest_of,
    starts_where_it_moves,
)
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step, elements_of, is_adjacent

_FEWEST = 4
"""Batches side by side, which products would read one at a time."""
_FEWEST_PRODUCTS = 4
"""Products of every element that is moved."""
_MOST_SUMS = 64
"""Longer sums are read in runs, or packed in blocks that caches hold."""
_MOST_RESULTS = 4
"""Results of every element that is moved: where they are more, writing them takes the time."""
_LARGE_BYTES = 4 << 20
"""An operand that carries no lanes is read where it lies if caches hold what one batch takes."""


def turned_batches(emission: Emission, step: Step) -> InParts | None:
    """The step with operands laid batch by batch that lie the other way round; None where none do,
    or the result lies so too."""
    if len(step.inputs) != 2 or not step.reductions or not starts_where_it_moves(step):
        return None
    free = axes_of(step.output, step)
    batch = [axis for axis in free if is_batch(axis, step)]
    if not batch or nearest_of(free, step.output) in batch:
        return None
    if extent_of(step.reductions) > _MOST_SUMS:
        return None
    moved = [one for one in step.inputs if _lies_across(one, batch, step)]
    if not moved:
        return None
    return in_parts(
        step,
        step.axes,
        [moved_to(emission, one, "turned", _by_batch(one, batch, step)) for one in moved],
    )


def _lies_across(tensor: Tensor, batch: list[Span], step: Step) -> bool:
    adjacent = next((axis for axis in batch if is_adjacent(axis, tensor)), None)
    if adjacent is None or adjacent.extent < _FEWEST:
        return False
    free = axes_of(step.output, step)
    met = [axis for axis in free if not axis.stride(tensor.name)]
    elements = elements_of(tensor, step)
    if extent_of(met) < _FEWEST_PRODUCTS or extent_of(free) > _MOST_RESULTS * elements:
        return False
    carries_lanes = nearest_of(free, step.output).stride(tensor.name) > 0
    return carries_lanes or elements * tensor.data_type.width >= _LARGE_BYTES


def _by_batch(tensor: Tensor, batch: list[Span], step: Step) -> tuple[Span, ...]:
    """Batches as the result has them, then rows that carry its lanes innermost, else sums."""
    free = axes_of(step.output, step)
    own = [axis for axis in free if axis not in batch and axis.stride(tensor.name)]
    other = next(one for one in step.inputs if one is not tensor)
    sums = [axis for axis in step.reductions if axis.stride(tensor.name)]
    by_sum, by_row = outermost_first(sums, other), outermost_first(own, step.output)
    carries_lanes = nearest_of(free, step.output) in own
    inner = (*by_sum, *by_row) if carries_lanes else (*by_row, *by_sum)
    return (*outermost_first(batch, step.output), *inner)
