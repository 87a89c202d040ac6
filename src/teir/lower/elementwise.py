"""Lowering of the element-wise primitives: Zero, Copy, ReLU and the binary operations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import attrgetter

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.axes import TileAxis, fuse_any_order, in_order, wrap_in_loops
from teir.lower.cell_copy import lower_cells
from teir.lower.copy_kernels import MOST_PIECES, SHORT_SIDES, RowCopy
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.kernels import Elementwise
from teir.lower.permutation import PERMUTED_BYTES, lower_permutation, streamed_bytes
from teir.lower.short_turns import lower_short_turn
from teir.lower.stepped_copies import lower_stepped
from teir.lower.stepped_turns import lower_stepped_turn
from teir.lower.stream_rows import lower_stream_rows
from teir.lower.turned_copies import is_panel, lower_turned, turned_axes
from teir.lower.wide_elements import wide_elements
from teir.passes.short_sides import FEWEST_AXES
from teir.target import LINE_BYTES, Isa

_STREAMED_TILE_BYTES = 96 << 10
"""Tiles from here on are written past the caches in pieces long enough to pay."""
_FAR_BYTES = 1 << 20
_FAR_VECTOR_BYTES = 32
"""Vectors of tiles that no second cache holds: arrays seldom begin with a line, and stores of half
a line cross into the next one half as often."""
_WIDE_BYTES = 4
"""Narrower elements are bound by their conversion, not by loads and stores."""
_LONG_VECTORS = 8
"""Vectors of a row from which its whole lines are worth an incomplete vector in front."""
_MOST_ROW_VECTORS = 4
"""Vectors of a row up to which all are written out."""
_SCATTERED_COPY = 0.3
"""Worth of a lane of a copy that is adjacent nowhere, by one adjacent on one side: two of those are
more calls than lanes. Measured on Zen 4: drawn contractions and permutations with such copies took
0.35 to 1.28 of the time, 0.8 in the mean."""
_WIDTH = attrgetter("width")


def lower_elementwise(
    operation: Operation,
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    types: tuple[DataType, ...],
    isa: Isa,
    output_bytes: int = 0,
    room: Address | None = None,
    streams: bool = False,
    brings: bool = False,
    follows_input: bool = False,
) -> tuple[KernelNode, ...]:
    """Loops around one element-wise kernel; ``operands`` and ``types`` have the output last.

    An axis that moves no operand only repeats an idempotent operation and is dropped.
    ``output_bytes``: what a Copy writes of the output in all iterations around, 0 for scratch.
    ``room``: scratch for the kernels of large permutations; without it they are not called.
    ``streams``: the output is better written past the caches. ``brings``: the inputs are far, and
    what the next iterations around read lies right behind. ``follows_input``: the input is farther
    than the output, so it is read in the order it lies in, unless lines of the output would be
    written in parts that come apart.
    """
    moving = []
    for axis in axes:
        if any(axis.strides):
            moving.append(axis)
    moving = fuse_any_order(moving)
    widths = tuple(map(_WIDTH, types))
    is_copy = operation is Operation.COPY and types[0] is types[1]
    if is_copy:
        elements, width = wide_elements(moving, widths[0])
        copied = _lower_moved(
            elements, operands, width, isa, output_bytes, room, streams, brings, follows_input
        )
        if copied is not None:
            return copied
    lane_axis = _lane_axis(moving, widths)
    is_lines = lane_axis.extent * widths[-1] % LINE_BYTES == 0
    rest = in_order([axis for axis in moving if axis is not lane_axis], follows_input and is_lines)
    rows = _rows_kernel(lane_axis, widths[0], isa) if is_copy and not brings else None
    if rows is not None:
        return _row_nodes(rows, lane_axis, rest, operands)
    row_axis = rest.pop() if rest else TileAxis(1, (0,) * len(operands))
    call = _call(operation, lane_axis, row_axis, operands, types, isa, brings)
    return wrap_in_loops(rest, operands, (call,))


def _lower_moved(
    moving: Sequence[TileAxis],
    operands: tuple[Address, ...],
    width: int,
    isa: Isa,
    output_bytes: int,
    room: Address | None,
    streams: bool,
    brings: bool,
    follows_input: bool,
) -> tuple[KernelNode, ...] | None:
    """A copy of elements that lie otherwise on the output; None where the element-wise kernel or
    that of rows copies them. Arguments as `lower_elementwise` has them."""
    if room is not None and len(moving) >= FEWEST_AXES:
        cells = lower_cells(moving, operands, width, room)
        if cells is not None:
            return cells
    stepped = lower_stepped_turn(
        moving, operands, width, isa, output_bytes, room, streams, follows_input
    ) or lower_stepped(moving, operands, width, isa, follows_input, may_turn=True)
    if stepped is not None:
        return stepped
    tile_bytes = width
    for axis in moving:
        tile_bytes *= axis.extent
    turned = turned_axes(moving, width, isa)
    in_panels = is_panel(turned, width, isa)
    if not brings and not in_panels and tile_bytes >= PERMUTED_BYTES:
        short = lower_short_turn(moving, operands, width, isa, SHORT_SIDES, follows_input, 1)
        if short is not None:
            return short
    is_large = tile_bytes >= (_STREAMED_TILE_BYTES if streams else PERMUTED_BYTES)
    if is_large and (streams or output_bytes >= streamed_bytes(isa)):
        rows = lower_stream_rows(moving, operands, width, isa)
        if rows is not None:
            return rows
    if room is not None and is_large and not in_panels and not _copies_rows(moving, isa):
        streams = streams or output_bytes >= streamed_bytes(isa)
        permutation = lower_permutation(moving, operands, width, streams, room, isa, 1)
        if permutation is not None:
            return permutation
    nodes = lower_turned(turned, in_panels, moving, operands, width, isa, brings, follows_input)
    if nodes is not None:
        return nodes
    return lower_stepped(moving, operands, width, isa, follows_input, may_turn=False)


def _call(
    operation: Operation,
    lane_axis: TileAxis,
    row_axis: TileAxis,
    operands: tuple[Address, ...],
    types: tuple[DataType, ...],
    isa: Isa,
    brings: bool,
) -> Call:
    widths = tuple(map(_WIDTH, types))
    lanes = max(1, _vector_bytes(lane_axis, row_axis, widths, isa) // max(widths))
    computed = isa.vector_bytes // _WIDE_BYTES
    is_short = lane_axis.extent <= _MOST_ROW_VECTORS * computed and lane_axis.extent % lanes > 0
    is_plain = isa.has_masks and lanes > 1 and _is_plain(lane_axis, widths, is_short)
    if is_plain and min(widths) < _WIDE_BYTES:
        lanes = computed
    vectors = -(-lane_axis.extent // lanes)
    kernel = Elementwise(
        operation=operation,
        in_type=types[0],
        out_type=types[-1],
        lanes=lanes,
        accesses=accesses(lane_axis, widths),
        brings=brings and operation is Operation.COPY,
        aligns=is_plain and lane_axis.extent >= _LONG_VECTORS * lanes,
        vectors=vectors if is_plain and vectors <= _MOST_ROW_VECTORS else None,
    )
    arguments = (lane_axis.extent, row_axis.extent, *lane_axis.strides, *row_axis.strides)
    return Call(kernel=kernel, operands=operands, arguments=arguments)


def _copies_rows(axes: Sequence[TileAxis], isa: Isa) -> bool:
    """True where the axes follow one another on the output as they do on the input, rows with gaps
    between them, and no stream of few rows is better.

    Measured on Zen 4, 9 to 35 MB: 0.3 to 0.8 of the time of lines past the caches.
    """
    if isa.follows_few_rows:
        return False
    source, target = (
        sorted(range(len(axes)), key=lambda number: axes[number].strides[side]) for side in (0, 1)
    )
    return source == target


def _rows_kernel(lane_axis: TileAxis, width: int, isa: Isa) -> RowCopy | None:
    """The kernel of rows along ``lane_axis``, adjacent on both sides and short."""
    if lane_axis.strides != (width, width) or lane_axis.extent == 1:
        return None
    row_bytes = lane_axis.extent * width
    piece_bytes = min(isa.vector_bytes, 1 << (row_bytes.bit_length() - 1))
    pieces = -(-row_bytes // piece_bytes)
    if pieces > MOST_PIECES:
        return None
    return RowCopy(piece_bytes=piece_bytes, pieces=pieces)


def _row_nodes(
    kernel: RowCopy, lane_axis: TileAxis, around: list[TileAxis], operands: tuple[Address, ...]
) -> tuple[KernelNode, ...]:
    """The two innermost axes around are walked by the kernel; rows are bytes on both sides."""
    rows = around.pop() if around else TileAxis(1, (0, 0))
    outer = around.pop() if around else TileAxis(1, (0, 0))
    row_bytes = lane_axis.extent * lane_axis.strides[0]
    arguments = (row_bytes, rows.extent, *rows.strides, outer.extent, *outer.strides)
    return wrap_in_loops(
        around, operands, (Call(kernel=kernel, operands=operands, arguments=arguments),)
    )


def _is_plain(lane_axis: TileAxis, widths: Sequence[int], is_short: bool) -> bool:
    """True for adjacent and repeated elements of operations on two inputs and more: the length of
    a row decides how it is walked. Copies mostly go to whole lines.

    ``is_short``: narrow elements in so short a row, which leave a part of a vector empty, are in
    vectors as long as those they are computed in. Measured on Zen 4: outer products of 3 to 48
    elements in a row took 0.28 to 0.77 of the time, of 32 and 64 up to 1.15.
    """
    is_walked = len(widths) > 2 and (is_short or min(widths) >= _WIDE_BYTES)
    pairs = zip(lane_axis.strides, widths, strict=True)
    return is_walked and all(stride in (0, width) for stride, width in pairs)


def _vector_bytes(lane_axis: TileAxis, row_axis: TileAxis, widths: Sequence[int], isa: Isa) -> int:
    """Bytes of one vector of the widest operand."""
    if len(widths) <= 2 or min(widths) < _WIDE_BYTES:
        return isa.vector_bytes
    tile_bytes = sum(
        width * prod(axis.extent for axis in (lane_axis, row_axis) if axis.strides[number])
        for number, width in enumerate(widths)
    )
    return min(isa.vector_bytes, _FAR_VECTOR_BYTES) if tile_bytes > _FAR_BYTES else isa.vector_bytes


def accesses(axis: TileAxis, widths: Sequence[int]) -> tuple[Access, ...]:
    """How the lanes along ``axis`` lie on each operand."""
    return tuple(map(access, axis.strides, widths))


def access(stride_bytes: int, width: int) -> Access:
    if stride_bytes == width:
        return Access.UNIT
    return Access.STRIDED if stride_bytes else Access.BROADCAST


def _lane_axis(axes: Sequence[TileAxis], widths: Sequence[int]) -> TileAxis:
    """The axis whose lanes are adjacent on the most operands, the output counting double.

    Lanes that are scattered on the output count a quarter where others lie everywhere as they are
    computed. Measured on Zen 4: outer products with 3 to 8 elements in a row took 0.1 to 0.7 of
    the time.
    """
    if not axes:
        # One element: lanes along an axis of extent 1 with unit strides.
        return TileAxis(1, tuple(widths))

    near = [
        [stride in (0, width) for stride, width in zip(axis.strides, widths, strict=True)]
        for axis in axes
    ]
    scattered = 0.25 if len(widths) > 2 and any(map(all, near)) else 1

    def worth(number: int) -> float:
        adjacent = near[number]
        extent = min(axes[number].extent, 16)
        if len(widths) == 2 and not any(adjacent):
            return _SCATTERED_COPY * extent
        lanes = (sum(adjacent) + adjacent[-1]) * extent
        return lanes if adjacent[-1] else scattered * lanes

    return axes[max(range(len(axes)), key=worth)]
