"""Tiles of two tensors that lie in different orders: long along the rows of both.

    A[a, c, b], B[a, b, c]:  a tile is a block of a, all of b, all of c

Either input is read in the runs that the tile has in it. All sizes follow from the extents alone:
the order of a sum goes with its tiles, and must not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod

from teir.ir.nodes import Tensor
from teir.passes.extents import even_block
from teir.search.shape import outermost_first
from teir.search.step import Span, Step

_MOST_BYTES, _ENOUGH_BYTES = 1 << 17, 1 << 16
"""Of a tile, and of one that grows because the runs it must have are short."""
_END_OF_RUN_BYTES = 60
"""Bytes read beside those of a run that count: most of a line."""
_AXIS_COST = 0.05
"""What one axis more in a tile, or one that is cut, costs beside reading it without an end."""
_GRANULE = 16

Blocks = Mapping[int, int]
"""Indices of a tile by the identity of the axis; the axes of loops are not there."""


def pair_blocks(step: Step, kept: Tensor, turned: Tensor) -> Blocks:
    """The tile whose inputs are read in the longest runs, grown along the one that is kept."""
    width = kept.data_type.width
    rows = [outermost_first(step.axes, tensor)[::-1] for tensor in (kept, turned)]
    counts = range(1, len(step.axes))
    tiles = [_tile(rows[0][:i], rows[1][:j], width) for i in counts for j in counts]
    blocks = min(tiles, key=lambda one: _cost(rows, one, width))
    size = width * prod(blocks.values())
    for axis in rows[0]:
        if id(axis) in blocks:
            continue
        if 2 * size > _ENOUGH_BYTES:
            break
        blocks[id(axis)] = even_block(axis.extent, _ENOUGH_BYTES // size)
        size *= blocks[id(axis)]
    return blocks


def _tile(kept: Sequence[Span], turned: Sequence[Span], width: int) -> dict[int, int]:
    """A tile of these axes of the inputs, innermost first; the last ones are cut to fit."""
    blocks = {id(axis): axis.extent for axis in (*kept, *turned)}
    for axis in sorted((kept[-1], turned[-1]), key=lambda axis: -axis.extent):
        others = width * prod(blocks.values()) // blocks[id(axis)]
        most = max(_GRANULE, _MOST_BYTES // others)
        blocks[id(axis)] = even_block(blocks[id(axis)], most, _GRANULE)
    return blocks


def _cost(rows: Sequence[Sequence[Span]], blocks: Blocks, width: int) -> float:
    """Bytes read beside those that count, for each of these; no end to them in a tile too large."""
    if width * prod(blocks.values()) > _MOST_BYTES:
        return inf
    cuts = sum(blocks.get(id(axis), axis.extent) < axis.extent for axis in rows[0])
    ends = sum(_END_OF_RUN_BYTES / (width * _run(axes, blocks)) for axes in rows)
    return ends + _AXIS_COST * (len(blocks) + cuts)


def _run(axes: Sequence[Span], blocks: Blocks) -> int:
    """Elements of a tile next to each other in the input with these axes, innermost first."""
    run = 1
    for axis in axes:
        run *= blocks.get(id(axis), 1)
        if blocks.get(id(axis)) != axis.extent:
            break
    return run
