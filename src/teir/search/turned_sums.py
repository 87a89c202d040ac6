"""Sums of one operand whose results lie in another order than they are read in: summed, then moved.

    out[x, y] = sum of A[k, y, x]:  T[y, x] = sums of whole rows;  out = T
    out[x, y] = sum of A[y, x, k]:  T[y, x] = sums row by row;  out = T

Without this every result reads its own elements of A, lines apart, or its rows from afar in short
pieces. Measured on Zen 4, drawn sums: 0.04 to 1.5 of the time, in the mean 0.53 (FP32) and 0.61
(FP64); of two to seven elements 0.48 and 0.73.
"""

from __future__ import annotations

from teir.search.emission import Emission
from teir.search.in_parts import (
    InParts,
    axes_of,
    in_both,
    in_parts,
    moved_to,
    run_bytes,
    starts_where_it_moves,
)
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step, is_adjacent
from teir.search.turned_results import LONG_RUN_BYTES

_FEWEST_SUMMED, _FEWEST_OF_ROWS = 2, 16
"""Elements of a result from which moving it costs little beside reading those; of sums that are
adjacent, each of which is a call or a part of one."""
_SHORT_PART_BYTES, _LONG_PART_BYTES = 32, 512
"""Of sums that lie in several pieces: the shortest that are summed as rows, and pieces that are
read as fast from one to the next."""


def turned_sum(emission: Emission, step: Step) -> InParts | None:
    """The step with its result as the operand lies; None where it does, or in long pieces."""
    if len(step.inputs) != 1 or not starts_where_it_moves(step):
        return None
    (operand,), out = step.inputs, step.output
    free = axes_of(out, step)
    if len(free) < 2 or extent_of(step.reductions) < _FEWEST_SUMMED:
        return None
    along = outermost_first(free, operand)
    if along == outermost_first(free, out):
        return None
    adjacent = next((axis for axis in step.axes if is_adjacent(axis, operand)), None)
    if adjacent is None:
        return None
    is_row = adjacent in step.reductions
    pays = _pays_for_rows if is_row else _pays_for_lanes
    if not pays(step, adjacent, along):
        return None
    return in_parts(step, step.axes, [moved_to(emission, out, "turned", along)])


def _pays_for_rows(step: Step, adjacent: Span, along: tuple[Span, ...]) -> bool:
    """True where sums are made of short pieces from afar, the next of which is not the next."""
    (operand,), summed = step.inputs, extent_of(step.reductions)
    row_bytes = run_bytes(adjacent, step.reductions, operand)
    if summed < _FEWEST_OF_ROWS:
        return False
    piece_bytes = row_bytes * in_both(along, step.output)
    if row_bytes == summed * operand.data_type.width:
        return piece_bytes <= LONG_RUN_BYTES
    return row_bytes >= _SHORT_PART_BYTES and piece_bytes <= _LONG_PART_BYTES


def _pays_for_lanes(step: Step, adjacent: Span, along: tuple[Span, ...]) -> bool:
    """True where more elements that follow each other belong to results that do."""
    (operand,), width = step.inputs, step.inputs[0].data_type.width
    common_bytes = width * in_both(along, step.output)
    return common_bytes <= LONG_RUN_BYTES and common_bytes < run_bytes(adjacent, along, operand)
