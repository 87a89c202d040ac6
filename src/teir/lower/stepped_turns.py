"""Copies that turn what is read in steps: every second element, every third, and so on.

    out[n, m] = in[m, step * n]

Squares are turned of rows whose elements are picked from several vectors each.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.lower.axes import TileAxis, adjacent, in_order, wrap_in_loops
from teir.lower.copy_kernels import SHORT_SIDES, TransposeCopy
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.permutation import PERMUTED_BYTES, lower_permutation, streamed_bytes
from teir.lower.short_turns import lower_short_turn
from teir.passes.short_sides import SHORT_NEAR_SIDES
from teir.passes.stepped_rows import FEWEST_IN_A_SQUARE, TURNED_STEPS, WIDEST_BYTES
from teir.target import Isa


def lower_stepped_turn(
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    width: int,
    isa: Isa,
    output_bytes: int,
    room: Address | None,
    streams: bool,
    follows_input: bool,
) -> tuple[KernelNode, ...] | None:
    """Loops around a kernel that turns squares; None where rows of the input are not of elements a
    few apart, or squares are not filled. Arguments as `lower_elementwise` has them."""
    step = turned_step(axes, width, isa)
    if step is None:
        return None
    tile_bytes = width
    for axis in axes:
        tile_bytes *= axis.extent
    is_large = tile_bytes >= PERMUTED_BYTES
    sides = SHORT_SIDES if is_large else SHORT_NEAR_SIDES
    short = lower_short_turn(axes, operands, width, isa, sides, follows_input, step)
    if short is not None:
        return short
    if room is not None and is_large:
        streams = streams or output_bytes >= streamed_bytes(isa)
        nodes = lower_permutation(axes, operands, width, streams, room, isa, step)
        if nodes is not None:
            return nodes
    return _in_squares(axes, operands, width, isa, step, follows_input)


def turned_step(axes: Sequence[TileAxis], width: int, isa: Isa) -> int | None:
    """Elements of the input from one to the next along its rows; None where they are adjacent or
    far apart, or other axes move it by parts of a step."""
    if not isa.has_masks or width > WIDEST_BYTES or any(0 in axis.strides for axis in axes):
        return None
    reads = [axis.strides[0] for axis in axes]
    step, part = divmod(min(reads, default=0), width)
    if part or step not in TURNED_STEPS or any(read % (step * width) for read in reads):
        return None
    return step


def _in_squares(
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    width: int,
    isa: Isa,
    step: int,
    follows_input: bool,
) -> tuple[KernelNode, ...] | None:
    along_input, along_output = adjacent(axes, 0, step * width), adjacent(axes, 1, width)
    if along_input is None or along_output is None or along_input is along_output:
        return None
    shorter = min(along_input.extent, along_output.extent)
    if shorter < FEWEST_IN_A_SQUARE:
        return None
    lanes = min(isa.vector_bytes // width, 1 << (shorter.bit_length() - 1))
    kernel = TransposeCopy(element_bytes=width, lanes=lanes, step=step)
    arguments = (
        *(along_input.extent, along_output.extent),
        *(along_output.strides[0], along_input.strides[1]),
    )
    sides = along_input, along_output
    rest = in_order([axis for axis in axes if axis not in sides], follows_input)
    call = Call(kernel=kernel, operands=operands, arguments=arguments)
    return wrap_in_loops(rest, operands, (call,))
