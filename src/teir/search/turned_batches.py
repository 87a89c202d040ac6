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
from teir.search.machine import Machine
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step, elements_of, is_adjacent
from teir.target import LINE_BYTES

_FEWEST, _FEWEST_FAR = 4, 2
"""Batches side by side, which products would read one at a time; and in an operand that caches lose
from one to the next: 0.12 to 0.65 of the time on Golden Cove, pairs of FP32 and FP64."""
_FEWEST_PRODUCTS = 4
"""Products of every element that is moved."""
_MOST_SUMS = 64
_MANY_MET, _FEW_IN_A_ROW = 32, 8
"""Longer sums are read in runs, or packed in blocks that caches hold. Unless what carries the lanes
has rows of a line, or so many columns meet it, or rows of so few meet what does not: 0.14 to 0.95
of the time on Golden Cove, sums of 106 to 768 products; others 0.9 to 1.7; narrow elements count as
what they are summed in. What carries none and so many rows meet, where the third cache is near:
0.66 to 0.89 on Zen 4, 1.17 at worst."""
_MOST_RESULTS = 4
"""Results of every element that is moved: where they are more, writing them takes the time."""
_LARGE_BYTES = 4 << 20
"""An operand that carries no lanes is read where it lies if caches hold what one batch takes."""


def turned_batches(emission: Emission, step: Step, machine: Machine) -> InParts | None:
    """The step with operands laid batch by batch that lie the other way round; None where none do,
    or the result lies so too."""
    if len(step.inputs) != 2 or not step.reductions or not starts_where_it_moves(step):
        return None
    free = axes_of(step.output, step)
    batch = [axis for axis in free if is_batch(axis, step)]
    if not batch or nearest_of(free, step.output) in batch:
        return None
    moved = [one for one in step.inputs if _lies_across(one, batch, step, machine)]
    if not moved:
        return None
    return in_parts(
        step,
        step.axes,
        [moved_to(emission, one, "turned", _by_batch(one, batch, step)) for one in moved],
    )


def _lies_across(tensor: Tensor, batch: list[Span], step: Step, machine: Machine) -> bool:
    adjacent = next((axis for axis in batch if is_adjacent(axis, tensor)), None)
    elements = elements_of(tensor, step)
    is_large = elements * tensor.data_type.width >= _LARGE_BYTES
    if adjacent is None or adjacent.extent < (_FEWEST_FAR if is_large else _FEWEST):
        return False
    free = axes_of(step.output, step)
    met = extent_of([axis for axis in free if not axis.stride(tensor.name)])
    if met < _FEWEST_PRODUCTS or extent_of(free) > _MOST_RESULTS * elements:
        return False
    nearest = nearest_of(free, step.output)
    carries_lanes = nearest.stride(tensor.name) > 0
    if not carries_lanes and not is_large:
        return False
    if not _has_long_sums(step):
        return True
    if not carries_lanes:
        is_met = met >= _MANY_MET and not machine.has_far_third_cache
        return is_met or nearest.extent <= _FEW_IN_A_ROW
    return met >= _MANY_MET or nearest.extent * tensor.data_type.accumulator.width >= LINE_BYTES


def _has_long_sums(step: Step) -> bool:
    return extent_of(step.reductions) > _MOST_SUMS


def _by_batch(tensor: Tensor, batch: list[Span], step: Step) -> tuple[Span, ...]:
    """Batches as the result has them, then rows that carry its lanes innermost, else sums; or, of
    long sums, all as it was."""
    free = axes_of(step.output, step)
    own = [axis for axis in free if axis not in batch and axis.stride(tensor.name)]
    other = next(one for one in step.inputs if one is not tensor)
    sums = [axis for axis in step.reductions if axis.stride(tensor.name)]
    by_sum, by_row = outermost_first(sums, other), outermost_first(own, step.output)
    carries_lanes = nearest_of(free, step.output) in own
    if not carries_lanes and _has_long_sums(step):
        rest = [axis for axis in axes_of(tensor, step) if axis not in batch]
        return (*outermost_first(batch, step.output), *outermost_first(rest, tensor))
    inner = (*by_sum, *by_row) if carries_lanes else (*by_row, *by_sum)
    return (*outermost_first(batch, step.output), *inner)
