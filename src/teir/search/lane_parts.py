"""Parts of a slab of lanes that the second cache holds.

    zero; Contraction C=[slab] M=[m] N=[n] K=[k]
    =>
    for parts of n, of m:
      zero the part;  for parts of k, outermost first: Contraction C=[slab] M=[..] N=[..] K=[..]

A block of registers goes along all sums before the next begins: where rows and columns of a slab
are more than a cache holds, each block brings them again, one line of each. Of a part, blocks meet
what the last one left there, and a part lies together.
Sums are taken in the same order, so parts change no bit.

A slab that is packed and larger than the cache is made in parts as well, of one side alone and of
whole sums: what the copy wrote is there when it is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from teir.passes.extents import even_block
from teir.search.emission import Body, Emission
from teir.search.step import Span

_FEWEST_SUMS = 8
"""Sums of a part: for each, results are read and written once more."""
_BLOCK = 5
"""Rows and columns of a block of registers."""
_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Parts that the rows are cut into."""
_FEWEST_FITTING = 4
"""Indices of a packed side that are worth a part of their own."""


class PartSizes(NamedTuple):
    """Rows, columns and sums of one part, at most."""

    rows: int
    columns: int
    sums: int


def part_sizes(rows: int, columns: int, sums: int, room: int) -> PartSizes | None:
    """The part, of at most ``room`` rows of lanes, with which the least is brought again; None
    where all rows of the operands and the result are no more than that, or sums are short."""
    if (rows + columns) * sums + rows * columns <= room or sums < 2 * _FEWEST_SUMS:
        return None
    fitting = [size for count in _COUNTS if (size := _with_height(rows, columns, room, count))]
    return min(fitting, key=partial(_brought, rows, columns), default=None)


def packed_part(
    side: int, others: int, sums: int, room: int, others_are_packed: bool
) -> int | None:
    """How many indices of a packed side are made together with ``others`` of the other side, of
    at most ``room`` rows of lanes; None where its copy stays in the cache as a whole, or where too
    few fit, as where the copies of the others would be made again and again.

    Measured on Zen 4, drawn batches in FP32 and FP64: 0.15 to 1.1 of the time, 0.7 in the mean;
    beside packed others 1.3 to 1.7.
    """
    if side * sums <= 2 * room:
        return None
    fitting = (room - others * sums) // (sums + others)
    if fitting < min(side, _FEWEST_FITTING) or (others_are_packed and 2 * others > fitting):
        return None
    return fitting


def _with_height(rows: int, columns: int, room: int, count: int) -> PartSizes | None:
    """The part of so many rows that ``count`` make all; None where nothing fits beside them."""
    height = -(-rows // count)
    most = (room - _FEWEST_SUMS * height) // (height + _FEWEST_SUMS)
    if most < min(columns, _BLOCK):
        return None
    width = even_block(columns, most)
    return PartSizes(height, width, (room - height * width) // (height + width))


def _brought(rows: int, columns: int, size: PartSizes) -> int:
    """Rows of lanes that are brought for every sum."""
    return rows * -(-columns // size.columns) + columns * -(-rows // size.rows)


def emit_parts(
    emission: Emission,
    axes: tuple[Span, ...],
    most: int,
    leaf: Callable[[tuple[Span, ...]], Body],
) -> Body:
    """``leaf`` for parts of at most ``most`` indices of these axes, which are given outermost
    first, in their order.

    Loops go over the outer axes, an index at a time; one axis is cut; those inside stay whole.
    """
    whole, inner = len(axes), 1
    while whole and inner * axes[whole - 1].extent <= most:
        whole -= 1
        inner *= axes[whole].extent
    if not whole:
        return leaf(axes)
    *outside, axis = axes[:whole]
    block = even_block(axis.extent, max(1, most // inner))
    parts = partial(emission.blocks, axis, block, lambda part: leaf((part, *axes[whole:])))
    return emission.loops(outside, parts, parallel=False)
