"""Batches inside the blocks of a sum, where the rows of one lie behind those of the one before.

    for d in batches:                            every row of A lies elsewhere: none is followed
      for k in blocks: C[d] += A[k, d, :] B[d, k]

    for k in blocks of 16:                       16 rows of A, each read on from batch to batch
      for d in batches: C[d] += A[k, d, :] B[d, k]

The results of all batches are read and written again for every block, from the second cache.
"""

from __future__ import annotations

import msgspec

from teir.passes.extents import even_block
from teir.passes.parallelise import CHUNKS
from teir.search.choice import Sharing
from teir.search.machine import Machine
from teir.search.packing import follow
from teir.search.shape import ProductShape, extent_of
from teir.search.sharing import shares_batch, sharing_of
from teir.search.step import Span, is_adjacent

BATCHED_DEPTH = 16
"""Products of a block; 8 took 1.1 times as long in the mean, 24 and 32 as long to 1.07 times."""
_FEWEST_SUMS, _MOST_READERS = 48, 256
"""Products of a sum, at least, and columns that meet each row, at most. Measured on Golden Cove:
shorter sums took up to 1.1 times, more columns up to 1.45 times as long."""
_MOST_ROW_BYTES, _FEWEST_RUN_BYTES = 2048, 8192
"""Bytes of a row, which are followed alone where they are more, and of those of all batches."""
_LEAST_PART, _RESULTS_PART = 16, 2
"""Of the second cache, that A fills, and that the results of all batches may fill."""


class FollowedBatches(msgspec.Struct, frozen=True, gc=False):
    """blocks of ``size`` of ``cut`` { blocks of the sum { a block of ``cut`` { ``inside`` }}}."""

    cut: Span
    size: int
    inside: tuple[Span, ...]

    @property
    def axes(self) -> tuple[Span, ...]:
        return (self.cut, *self.inside)

    @property
    def together(self) -> int:
        """Batches inside a block of the sum."""
        return self.size * extent_of(self.inside)


def followed_batches(shape: ProductShape, machine: Machine) -> FollowedBatches | None:
    """The batches along which rows of A follow one another, as many as the second cache keeps
    results of.

    None where those are few, or much else meets A. Threads take blocks of batches in turns.
    """
    kind, m = shape.a.data_type, shape.m
    if not machine.has_far_third_cache or not shape.c or m is None or shape.m_outer:
        return None
    if kind.accumulator is not kind or shape.out.data_type is not kind:
        return None
    row_bytes = m.extent * kind.width
    if not is_adjacent(m, shape.a) or row_bytes > _MOST_ROW_BYTES:
        return None
    if sharing_of(shape, machine) is not Sharing.NONE:
        return None
    readers = shape.columns * (2 if kind.is_complex else 1)
    if extent_of(shape.k) < _FEWEST_SUMS or readers > _MOST_READERS:
        return None
    room = machine.l2_bytes // (_RESULTS_PART * row_bytes * shape.columns)
    if shares_batch(shape, machine):
        room = min(room, extent_of(shape.c) // (CHUNKS * machine.threads))
    batches = _behind(m, shape, room)
    if batches is None or batches.together * row_bytes < _FEWEST_RUN_BYTES:
        return None
    size = extent_of(batches.axes) * row_bytes * extent_of(shape.k)
    return None if size * _LEAST_PART < machine.l2_bytes else batches


def _behind(m: Span, shape: ProductShape, room: int) -> FollowedBatches | None:
    """The batches that continue the rows of A without a gap, at most ``room`` together."""
    name = shape.a.name
    inside: tuple[Span, ...] = ()
    last = m
    for axis in sorted(shape.c, key=lambda axis: axis.stride(name)):
        if not follow(axis, last, name):
            break
        if axis.extent > room:
            return FollowedBatches(axis, even_block(axis.extent, max(1, room)), inside)
        room //= axis.extent
        inside, last = (axis, *inside), axis
    return FollowedBatches(inside[0], inside[0].extent, inside[1:]) if inside else None
