"""Copies of rows that lie together in memory, asked for while the piece before them is turned.

    for blocks of rows, at most what a part of the second cache holds:
      for tiles of them: ask for the next tile; A'[k, m] = A[m, k]
      C[m, n] = sum of A'[k, m] * B[k, n]

A tile is read in squares, several rows at a time, to which the processor follows no stream; asked
for a tile ahead, rows come at the speed of the memory. Measured on Zen 4, sums of 14 to 600
products, 12 to 80 MB: 0.54 to 1.0 of the time of 3 to 25 columns, 0.8 to 1.05 of more. Smaller
blocks, where few columns read each once, took 0.88 to 0.98 of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from teir.search.choice import Choice, Packing
from teir.search.machine import FROM_MEMORY, Machine
from teir.search.packing import all_follow
from teir.search.shape import ProductShape, extent_of, outermost_first
from teir.search.step import Span, is_adjacent

_TILE_BYTES = 2048
"""Smaller tiles took up to twice as long with requests for each, up to 5 % less without."""
_SHORTEST_BYTES = 32
"""Of what is adjacent where sums lie outside rows: less of each took 1.3 to 1.6 times as long."""
_NEAR_PART = 8
"""Part of the second cache that rows take which few columns read."""
_COLUMNS_PART = 4
"""Part of the second cache up to which columns are few."""


def asking_in_copies(
    choice: Choice, shape: ProductShape, k: Sequence[Span], machine: Machine
) -> Choice:
    """``choice``, which packs A, so that copies ask for the next rows where they come from memory
    and lie together; the same for others."""
    width = shape.a.data_type.width
    size = shape.rows * extent_of(shape.k) * width
    if size < FROM_MEMORY * machine.l2_bytes or not _lie_together(shape, k):
        return choice
    sum_bytes = extent_of(k) * width
    are_few = _COLUMNS_PART * shape.columns * sum_bytes <= machine.l2_bytes
    if are_few and choice.packed_a is Packing.BLOCKS:
        rows = max(choice.panel, machine.l2_bytes // _NEAR_PART // sum_bytes)
        choice = replace(choice, row_block=min(choice.row_block, rows))
    return replace(choice, prefetches_packed=True)


def _lie_together(shape: ProductShape, k: Sequence[Span]) -> bool:
    """True where a block of A lies without a gap, sums inside rows or outside, and enough of a row
    makes a tile."""
    if shape.m is None:
        return False
    name, axes = shape.a.name, outermost_first((shape.m, *k), shape.a)
    if axes != (shape.m, *k) and axes[-1].extent * shape.a.data_type.width < _SHORTEST_BYTES:
        return False
    is_dense = all_follow(axes, name) and is_adjacent(axes[-1], shape.a)
    return is_dense and shape.m.extent * shape.m.stride(name) >= _TILE_BYTES
