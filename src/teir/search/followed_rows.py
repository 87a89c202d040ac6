"""Sums of few columns, cut so short that the processor reads the rows of a block ahead.

    for every panel: C[panel, :] += A[panel, all k] B     each row of A is on another page: of so
                                                          many, none is followed
    for k in blocks of 32:                                32 rows of A, each read on and on
      for every panel: C[panel, :] += A[panel, k] B

The sums of a panel are read and written again for every block, from near caches; A comes from
memory, or from a third cache that is far, in about half the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.ir.nodes import Tensor
from teir.search.choice import Sharing
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of
from teir.search.sharing import sharing_of
from teir.search.step import Span, is_adjacent
from teir.target import PAGE_BYTES

_FEWEST_SUMS = 160
"""Products of a sum from which it is cut: shorter ones took 0.9 to 1.4 of the time."""
_FEW, _SOME = 24, 64
_FEW_DEPTH, _SOME_DEPTH = 32, 64
"""Rows or columns that meet the large operand, at most, and the products of a block. Measured on
Golden Cove, one thread: up to 24 of them 16 products took 1.06 times as long as 32, and 64 products
1.04; with more of them 128 products took 1.15 times as long as 64. More than 64 are bound by
arithmetic."""
_FAR_SIZES = 4
"""Second caches that an operand fills that more than a few rows or columns meet."""
_COLUMN_RUN_BYTES = 1024
"""Bytes of a run of columns, at least: shorter ones took 1.1 to 2 times as long in FP32."""


def followed_depth(shape: ProductShape, machine: Machine) -> int | None:
    """Products of a block of a sum that meets a large operand in rows on pages of their own.

    None where the sum is short, the operand stays in the second cache, or much else meets it.
    """
    kind = shape.a.data_type
    if not machine.has_far_third_cache or shape.m is None or shape.n is None:
        return None
    if kind.accumulator is not kind or shape.out.data_type is not kind:
        return None
    if extent_of(shape.k) < _FEWEST_SUMS or sharing_of(shape, machine) is not Sharing.NONE:
        return None
    if _are_on_pages_of_their_own(shape.a, shape.m, shape.k):
        return _depth_for(shape, shape.rows, shape.columns, machine)
    has_runs = shape.n.extent * shape.b.data_type.width >= _COLUMN_RUN_BYTES
    if has_runs and _are_on_pages_of_their_own(shape.b, shape.n, shape.k):
        return _depth_for(shape, shape.columns, shape.rows, machine)
    return None


def _are_on_pages_of_their_own(tensor: Tensor, side: Span, k: Sequence[Span]) -> bool:
    """True for rows of adjacent elements that are at least a page apart."""
    apart = min(axis.stride(tensor.name) for axis in k)
    return is_adjacent(side, tensor) and apart >= PAGE_BYTES


def _depth_for(shape: ProductShape, count: int, readers: int, machine: Machine) -> int | None:
    """For ``count`` elements in each row, that each meet so many of the other operand."""
    kind = shape.a.data_type
    size = count * extent_of(shape.k) * extent_of(shape.c) * kind.width
    products = readers * (2 if kind.is_complex else 1)
    if products <= _FEW and size >= machine.l2_bytes:
        return _FEW_DEPTH
    if products <= _SOME and size >= _FAR_SIZES * machine.l2_bytes:
        return _SOME_DEPTH
    return None
