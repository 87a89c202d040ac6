"""Blocks as axes of their own, and back: the same memory read two ways.

    shape (n, m), blocks of (b, c), levels dsdd    <->    shape (n / b, m / c, b, c), levels dsdd

A product of blocked matrices is one of tensors of four axes: `ijab,jkbc->ikac`.
"""

from __future__ import annotations

from dataclasses import replace

from teir.arrays.levels import Level
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_rules import SHAPE
from teir.errors import refuse


def split_blocks(array: Sparse) -> Sparse:
    """Raises TeirError (TEIR671) for an array without blocks."""
    if array.blocks is None:
        refuse(
            SHAPE, "array", "an array with blocks", f"shape {array.shape}, levels {array.format}"
        )
    return replace(array, shape=array.stored_shape, blocks=None)


def join_blocks(array: Sparse) -> Sparse:
    """Raises TeirError (TEIR671) where the inner half of the axes is not dense and innermost."""
    rank, levels, order = array.ndim // 2, array.format.levels, array.format.mode_order
    is_dense = all(level is Level.DENSE for level in levels[rank:])
    if array.blocks is not None or array.ndim % 2 or not is_dense or 0 in array.shape[rank:]:
        expected = "the axes of blocks, then as many dense ones inside them, not empty"
        found = f"shape {array.shape}, levels {array.format}"
        refuse(SHAPE, "array", expected, found)
    if order[rank:] != tuple(range(rank, array.ndim)):
        refuse(SHAPE, "array", "the axes inside blocks last, in their order", f"{array.format}")
    blocks = array.shape[rank:]
    shape = tuple(n * b for n, b in zip(array.shape[:rank], blocks, strict=True))
    return replace(array, shape=shape, blocks=blocks)
