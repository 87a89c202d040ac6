"""Sums of few columns, cut so short that the processor reads the rows of a block ahead.

    for every panel: C[panel, :] += A[panel, all k] B     each row of A lies elsewhere: of so many,
                                                          none is followed
    for k in blocks of 32:                                32 rows of A, each read on
      for every panel: C[panel, :] += A[panel, k] B

The sums of a panel are read and written again for every block, from near caches; A comes from
memory, or from a third cache that is far, in about half the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.ir.nodes import Tensor
from teir.search.choice import Sharing
from teir.search.followed_batches import BATCHED_DEPTH, followed_batches
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of
from teir.search.sharing import sharing_of
from teir.search.step import Span, is_adjacent
from teir.target import PAGE_BYTES

_FEWEST_SUMS = 160
"""Products of a sum from which it is cut: shorter ones took 0.9 to 1.4 of the time."""
_FEW, _SOME = 24, 64
"""Rows or columns that meet the large operand, at most; beside more of them arithmetic bounds."""
_FAR_DEPTH, _DEPTH = 32, 64
"""Products of a block, where few meet rows that are a page apart, and elsewhere. Measured on Golden
Cove, one thread: in the first case 16 products took 1.06 times as long, 64 1.04; in the second 128
took 1.12 to 1.15 times as long."""
_ROW_BYTES, _RUN_BYTES = 512, 1024
"""Bytes of a row, at least, where rows are less than a page apart: those of 512 to 1024 took 0.52
to 1.18 of the time, 0.9 in the mean, some of 256 to 512 up to 1.36. And of a run of columns:
shorter ones took 1.1 to 2 times as long in FP32."""
_WALKED_PART = 2
"""Of the second cache, that all rows of a panel pass over where they are less than a page apart."""
_FAR_SIZES = 4
"""Second caches that an operand fills that more than a few rows or columns meet."""


def followed_depth(shape: ProductShape, machine: Machine) -> int | None:
    """Products of a block of a sum over rows of a large operand that are far apart, or many.

    None where the sum is short, the operand stays in the second cache, or much else meets it; few
    where batches lie inside the blocks.
    """
    kind = shape.a.data_type
    if not machine.has_far_third_cache or shape.m is None or shape.n is None:
        return None
    if kind.accumulator is not kind or shape.out.data_type is not kind:
        return None
    if followed_batches(shape, machine) is not None:
        return BATCHED_DEPTH
    if extent_of(shape.k) < _FEWEST_SUMS or sharing_of(shape, machine) is not Sharing.NONE:
        return None
    if _is_walked_far(shape.a, shape.m, shape.k, machine):
        return _depth_for(shape, shape.a, shape.rows, shape.columns, machine)
    has_runs = _row_bytes(shape.b, shape.n) >= _RUN_BYTES
    if has_runs and _is_walked_far(shape.b, shape.n, shape.k, machine):
        return _depth_for(shape, shape.b, shape.columns, shape.rows, machine)
    return None


def _is_walked_far(tensor: Tensor, side: Span, k: Sequence[Span], machine: Machine) -> bool:
    """True for rows of adjacent elements a page apart, or of which a panel passes over many."""
    if not is_adjacent(side, tensor):
        return False
    passed = max(axis.stride(tensor.name) * axis.extent for axis in k)
    is_long = _row_bytes(tensor, side) >= _ROW_BYTES
    is_passed = is_long and _WALKED_PART * passed >= machine.l2_bytes
    return _apart(tensor, k) >= PAGE_BYTES or is_passed


def _row_bytes(tensor: Tensor, side: Span) -> int:
    return side.extent * tensor.data_type.width


def _apart(tensor: Tensor, k: Sequence[Span]) -> int:
    return min(axis.stride(tensor.name) for axis in k)


def _depth_for(
    shape: ProductShape, tensor: Tensor, count: int, readers: int, machine: Machine
) -> int | None:
    """For ``count`` elements of ``tensor`` in each row, that each meet so many of the other."""
    kind = tensor.data_type
    size = count * extent_of(shape.k) * extent_of(shape.c) * kind.width
    products = readers * (2 if kind.is_complex else 1)
    if products <= _FEW and size >= machine.l2_bytes:
        return _FAR_DEPTH if _apart(tensor, shape.k) >= PAGE_BYTES else _DEPTH
    if products <= _SOME and size >= _FAR_SIZES * machine.l2_bytes:
        return _DEPTH
    return None
