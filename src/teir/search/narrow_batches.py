"""Batches of a few elements, innermost in the result, or of large matrices: made one after the
other, then moved.

    out[m, n, f] = sum of A[f, m, k] * B[f, k, n], f a few:
    T[f, m, n] = product for every f;  out = T

Lanes along a batch of a few elements are mostly empty, and packing for them writes whole lines for
each. Measured on Zen 4: `aefg,defcgb->abcdg` with g = 2 took 0.02 of the time. The result that is
moved has its rows where lanes are full: `aefcd,dcbef->abfe` with f = 2 took 0.11 of the time of the
same batches in the order of the result.
"""

from __future__ import annotations

from teir.ir.nodes import Tensor
from teir.search.emission import Emission
from teir.search.in_parts import (
    InParts,
    axes_of,
    in_parts,
    moved_to,
    starts_where_it_moves,
)
from teir.search.lane_step import LaneStep
from teir.search.machine import FROM_MEMORY, Machine
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, is_adjacent
from teir.target import LINE_BYTES, rows_apart

_FEW_IN_A_ROW = 3
"""Elements in a row of the moved result that leave most lanes empty: 0.2 to 0.9 of the time on Zen
4 with other rows, 0.5 to 3 for rows of four to seven."""
_MOST_TILE = 4096
"""Products of one lane up to which lanes hold small matrices, which stay in the first cache."""
_PACKED, _PACKED_APART = 2, 1.5
"""Elements packed for lanes, by results, from which moving those pays where sums are adjacent in
both operands; and where they are not: 0.5 to 0.9 of the time on Golden Cove, FP32 and FP64."""
_SPARED, _SPARED_ALONE = 10, 30
"""Products with empty lanes, by those that count, that pay for moving a result; and where no
operand has to be packed for lanes."""
_APART_BYTES = 2 * LINE_BYTES
"""Batches that lie closer come with the lines of others, and are packed as they come."""
_FEWEST_MET = 24
"""Rows or columns that an operand which lanes suit meets, from which moving it pays; fewer where
more than it would be packed for them: 0.1 to 0.6 of the time on Golden Cove."""

_LOST_QUARTERS, _LONG_SUM = 5, 40
"""Quarters of the second cache that both operands take, of which lanes along any batch bring all
again and again, and products of a result that then pay for moving it: on Golden Cove, 24 and 120
batches of 60 to 453 rows and columns, 0.30 to 0.71 of the time, near ones and shorter sums 0.8 to
1.7."""


def narrow_batch(emission: Emission, step: LaneStep, machine: Machine) -> InParts | None:
    """The step with its narrow lanes outermost; None where lanes along them are as good."""
    if not _is_narrow(step, machine) or not starts_where_it_moves(step.step):
        return None
    whole, lanes = step.step, step.lanes
    near = [one for one in whole.inputs if lanes.stride(one.name) < LINE_BYTES]
    moved = []
    for tensor in (*near, whole.output):
        rest = outermost_first(
            [axis for axis in axes_of(tensor, whole) if axis is not lanes], tensor
        )
        if tensor is whole.output:
            rest = _rows_last(rest, step)
        moved.append(moved_to(emission, tensor, "apart", (lanes, *rest)))
    return in_parts(whole, whole.axes, moved)


def _rows_last(rest: tuple[Span, ...], step: LaneStep) -> tuple[Span, ...]:
    """The axes of a result; with its batches outermost where one is innermost, and with the side
    of more rows innermost where there are very few elements in a row."""
    batch = tuple(axis for axis in rest if axis in step.c)
    free = tuple(axis for axis in rest if axis not in step.c)
    if free[-1].extent <= _FEW_IN_A_ROW:
        longer = max((step.m, step.n), key=extent_of)
        others = tuple(axis for axis in free if axis not in longer)
        return (*batch, *others, *(axis for axis in free if axis in longer))
    return (*batch, *free) if rest[-1] in batch else rest


def _packs_from_memory(
    step: LaneStep, tensor: Tensor, axes: tuple[Span, ...], machine: Machine
) -> bool:
    """True for an operand of batches that lie lines apart, packed to more than caches hold.

    Measured on Zen 4, 3 to 24 batches: 0.17 to 1.4 of the time, 0.42 (FP32) and 0.59 (FP64) in the
    mean; of batches within a line or two 2.5.
    """
    stride, width = step.lanes.stride(tensor.name), tensor.data_type.width
    packed_bytes = extent_of(axes) * rows_apart(step.lanes.extent * width)
    return stride >= _APART_BYTES and packed_bytes > FROM_MEMORY * machine.l2_bytes


def _is_narrow(step: LaneStep, machine: Machine) -> bool:
    """Measured on Zen 4, FP32 and FP64, 2 to 48 lanes."""
    results = extent_of((*step.m, *step.n))
    if not (step.m and step.n) or results * extent_of(step.k) <= _MOST_TILE:
        return False
    first, second = step.step.inputs
    sides = ((first, (*step.m, *step.k)), (second, (*step.n, *step.k)))
    packed = sum(extent_of(axes) for one, axes in sides if not is_adjacent(step.lanes, one))
    meets = ((first, step.n), (second, step.m))
    in_place = [axes for one, axes in meets if is_adjacent(step.lanes, one)]
    kept = sum(extent_of(axes) for one, axes in sides if is_adjacent(step.lanes, one))
    if packed <= kept and any(extent_of(axes) < _FEWEST_MET for axes in in_place):
        return False
    if any(_packs_from_memory(step, *side, machine) for side in sides):
        return True
    are_dots = any(is_adjacent(k, first) and is_adjacent(k, second) for k in step.k)
    if packed > (_PACKED if are_dots else _PACKED_APART) * results:
        return True
    size = (packed + kept) * step.lanes.extent * step.step.output.data_type.width
    if 4 * size > _LOST_QUARTERS * machine.l2_bytes and extent_of(step.k) >= _LONG_SUM:
        return True
    lanes = machine.lanes(step.step.output.data_type.accumulator.width)
    vectors = -(-step.lanes.extent // lanes)
    empty = vectors * lanes / step.lanes.extent - 1
    return empty * extent_of(step.k) >= (_SPARED if packed else _SPARED_ALONE)
