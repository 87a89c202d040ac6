"""Copies along many short axes, cell by cell: what one line of the output meets of the input.

    in[..., 2, 2, 2] -> out, the axes in any other order
    cell = the axes that fill a line of the output, and those that fill a line of the input

So every line of a cell is used whole while it is near, whichever axes the two sides share. The
other axes are the walk from cell to cell: those nearest in the input and in the output in turn,
then loops around the call. Both are tables of offsets, made once a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import attrgetter

from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.copy_kernels import CELL_AXES, MOST_CELLS, MOST_IN_CELL, WALK_AXES, CellCopy
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.passes.short_sides import has_short_sides, may_be_short
from teir.target import LINE_BYTES

_EXTENT = attrgetter("extent")


def lower_cells(
    axes: Sequence[TileAxis], operands: tuple[Address, ...], width: int, room: Address
) -> tuple[KernelNode, ...] | None:
    """Calls that copy along ``axes`` cell by cell; None for few axes, long ones, or rows.

    Rows of some elements that lie together on both sides are moved row by row. Measured on Zen 4,
    drawn permutations of five to ten axes, the last of 2 to 7 elements and in its place: 0.19 to
    1.8 of the time of cells, 0.7 in the mean of every type.
    ``room``: `cell_copy_room_bytes` of scratch that nobody else uses during a call.
    """
    extents = list(map(_EXTENT, axes))
    if not may_be_short(extents) or any(0 in axis.strides for axis in axes):
        return None
    sides = [_upwards(axes, operand) for operand in range(2)]
    first, last = sides[0][0], sides[1][0]
    is_row = first is last and first.strides == (width, width)
    if is_row or not has_short_sides(extents, first.extent, last.extent):
        return None
    cell = _cell(sides, LINE_BYTES // width)
    if len(cell) > CELL_AXES or prod(axis.extent for axis in cell) > MOST_IN_CELL:
        return None
    walk = _walk([[axis for axis in side if axis not in cell] for side in sides])
    around = [axis for axis in sides[1][::-1] if axis not in cell and axis not in walk]
    cell.sort(key=lambda axis: axis.strides[1])
    call = Call(
        kernel=CellCopy(element_bytes=width),
        operands=(*operands, room),
        arguments=(*_words(cell, CELL_AXES), *_words(walk, WALK_AXES)),
    )
    return wrap_in_loops(around, operands, (call,))


def _upwards(axes: Sequence[TileAxis], operand: int) -> list[TileAxis]:
    return sorted(axes, key=lambda axis: axis.strides[operand])


def _cell(sides: Sequence[Sequence[TileAxis]], per_line: int) -> list[TileAxis]:
    """The first axes of either side until they fill a line."""
    cell: list[TileAxis] = []
    for side in sides:
        filled = 1
        for axis in side:
            if filled < per_line and axis not in cell:
                cell.append(axis)
            filled *= axis.extent
    return cell


def _walk(sides: Sequence[Sequence[TileAxis]]) -> list[TileAxis]:
    """The nearest axes of the input and of the output in turn, as many as the table holds."""
    walk: list[TileAxis] = []
    cells = 1
    for pair in zip(*sides, strict=True):
        for axis in pair:
            if axis in walk:
                continue
            if len(walk) == WALK_AXES or cells * axis.extent > MOST_CELLS:
                return walk
            walk.append(axis)
            cells *= axis.extent
    return walk


def _words(axes: Sequence[TileAxis], room: int) -> tuple[int, ...]:
    """Extents, strides on the input and on the output, filled up to ``room`` axes."""
    rest = room - len(axes)
    return (
        *(*(axis.extent for axis in axes), *[1] * rest),
        *(*(axis.strides[0] for axis in axes), *[0] * rest),
        *(*(axis.strides[1] for axis in axes), *[0] * rest),
    )
