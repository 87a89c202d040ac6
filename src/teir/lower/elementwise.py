"""Lowering of the element-wise primitives: Zero, Copy, ReLU and the binary operations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import attrgetter

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.axes import TileAxis, fuse_any_order, wrap_in_loops
from teir.lower.cell_copy import lower_cells
from teir.lower.copy_kernels import TransposeCopy
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.kernels import BringLines, Elementwise
from teir.lower.permutation import PERMUTED_BYTES, lower_permutation, streamed_bytes
from teir.target import ARRAY_START_BYTES, LINE_BYTES, Isa

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
_SHORT = 4
"""A transposing tile pays only when both of its sides reach this many elements."""
_MOST_ASKED = 256
"""Lines that one transposing tile may ask for."""
_FEW_COLUMNS = 16
_TURNED_WHOLE_BYTES = (4, 8)
_LEAST_COLUMN_LINES = 2
"""Rows of an output that are turned whole, the elements of these, and the lines of each column."""
_ALIGNED_TILES = 4
"""Tiles of a row from which storing whole lines repays one tile more."""
_GROUPS = (2, 4)
"""Elements that short axes adjacent on the input have where the next axis goes on behind them."""
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
    moving = fuse_any_order([axis for axis in axes if any(axis.strides)])
    widths = tuple(map(_WIDTH, types))
    tile_bytes = widths[-1]
    for axis in moving:
        tile_bytes *= axis.extent
    is_copy = operation is Operation.COPY and types[0] is types[1]
    is_large = tile_bytes >= (_STREAMED_TILE_BYTES if streams else PERMUTED_BYTES)
    if is_copy and room is not None:
        cells = lower_cells(moving, operands, widths[0], room)
        if cells is not None:
            return cells
    turned = _turned_axes(operation, moving, types, isa)
    is_panel = turned is not None and _is_panel(turned, widths[0], isa)
    if is_copy and is_large and room is not None and not is_panel:
        streams = streams or output_bytes >= streamed_bytes(isa)
        permutation = lower_permutation(moving, operands, widths[0], streams, room, isa)
        if permutation is not None:
            return permutation
    if turned is not None:
        inside = turned.axes
        rest = _ordered([axis for axis in moving if axis not in inside], follows_input)
        transposed = _transpose_call(turned, operands, widths[0], isa, follows_input)
        asking = _asking(turned, rest, operands, widths[0]) if brings else ()
        return wrap_in_loops(rest, operands, (*asking, transposed))
    lane_axis = _lane_axis(moving, widths)
    is_lines = lane_axis.extent * widths[-1] % LINE_BYTES == 0
    rest = _ordered([axis for axis in moving if axis is not lane_axis], follows_input and is_lines)
    row_axis = rest.pop() if rest else TileAxis(1, (0,) * len(operands))
    call = _call(operation, lane_axis, row_axis, operands, types, isa, brings)
    return wrap_in_loops(rest, operands, (call,))


def _ordered(axes: list[TileAxis], follows_input: bool) -> list[TileAxis]:
    """The outermost first; axes come in the order of the output."""
    if not follows_input:
        return axes
    return sorted(axes, key=_input_stride, reverse=True) if len(axes) > 1 else axes


def _input_stride(axis: TileAxis) -> int:
    return axis.strides[0]


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
    vectors = -(-lane_axis.extent // lanes)
    is_plain = isa.has_masks and lanes > 1 and _is_plain(lane_axis, widths)
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


def _is_plain(lane_axis: TileAxis, widths: Sequence[int]) -> bool:
    """True for adjacent and repeated elements of operations on two inputs and more: the length of
    a row decides how it is walked. Copies mostly go to whole lines."""
    is_wide = len(widths) > 2 and min(widths) >= _WIDE_BYTES
    pairs = zip(lane_axis.strides, widths, strict=True)
    return is_wide and all(stride in (0, width) for stride, width in pairs)


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
        lanes = (sum(adjacent) + adjacent[-1]) * min(axes[number].extent, 16)
        return lanes if adjacent[-1] else scattered * lanes

    return axes[max(range(len(axes)), key=worth)]


class _Turned(msgspec.Struct, frozen=True, gc=False):
    """The axes of a transposition.

    ``along_input`` is adjacent on the input, or goes on where the short axis ``group`` ends, which
    is; ``along_output`` is adjacent on the output.
    """

    group: TileAxis
    along_input: TileAxis
    along_output: TileAxis

    @property
    def axes(self) -> tuple[TileAxis, ...]:
        return (self.group, self.along_input, self.along_output)


def _turned_axes(
    operation: Operation, axes: Sequence[TileAxis], types: tuple[DataType, ...], isa: Isa
) -> _Turned | None:
    """The axes adjacent on the input and on the output when they are two different ones."""
    if operation is not Operation.COPY or types[0] is not types[1]:
        return None
    width = types[0].width
    along_input = along_output = None
    for axis in reversed(axes):
        if axis.strides[0] == width:
            along_input = axis
        if axis.strides[1] == width:
            along_output = axis
    if along_input is None or along_output is None or along_input is along_output:
        return None
    if along_input.strides[1] == 0 or along_output.strides[0] == 0:
        return None
    if along_output.extent < _SHORT:
        return None
    grouped = _grouped(axes, along_input, along_output, width, isa)
    if grouped is not None or along_input.extent < _SHORT:
        return grouped
    return _Turned(TileAxis(1, (0, 0)), along_input, along_output)


def _grouped(
    axes: Sequence[TileAxis], group: TileAxis, along_output: TileAxis, width: int, isa: Isa
) -> _Turned | None:
    """A short axis adjacent on the input and the one that goes on where it ends, as one side."""
    if group.extent not in _GROUPS or isa.vector_bytes // width < group.extent:
        return None
    end = group.extent * width
    for axis in axes:
        if axis.strides[0] == end and axis is not along_output and axis.strides[1]:
            return _Turned(group, axis, along_output)
    return None


def _asking(
    turned: _Turned, around: Sequence[TileAxis], operands: tuple[Address, ...], width: int
) -> tuple[KernelNode, ...]:
    """Ask for what the next turn of the longest loop around reads, whose rows lie far apart."""
    if not around:
        return ()
    longest = max(around, key=lambda axis: axis.extent)
    source = operands[0]
    row_bytes = turned.group.extent * turned.along_input.extent * width
    rows = turned.along_output
    steps = (
        source.offset_bytes + ARRAY_START_BYTES,
        *(axis.strides[0] for axis in (*around, rows)),
    )
    begins_lines = all(step % LINE_BYTES == 0 for step in steps)
    lines = -(-row_bytes // LINE_BYTES) + (not begins_lines)
    if lines * rows.extent > _MOST_ASKED:
        return ()
    offset = source.offset_bytes + longest.strides[0]
    ahead = Address(slot=source.slot, offset_bytes=offset)
    arguments = (lines, LINE_BYTES, rows.extent, rows.strides[0], 1, 0)
    return (Call(kernel=BringLines(), operands=(ahead, source, source), arguments=arguments),)


def _is_few(turned: _Turned, width: int, isa: Isa) -> bool:
    """True where a row of the output is a few elements, which squares seldom divide.

    Measured on Golden Cove, panels [k][columns] of 6 to 12 columns: 15 to 26 GB/s are read from the
    second cache where squares read 9 to 16, and 7 to 9 GB/s from memory into memory where tiles of
    squares that are written in lines read 2.5 to 5.
    """
    is_plain = turned.group.extent == 1 and width in _TURNED_WHOLE_BYTES
    is_long = turned.along_input.extent * width >= _LEAST_COLUMN_LINES * LINE_BYTES
    columns = turned.along_output.extent
    return isa.multiplies_twice_a_cycle and is_plain and is_long and columns <= _FEW_COLUMNS


def _is_panel(turned: _Turned, width: int, isa: Isa) -> bool:
    """True where few columns are turned whole and each row of the output ends where the next one
    begins; rows that lie apart are written in longer pieces through a tile."""
    step = turned.along_output.extent * width
    return turned.along_input.strides[1] == step and _is_few(turned, width, isa)


def _transpose_call(
    turned: _Turned,
    operands: tuple[Address, ...],
    width: int,
    isa: Isa,
    is_packed: bool,
) -> Call:
    """``is_packed``: the output is scratch, which begins with a line."""
    along_output, grouped = turned.along_output, turned.group.extent
    rows = grouped * turned.along_input.extent
    shorter = min(rows, along_output.extent)
    # Square tiles of a power of two that fit, so that an edge can overlap its neighbour.
    fitting = 1 << (shorter.bit_length() - 1)
    lanes = max(1, min(isa.vector_bytes // width, fitting))
    begins_lines = turned.along_input.strides[1] % LINE_BYTES == 0
    begins_lines = begins_lines and turned.group.strides[1] % LINE_BYTES == 0
    is_whole = lanes * width == LINE_BYTES and begins_lines
    is_long = along_output.extent >= _ALIGNED_TILES * lanes
    aligns = isa.stores_lines_sooner and is_whole and is_long and not is_packed
    columns = along_output.extent if _is_few(turned, width, isa) else 0
    kernel = TransposeCopy(
        element_bytes=width, lanes=lanes, grouped=grouped, aligns=aligns, columns=columns
    )
    arguments = (
        rows,
        along_output.extent,
        along_output.strides[0],
        turned.along_input.strides[1],
        *((turned.group.strides[1],) if grouped > 1 else ()),
    )
    return Call(kernel=kernel, operands=operands, arguments=arguments)
