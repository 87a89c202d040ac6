"""Primitive axes as lowering sees them: extents and one stride per operand, names forgotten."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.ir.nodes import Axis
from teir.lower.kernel_program import Address, KernelNode, Loop, Step


class TileAxis(msgspec.Struct, frozen=True, gc=False):
    """An axis of a tile: its extent and its stride in bytes on each operand, in operand order."""

    extent: int
    strides: tuple[int, ...]


STILL = TileAxis(1, (0, 0, 0))
"""In place of an axis that a tile of a product does not have."""


def tile_axes(axes: Sequence[Axis], operands: Sequence[str]) -> list[TileAxis]:
    """The axes with more than one index, in order."""
    found = []
    if len(operands) == 3:
        # Most tiles are of products, and most of their axes leave one operand where it is.
        a, b, c = operands
        for axis in axes:
            if axis.extent > 1:
                stride = axis.strides.get
                found.append(TileAxis(axis.extent, (stride(a, 0), stride(b, 0), stride(c, 0))))
        return found
    if len(operands) == 2:
        source, target = operands
        for axis in axes:
            if axis.extent > 1:
                strides = axis.strides
                found.append(TileAxis(axis.extent, (strides[source], strides[target])))
        return found
    for axis in axes:
        if axis.extent > 1:
            found.append(TileAxis(axis.extent, tuple(map(axis.strides.__getitem__, operands))))
    return found


def fuse_adjacent(axes: Sequence[TileAxis]) -> list[TileAxis]:
    """Merge each axis into its inner neighbour where the pair walks memory as one axis does.

    X (outer) and Y (inner) fuse when stride(X) = |Y| * stride(Y) on every operand; the order of
    visits is unchanged, so reductions may be fused too.
    """
    fused: list[TileAxis] = []
    for axis in axes:
        end = axis.strides[-1] * axis.extent
        while fused and fused[-1].strides[-1] == end and _continues(fused[-1], axis):
            axis = TileAxis(fused.pop().extent * axis.extent, axis.strides)
            end = axis.strides[-1] * axis.extent
        fused.append(axis)
    return fused


def fuse_any_order(axes: Sequence[TileAxis]) -> list[TileAxis]:
    """As `fuse_adjacent` for axes whose order does not matter, largest stride outermost."""
    if len(axes) < 2:
        return list(axes)
    return fuse_adjacent(sorted(axes, key=_last_operand_first, reverse=True))


def in_order(axes: list[TileAxis], follows_input: bool) -> list[TileAxis]:
    """The outermost first: axes come in the order of the output, and leave in that of the input."""
    if not follows_input or len(axes) < 2:
        return axes
    return sorted(axes, key=_first_stride, reverse=True)


def _first_stride(axis: TileAxis) -> int:
    return axis.strides[0]


def _last_operand_first(axis: TileAxis) -> tuple[int, ...]:
    return axis.strides[::-1]


def _continues(outer: TileAxis, inner: TileAxis) -> bool:
    extent = inner.extent
    for step, stride in zip(outer.strides, inner.strides, strict=True):
        if step != stride * extent:
            return False
    return True


def adjacent(axes: Sequence[TileAxis], operand: int, width: int) -> TileAxis | None:
    """The first axis along which elements of ``width`` bytes lie next to each other."""
    for axis in axes:
        if axis.strides[operand] == width:
            return axis
    return None


def blocks_of(axis: TileAxis, count: int, size: int) -> TileAxis:
    """The walk from one block of ``size`` indices to the next."""
    return TileAxis(count, tuple(map(size.__mul__, axis.strides)))


def wrap_in_loops(
    axes: Sequence[TileAxis], operands: Sequence[Address], body: tuple[KernelNode, ...]
) -> tuple[KernelNode, ...]:
    """``body`` inside one loop per axis, the first axis outermost.

    ``operands`` are what the strides of the axes are of. Those that share a slot move together, so
    each slot is stepped once.
    """
    if not axes:
        return body
    for axis in reversed(axes):
        steps = {}
        for number, stride in enumerate(axis.strides):
            if stride:
                slot = operands[number].slot
                steps[slot] = Step(slot=slot, stride_bytes=stride)
        body = (Loop(extent=axis.extent, steps=tuple(steps.values()), index=None, body=body),)
    return body
