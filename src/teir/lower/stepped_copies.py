"""Copies of every second element, every third, and so on, side by side on the output.

out[o, n] = in[o, step * n]
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.lower.axes import TileAxis, adjacent, in_order, wrap_in_loops
from teir.lower.copy_kernels import STEPS, SteppedCopy
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.passes.stepped_rows import FEWEST_IN_A_ROW, WIDEST_BYTES
from teir.target import LINE_BYTES, Isa


def lower_stepped(
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    width: int,
    isa: Isa,
    follows_input: bool,
    may_turn: bool,
) -> tuple[KernelNode, ...] | None:
    """Loops around a `SteppedCopy`; None where the elements of a row are not a few apart, or some
    axis is adjacent on the input which a kernel that turns may take (``may_turn``).

    ``follows_input`` as `lower_elementwise` has it.
    """
    if not isa.has_masks or width > WIDEST_BYTES:
        return None
    if may_turn and adjacent(axes, 0, width) is not None:
        return None
    row = adjacent(axes, 1, width)
    if row is None or row.extent < FEWEST_IN_A_ROW or row.strides[0] >= LINE_BYTES:
        return None
    step, is_between = divmod(row.strides[0], width)
    if is_between or step not in STEPS:
        return None
    rest = in_order([axis for axis in axes if axis is not row], follows_input)
    outer = rest.pop() if rest else TileAxis(1, (0, 0))
    lanes = min(isa.vector_bytes // width, 1 << (row.extent.bit_length() - 1))
    kernel = SteppedCopy(element_bytes=width, step=step, lanes=lanes)
    arguments = (row.extent, outer.extent, *outer.strides)
    call = Call(kernel=kernel, operands=operands, arguments=arguments)
    return wrap_in_loops(rest, operands, (call,))
