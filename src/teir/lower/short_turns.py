"""Copies that turn few elements: those next to each other on one side lie apart on the other.

    out[n, s] = in[s, n], s a few: vectors along n are put together
    out[s, n] = in[n, s]: vectors of whole rows are taken apart

Squares would be mostly empty, or overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.lower.axes import TileAxis, adjacent, in_order, wrap_in_loops
from teir.lower.copy_kernels import ShortTranspose
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.target import Isa

_FEWEST_ROWS = 2
"""Elements of a vector that is worth a shuffle."""


def lower_short_turn(
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    width: int,
    isa: Isa,
    sides: range,
    follows_input: bool,
    step: int,
) -> tuple[KernelNode, ...] | None:
    """Loops around a `ShortTranspose`; None where no few elements are turned.

    ``follows_input`` as `lower_elementwise` has it. ``step``: elements of the input from one to the
    next where they would be adjacent.
    """
    if isa.vector_bytes < _FEWEST_ROWS * width:
        return None
    units = step * width, width
    first, second = adjacent(axes, 0, units[0]), adjacent(axes, 1, units[1])
    if first is None or second is None or first is second:
        return None
    if first.extent not in sides and second.extent not in sides:
        return None
    near = first, second
    joined, split = _sides(near, units, sides, 1), _sides(near, units, sides, 0)
    # Both are there where two short axes change places.
    joins = joined is not None and (split is None or joined[1].extent >= split[1].extent)
    found = joined if joins else split
    if found is None:
        return None
    short, rows = found
    rest = in_order([axis for axis in axes if axis not in found], follows_input)
    outer = rest.pop() if rest else TileAxis(1, (0, 0))
    lanes = min(isa.vector_bytes // width, 1 << (rows.extent.bit_length() - 1))
    kernel = ShortTranspose(
        element_bytes=width, side=short.extent, lanes=lanes, joins=joins, step=step
    )
    arguments = (rows.extent, short.strides[0 if joins else 1], outer.extent, *outer.strides)
    call = Call(kernel=kernel, operands=operands, arguments=arguments)
    return wrap_in_loops(rest, operands, (call,))


def _sides(
    near: tuple[TileAxis, TileAxis], units: tuple[int, int], sides: range, together: int
) -> tuple[TileAxis, TileAxis] | None:
    """The short axis, adjacent on this operand, and the one that goes on where it ends, adjacent
    on the other operand; None where there are none such. ``near``: those adjacent on each, whose
    elements lie ``units`` bytes apart."""
    apart = 1 - together
    short, rows = near[together], near[apart]
    if short.extent not in sides or rows.extent < _FEWEST_ROWS or not short.strides[apart]:
        return None
    return (short, rows) if rows.strides[together] == short.extent * units[together] else None
