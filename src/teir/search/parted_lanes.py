"""Batches along lanes of a matrix from memory, summed along what lies outside others: as it lies.

    out[a, c] = sum of A[b, a, c] * v[b, c], rows of c adjacent:

    zero; Contraction C=[c] M=[a] K=[b]                every result from rows that lie far apart
    zero; blocks of b { a { Contraction C=[c] K=[b] } }   results part by part

A few places of the matrix are read at a time, each on and on, which prefetchers follow. Results are
read and written once for every part, from caches. The order of a sum depends on the extents and on
how the matrix lies alone.

Measured on Zen 4, drawn ones of 18 to 90 MB: FP32 0.26 to 1.18 of the time, 0.57 in the mean, FP64
0.30 to 1.13 and 0.56.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from teir.ir.nodes import Operation, Tensor
from teir.search.emission import Body, Emission, Roles
from teir.search.in_parts import InParts, axes_of, in_parts, moved_to
from teir.search.lane_step import LaneStep
from teir.search.machine import Machine
from teir.search.memory_order import comes_in_few_runs, emit_in_memory_order, emit_parts
from teir.search.shape import comes_from_memory, extent_of, outermost_first
from teir.search.step import Span, elements_of, is_adjacent
from teir.target import LINE_BYTES

_PART = 8
"""Products of a part: twice as many took 1.6 times as long, two of them 1.5."""
_SHORTEST_ROW_BYTES = LINE_BYTES
_LEAST_TIMES = 4
"""The matrix is so many times as large as the vectors: of two operands from memory each would be
read in another order, 0.97 to 1.5 of the time."""
_MOST_INSIDE = 3
"""Summed axes of a part: those that a kernel of lanes runs inside."""


class PartedLanes(msgspec.Struct, frozen=True, gc=False):
    """Loops around the parts as the matrix lies, and what is summed in a part: blocks of ``cut``,
    which is one of the loops, and ``inside``."""

    step: LaneStep
    loops: tuple[Span, ...]
    inside: tuple[Span, ...]
    cut: Span | None

    @property
    def free(self) -> tuple[Span, ...]:
        return (*self.step.c, *self.step.m, *self.step.n)


def laid_for_lanes(emission: Emission, step: LaneStep, machine: Machine) -> InParts | None:
    """The step with its vectors laid along the lanes, and as the matrix lies; None where they are,
    or where results are not made in parts."""
    matrix = _matrix_of(step)
    if matrix is None or _parted(step, matrix, machine) is None:
        return None
    whole = step.step
    (vectors,) = (one for one in whole.inputs if one is not matrix)
    if is_adjacent(step.lanes, vectors):
        return None
    axes = outermost_first(axes_of(vectors, whole), matrix)
    return in_parts(whole, whole.axes, [moved_to(emission, vectors, "laid", axes)])


def parted_lanes_of(step: LaneStep, machine: Machine) -> PartedLanes | None:
    """None where results are formed at once, of types that parts would be rounded to, too, and
    where the other operand is not much smaller or has rows of its own."""
    matrix = _matrix_of(step)
    if matrix is None or not all(is_adjacent(step.lanes, one) for one in step.step.inputs):
        return None
    return _parted(step, matrix, machine)


def _parted(step: LaneStep, matrix: Tensor, machine: Machine) -> PartedLanes | None:
    if machine.has_far_third_cache:
        return None
    axes = outermost_first((*step.c, *step.m, *step.n, *step.k), matrix)
    free = [axis for axis in axes if axis not in step.k]
    if not free or not all(axis.stride(matrix.name) for axis in axes):
        return None
    last = max(axes.index(axis) for axis in free)
    loops, inside = axes[: last + 1], axes[last + 1 :]
    outside = [axis for axis in loops if axis in step.k]
    if not outside or comes_in_few_runs(loops, step.k) or len(inside) > _MOST_INSIDE:
        return None
    first = loops.index(outside[0])
    again = extent_of([axis for axis in loops[first:] if axis in free]) * step.lanes.extent
    if again * step.step.output.data_type.width > machine.l2_bytes // 2:
        return None
    is_whole = extent_of(inside) >= _PART or len(inside) == _MOST_INSIDE
    return PartedLanes(step, loops, inside, None if is_whole else outside[-1])


def _matrix_of(step: LaneStep) -> Tensor | None:
    """The input from memory; None where rows are short or do not lie along the lanes."""
    whole, out = step.step, step.step.output
    if (step.m and step.n) or out.data_type.accumulator is not out.data_type:
        return None
    small, matrix = sorted(whole.inputs, key=lambda one: elements_of(one, whole))
    if not all(is_adjacent(step.lanes, one) for one in (matrix, out)):
        return None
    if step.lanes.extent * out.data_type.width < _SHORTEST_ROW_BYTES:
        return None
    is_vector = _LEAST_TIMES * elements_of(small, whole) <= elements_of(matrix, whole)
    return matrix if is_vector and comes_from_memory(matrix, whole.axes) else None


def emit_parted_lanes(emission: Emission, parted: PartedLanes, machine: Machine) -> Body:
    """The nodes of a step that `parted_lanes_of` recognised."""
    step = parted.step
    roles = Roles(m=(*parted.free, step.lanes))
    zero = emission.leaf(Operation.ZERO, (), step.step.output.name, roles)
    size = max(1, _PART // extent_of(parted.inside))

    def nest(loops: Sequence[Span], lanes: Span) -> Body:
        leaf = partial(_leaf, emission, parted, lanes)
        return emit_parts(emission, loops, parted.cut, size, parted.inside, leaf)

    return zero + emit_in_memory_order(
        emission, parted.loops, parted.free, step.lanes, machine, nest
    )


def _leaf(emission: Emission, parted: PartedLanes, lanes: Span, summed: tuple[Span, ...]) -> Body:
    """The Contraction of a part of some lanes."""
    first, second = parted.step.step.inputs
    return emission.leaf(
        Operation.CONTRACTION,
        (first.name, second.name),
        parted.step.step.output.name,
        Roles(c=(lanes,), k=summed),
        data_type=first.data_type,
    )
