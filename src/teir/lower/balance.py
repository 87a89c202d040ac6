"""What a parallel loop over the rows of a sparse operand is shared by: the elements they store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teir.ir.nodes import Axis, IterationNode
from teir.lower.kernel_program import Address, Balance
from teir.lower.slots import SlotTable


def balance_of(
    node: IterationNode, above: Sequence[Axis], axes: Mapping[str, Axis], slots: SlotTable
) -> Balance | None:
    """The elements of the first sparse loop below ``node`` whose bounds its axis moves.

    ``above`` are the axes down to that of the node. None where there is no such loop, or its
    bounds do not follow one another from iteration to iteration.
    """
    rows = axes[node.axis]
    found = _first_sparse(node, (), axes)
    if found is None or rows.extent < 2:
        return None
    between, axis = found
    pos = axis.segments[0].pos
    stride = rows.strides[pos]
    if pos not in slots.number or not stride:
        return None
    width = slots.slots[slots.number[pos]].data_type.width
    reach = sum(one.strides[pos] * (one.extent - 1) for one in between)
    if any(one.is_sparse for one in between) or stride > reach + width:
        return None
    offset = sum(one.offsets[pos] for one in (*above, *between))
    return Balance(
        pos=Address(slot=slots.number[pos], offset_bytes=offset),
        pos_type=slots.slots[slots.number[pos]].data_type,
        stride_bytes=stride,
        rows=max(1, stride // width),
    )


def _first_sparse(
    node: IterationNode, between: tuple[Axis, ...], axes: Mapping[str, Axis]
) -> tuple[tuple[Axis, ...], Axis] | None:
    """The first sparse axis below a node, and the axes iterated between the two."""
    for child in node.children:
        if not isinstance(child, IterationNode):
            continue
        axis = axes[child.axis]
        if axis.is_sparse:
            return between, axis
        found = _first_sparse(child, (*between, axis), axes)
        if found is not None:
            return found
    return None
