"""Rewrites that keep every bit: reductions taken into a kernel, zeroing left to it.

The module of `teir.lower.lower` shows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec.structs import replace

from teir.ir.lanes import lanes_of
from teir.ir.nodes import (
    Axis,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
)
from teir.ir.subnormals import flushes_subnormals
from teir.lower.axes import TileAxis, fuse_any_order, tile_axes
from teir.lower.context import Context, Path, axes_of, operands_of
from teir.lower.contraction import (
    FEWEST_INSIDE,
    reduction_room,
    reductions_inside,
)
from teir.lower.contraction_tile import (
    contraction_tile,
)

_LONGEST_REDUCTION = 1 << 20
"""A loop is not absorbed beyond this many products, for a kernel cannot be interrupted."""
_FEWEST_SUMS = 8
"""Sums for which a block of results is worth reading and writing once more."""


def absorbed_leaf(node: Node, context: Context) -> tuple[InvocationNode, tuple[Axis, ...]] | None:
    """The Contraction below a chain of sequential reductions with nothing else in it."""
    axes: list[Axis] = []
    while isinstance(node, IterationNode):
        if node.policy is not Policy.SEQUENTIAL or len(node.children) != 1 or node.scratch:
            return None
        axes.append(context.axes[node.axis])
        if axes[-1].segments:
            return None
        node = node.children[0]
        if node.guard:
            return None
    primitive = context.primitives[node.primitive]
    if not axes or primitive.operation is not Operation.CONTRACTION:
        return None
    if lanes_of(primitive) is not None:
        # Chains begin and end with an invocation.
        return None
    if any(axis.strides[primitive.output] for axis in axes):
        return None
    output_type = context.slots.slots[context.slots.number[primitive.output]].data_type
    consumed = axes_of(primitive, context)
    reductions = [axis for axis in consumed if not axis.strides[primitive.output]]
    is_wide = output_type.accumulator is output_type
    if is_wide and _is_part_of_lanes(primitive, consumed, context):
        return None
    long = [axis for axis in (*axes, *reductions) if axis.extent > 1]
    if prod(axis.extent for axis in long) > _LONGEST_REDUCTION:
        return None
    if is_wide or len(long) <= reduction_room(len(primitive.inputs)):
        return node, tuple(axes)
    return None


def _is_part_of_lanes(primitive: Primitive, consumed: Sequence[Axis], context: Context) -> bool:
    """True where lanes run along an axis of all operands, and sums inside are long enough.

    Such a kernel goes along all sums for each vector of lanes: loops around it are blocks for
    caches, and stay loops.
    """
    if not primitive.c or prod(context.axes[name].extent for name in primitive.k) < _FEWEST_SUMS:
        return False
    slots = context.slots
    widths = {name: slots.slots[slots.number[name]].data_type.width for name in primitive.operands}
    return any(axis.strides == widths for axis in consumed)


def runs_inside(
    primitive: Primitive, absorbed: tuple[Axis, ...], path: Path, context: Context
) -> bool:
    """True when every reduction runs inside the kernel, which then starts from zero once."""
    if len(absorbed) + len(primitive.k) <= FEWEST_INSIDE or lanes_of(primitive) is not None:
        return True
    consumed = axes_of(primitive, context)
    inner = replace(path, absorbed=absorbed)
    operands, types = operands_of(primitive.operands, inner, consumed, context)
    axes = tile_axes([*absorbed, *consumed], primitive.operands)
    tile = contraction_tile(axes, operands, types[0], types[-1], from_zero=True, ahead=())
    tile = replace(tile, flushes=flushes_subnormals(primitive))
    return len(tile.reductions) <= reductions_inside(tile)


def covers(
    zero: Primitive, contraction: Primitive, absorbed: tuple[Axis, ...], context: Context
) -> bool:
    """True when both touch the same bytes of the output."""
    output = zero.output
    if not absorbed and (zero.c, zero.m, zero.n) == (
        contraction.c,
        contraction.m,
        contraction.n,
    ):
        for name in contraction.k:
            axis = context.axes[name]
            if output in axis.strides or output in axis.offsets:
                break
        else:
            return True
    return _region(zero, (), output, context) == _region(contraction, absorbed, output, context)


def _region(
    primitive: Primitive, absorbed: tuple[Axis, ...], output: str, context: Context
) -> tuple[int, list[TileAxis]]:
    axes = [*absorbed, *(context.axes[name] for name in primitive.axes)]
    moving = [axis for axis in tile_axes(axes, (output,)) if axis.strides[0]]
    return sum(axis.offsets[output] for axis in axes), fuse_any_order(moving)
