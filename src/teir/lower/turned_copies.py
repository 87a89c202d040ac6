"""Copies that turn: what is adjacent on the input is not adjacent on the output."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.lower.asking_kernels import BringLines
from teir.lower.axes import TileAxis, in_order, wrap_in_loops
from teir.lower.copy_kernels import JoinedTranspose, TransposeCopy
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.short_turns import lower_short_turn
from teir.passes.short_sides import SHORT_NEAR_SIDES
from teir.target import ARRAY_START_BYTES, LINE_BYTES, Isa

_SHORT = 4
"""A transposing tile pays only when both of its sides reach this many elements."""
_MOST_ASKED = 256
"""Lines that one transposing tile may ask for."""
_FEW_COLUMNS = 16
_TURNED_WHOLE_BYTES = (4, 8)
_SQUARE_BYTES, _APART_BYTES, _FAR_BYTES = 32, 512, 4096
"""Of rows of the output that lie apart: those of a square, how far, and how far for all of them."""
_LEAST_COLUMN_LINES = 2
"""Rows of an output that are turned whole, the elements of these, and the lines of each column."""
_ALIGNED_TILES = 4
"""Tiles of a row from which storing whole lines repays one tile more."""
_WASTED = 1.2
"""What squares move beyond the runs of an output from which on these are joined."""
_GROUPS = (2, 4)
"""Elements that short axes adjacent on the input have where the next axis goes on behind them."""


class Turned(msgspec.Struct, frozen=True, gc=False):
    """The axes of a transposition.

    ``along_input`` is adjacent on the input, or goes on where the short axis ``group`` ends, which
    is; ``along_output`` is adjacent on the output.
    """

    group: TileAxis
    along_input: TileAxis
    along_output: TileAxis


def lower_turned(
    turned: Turned | None,
    in_panels: bool,
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    width: int,
    isa: Isa,
    brings: bool,
    follows_input: bool,
) -> tuple[KernelNode, ...] | None:
    """Loops around a kernel that turns, None where nothing is to be turned.

    ``turned``: what `turned_axes` found among ``axes``; ``in_panels``: what `is_panel` says of it.
    ``brings`` and ``follows_input`` as `lower_elementwise` has them.
    """
    joined = None if brings else _joined_axes(axes, turned, width, isa)
    if joined is not None:
        return _joined_nodes(joined, axes, operands, width, follows_input)
    if not in_panels:
        short = lower_short_turn(axes, operands, width, isa, SHORT_NEAR_SIDES, follows_input, 1)
        if short is not None:
            return short
    if turned is None:
        return None
    inside = turned.group, turned.along_input, turned.along_output
    rest = in_order([axis for axis in axes if axis not in inside], follows_input)
    transposed = _transpose_call(turned, operands, width, isa, follows_input)
    asking = _asking(turned, rest, operands, width) if brings else ()
    return wrap_in_loops(rest, operands, (*asking, transposed))


def turned_axes(axes: Sequence[TileAxis], width: int, isa: Isa) -> Turned | None:
    """The axes adjacent on the input and on the output when they are two different ones."""
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
    grouped = None
    if along_input.extent in _GROUPS:
        grouped = _grouped(axes, along_input, along_output, width, isa)
    if grouped is not None or along_input.extent < _SHORT:
        return grouped
    return Turned(TileAxis(1, (0, 0)), along_input, along_output)


def _grouped(
    axes: Sequence[TileAxis], group: TileAxis, along_output: TileAxis, width: int, isa: Isa
) -> Turned | None:
    """An axis of `_GROUPS` that is adjacent on the input and the one that goes on where it ends, as
    one side."""
    if isa.vector_bytes // width < group.extent:
        return None
    end = group.extent * width
    for axis in axes:
        if axis.strides[0] == end and axis is not along_output and axis.strides[1]:
            return Turned(group, axis, along_output)
    return None


class _Joined(msgspec.Struct, frozen=True, gc=False):
    """``run`` is adjacent on the output, and ``runs`` goes on where it ends."""

    along_input: TileAxis
    run: TileAxis
    runs: TileAxis
    lanes: int


def _joined_axes(
    axes: Sequence[TileAxis], turned: Turned | None, width: int, isa: Isa
) -> _Joined | None:
    """Where rows of the output are runs that squares do not fill, unless they fill them joined."""
    along_input = run = runs = None
    for axis in axes:
        if axis.strides[0] == width and axis.strides[1] != width:
            along_input = axis
        elif axis.strides[1] == width and axis.strides[0]:
            run = axis
    if along_input is None or run is None or not along_input.strides[1]:
        return None
    if turned is not None and turned.group.extent > 1:
        return None
    end = run.extent * width
    for axis in axes:
        if axis.strides[1] == end and axis.strides[0] and axis is not along_input:
            runs = axis
    if runs is None:
        return None
    fitting = isa.vector_bytes // width
    joined = run.extent * runs.extent
    lanes = min(fitting, *(1 << (n.bit_length() - 1) for n in (along_input.extent, joined)))
    wasted = -(-run.extent // lanes) * lanes / run.extent
    if lanes < _SHORT or (run.extent >= lanes and wasted < _WASTED):
        return None
    return _Joined(along_input, run, runs, lanes)


def _joined_nodes(
    joined: _Joined,
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    width: int,
    follows_input: bool,
) -> tuple[KernelNode, ...]:
    inside = (joined.along_input, joined.run, joined.runs)
    rest = in_order([axis for axis in axes if axis not in inside], follows_input)
    outer = rest.pop() if rest else TileAxis(1, (0, 0))
    run, runs, rows = joined.run, joined.runs, joined.along_input
    read = (run.strides[0], runs.strides[0])
    arguments = (
        *(rows.extent, run.extent, runs.extent, *read, rows.strides[1]),
        *(outer.extent, *outer.strides),
    )
    kernel = JoinedTranspose(element_bytes=width, lanes=joined.lanes)
    call = Call(kernel=kernel, operands=operands, arguments=arguments)
    return wrap_in_loops(rest, operands, (call,))


def _asking(
    turned: Turned, around: Sequence[TileAxis], operands: tuple[Address, ...], width: int
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


def _is_few(turned: Turned, width: int, isa: Isa) -> bool:
    """True where a row of the output is a few elements, which squares seldom divide.

    Measured on Golden Cove, panels [k][columns] of 6 to 12 columns: 15 to 26 GB/s are read from the
    second cache where squares read 9 to 16, and 7 to 9 GB/s from memory into memory where tiles of
    squares that are written in lines read 2.5 to 5.
    """
    if not isa.multiplies_twice_a_cycle or _fills_squares(turned, width):
        return False
    is_plain = turned.group.extent == 1 and width in _TURNED_WHOLE_BYTES
    is_long = turned.along_input.extent * width >= _LEAST_COLUMN_LINES * LINE_BYTES
    return is_plain and is_long and turned.along_output.extent <= _FEW_COLUMNS


def _fills_squares(turned: Turned, width: int) -> bool:
    """True for rows of the output that lie apart and hold squares, or so far that how they are
    turned does not show.

    Measured on Golden Cove, drawn permutations beside rows turned whole: FP64 0.73 of the time in
    the mean (0.5 to 1.15), FP32 0.65 (0.45 to 1.14). Shorter rows took up to 1.6 of it, rows of six
    or seven elements that lie near up to 1.75.
    """
    row_bytes, step = turned.along_output.extent * width, turned.along_input.strides[1]
    if step < _APART_BYTES or step == row_bytes or row_bytes < _SQUARE_BYTES:
        return False
    return row_bytes >= LINE_BYTES or row_bytes % _SQUARE_BYTES == 0 or step >= _FAR_BYTES


def is_panel(turned: Turned | None, width: int, isa: Isa) -> bool:
    """True where few columns are turned whole and each row of the output ends where the next one
    begins; rows that lie apart are written in longer pieces through a tile."""
    if turned is None or not isa.multiplies_twice_a_cycle:
        return False
    step = turned.along_output.extent * width
    return turned.along_input.strides[1] == step and _is_few(turned, width, isa)


def _transpose_call(
    turned: Turned,
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
