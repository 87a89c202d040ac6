"""Lowering of sparse axes: one sparse loop per iteration node, one walk per compressed level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teir.ir.nodes import Axis, Segment
from teir.lower.kernel_program import Address, KernelNode, SparseLoop, Step, Walk
from teir.lower.slots import SlotTable
from teir.lower.walked_fibre import Fibre


def last_cell(axis: str) -> str:
    """The name of the cell that tells the last visit of a sparse axis."""
    return f"last {axis}"


def sparse_loop(
    axis: Axis,
    above: Sequence[Axis],
    slots: SlotTable,
    cells: Mapping[str, int],
    body: tuple[KernelNode, ...],
) -> SparseLoop:
    """The loop over the coordinates of ``axis`` below the axes ``above``."""
    by_position = {
        name for segment in axis.segments for name in (segment.crd, *segment.by_position)
    }
    names = [name for name in axis.strides if name in slots.number]
    return SparseLoop(
        extent=axis.extent,
        walks=tuple(walk_of(axis, segment, above, slots) for segment in axis.segments),
        steps=_steps(axis, [name for name in names if name not in by_position], slots),
        index=cells.get(axis.name),
        last=cells.get(last_cell(axis.name)),
        body=body,
    )


def fibre_of(axis: Axis, above: Sequence[Axis], slots: SlotTable) -> Fibre | None:
    """The fibres of a sparse axis as kernels walk them; None for intersections."""
    if len(axis.segments) != 1:
        return None
    loop = sparse_loop(axis, above, slots, {}, ())
    (walk,) = loop.walks
    if walk.crd_stride_bytes != walk.crd_type.width:
        return None
    return Fibre(
        extent=axis.extent,
        pos=walk.pos,
        pos_type=walk.pos_type,
        crd=walk.crd,
        crd_type=walk.crd_type,
        positions=walk.steps,
        coordinates=loop.steps,
        is_deep=any(one.is_sparse and one.strides[axis.segments[0].pos] for one in above),
    )


def walk_of(axis: Axis, segment: Segment, above: Sequence[Axis], slots: SlotTable) -> Walk:
    """The walk of one segment."""
    pos, crd = slots.number[segment.pos], slots.number[segment.crd]
    pos_start = sum(one.offsets[segment.pos] for one in above)
    crd_start = sum(one.offsets[segment.crd] for one in (*above, axis))
    names = (segment.crd, *segment.by_position)
    return Walk(
        pos=Address(slot=pos, offset_bytes=pos_start),
        pos_type=slots.slots[pos].data_type,
        crd=Address(slot=crd, offset_bytes=crd_start),
        crd_type=slots.slots[crd].data_type,
        crd_stride_bytes=axis.strides[segment.crd],
        steps=_steps(axis, [name for name in names if name in slots.number], slots),
    )


def _steps(axis: Axis, names: Sequence[str], slots: SlotTable) -> tuple[Step, ...]:
    return tuple(
        Step(slot=slots.number[name], stride_bytes=axis.strides[name])
        for name in names
        if axis.strides[name]
    )
