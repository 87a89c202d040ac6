"""Operands of which every second element is read, every third, and so on: copied side by side.

    out[n] = sum of A[n, 2 k] * B[k]:   A'[n, k] = A;  out[n] = sum of A'[n, k] * B[k]

Products and sums read whole vectors then; without a copy each element of one would be read alone.
Measured on Zen 4, drawn views: 0.3 to 0.8 of the time in the mean, 2 at worst.
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
from teir.search.pieces import Pieces
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step, elements_of
from teir.search.stepped_turns import stepped_row
from teir.target import LINE_BYTES, PAGE_BYTES

_OFTEN_MET = 16
"""Rows or columns that an input meets, up to which it is copied in pieces, and from which it is
copied for batches, whose operands are packed for lanes."""
_SMALL = 8
"""Elements of the largest input by those of one that is copied whatever reads it."""


def stepped_inputs(step: Step) -> tuple[Tensor, ...]:
    """The inputs read in steps that are worth a copy; none where nothing is computed with them.

    Factors that whole vectors meet are read one at a time anyway, and stay.
    """
    stepped: tuple[Tensor, ...] = ()
    for one in step.inputs:
        if stepped_row(one, step) is not None:
            stepped += (one,)
    is_copy = len(step.inputs) == 1 and not step.reductions
    if not stepped or is_copy or not starts_where_it_moves(step):
        return ()
    free = axes_of(step.output, step)
    if len(step.inputs) == 1 or not free:
        return stepped
    has_batch = any(is_batch(axis, step) for axis in free)
    nearest = nearest_of(free, step.output)
    most = max(elements_of(one, step) for one in step.inputs)
    return tuple(
        one
        for one in stepped
        if nearest.stride(one.name)
        or _SMALL * elements_of(one, step) <= most
        or (has_batch and _met(one, free) >= _OFTEN_MET)
    )


def on_dense_copies(emission: Emission, step: Step, stepped: tuple[Tensor, ...]) -> InParts:
    """The step on copies of these inputs whose elements lie side by side."""
    moved = [
        moved_to(emission, one, "dense", outermost_first(axes_of(one, step), one))
        for one in stepped
    ]
    return in_parts(step, step.axes, moved)


def stepped_pieces(step: Step, stepped: tuple[Tensor, ...], machine: Machine) -> Pieces | None:
    """Pieces of a large input that is read in steps, so small that a copy is still in the second
    cache when it is read; None where the input is small, or meets many rows or columns, or would be
    read in short parts, or another one that is not small would be read again for each.

    Of batches along which results lie next to each other whole lines of these, where inputs lie
    batch after batch. Measured on Zen 4: 0.47 to 1.03 of the time of one copy of all, 0.85 in the
    mean.
    """
    large = max(stepped, key=lambda one: elements_of(one, step) * one.data_type.width)
    size_bytes = elements_of(large, step) * large.data_type.width
    free = axes_of(step.output, step)
    if not free or 2 * size_bytes <= machine.l2_bytes or _met(large, free) > _OFTEN_MET:
        return None
    nearest = nearest_of(free, step.output)
    others = [elements_of(one, step) for one in step.inputs if one is not large]
    is_alone = _SMALL * sum(others) <= elements_of(large, step)
    for axis in outermost_first([axis for axis in free if axis.stride(large.name)], large):
        # Lanes of batches run along results that lie next to each other.
        is_near = axis is nearest and is_batch(axis, step)
        if is_near and not _is_outermost(axis, step, large):
            continue
        granule = LINE_BYTES // step.output.data_type.width if is_near else 1
        size = _indices(axis.extent, machine.l2_bytes / (4 * size_bytes), granule)
        is_long = size * axis.stride(large.name) >= PAGE_BYTES
        if is_long and (is_alone or is_batch(axis, step)) and size < axis.extent:
            return Pieces(axis, size)
    return None


def _indices(extent: int, part: float, granule: int) -> int:
    """Two at least of about such a part of an axis, none alone in the end."""
    some = int(extent * part)
    size = max(2, granule, some - some % granule)
    while extent % size == 1:
        size += granule
    return size


def _is_outermost(axis: Span, step: Step, large: Tensor) -> bool:
    """True where every input that is not small lies piece after piece along an axis."""
    least = elements_of(large, step) // _SMALL
    inputs = [one for one in step.inputs if elements_of(one, step) > least]
    return all(axis is outermost_first(axes_of(one, step), one)[0] for one in inputs)


def _met(tensor: Tensor, free: list[Span]) -> int:
    """Rows or columns that every element of an input meets."""
    return extent_of([axis for axis in free if not axis.stride(tensor.name)])
