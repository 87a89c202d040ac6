"""Rows in order from rows in any order, from diagonals and from blocks, without sorting elements.

Two answer None where the general way, by coordinates, has to be taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from teir.arrays.sparse_storage import Compressed, index_type, stably_sorted

Array = np.ndarray[Any, np.dtype[Any]]
Rows = tuple[Compressed, Array]


def ordered_fibres(level: Compressed, extent: int, values: Array) -> Rows | None:
    """Every fibre with its coordinates, below ``extent``, in order; None where one is repeated."""
    fibres = level.pos.size - 1
    if fibres * extent >= 2**62:
        return None
    first = np.repeat(np.arange(fibres, dtype=np.int64) * extent, np.diff(level.pos))
    keys, order = stably_sorted(first + level.crd, fibres * extent)
    if not bool((keys[1:] > keys[:-1]).all()):
        return None
    keys -= first
    return replace(level, crd=keys.astype(level.crd.dtype)), values[order]


def rows_of_diagonals(offsets: Array, data: Array, shape: tuple[int, int]) -> Rows | None:
    """Rows of what lies on diagonals, zeros left out.

    Element ``data[d, j]`` lies in row ``j - offsets[d]`` and column ``j``, as in `scipy.sparse`.
    None where an offset is given twice, and where most rows are beyond the diagonals.
    """
    if np.unique(offsets).size != offsets.size or shape[0] > 2 * data.shape[1]:
        return None
    kinds = np.sort(offsets)
    table = np.zeros((shape[0], offsets.size), data.dtype)
    for offset, diagonal in zip(offsets.tolist(), data, strict=True):
        begin, end = max(0, offset), min(shape[0] + offset, shape[1], data.shape[1])
        if begin < end:
            place = int(np.searchsorted(kinds, offset))
            table[begin - offset : end - offset, place] = diagonal[begin:end]
    is_stored = table != 0
    stored = np.flatnonzero(is_stored)
    dtype = index_type(shape, stored.size)
    pos = np.searchsorted(stored, np.arange(shape[0] + 1) * offsets.size)
    columns = np.arange(shape[0])[:, None] + kinds
    level = Compressed(pos=pos.astype(dtype), crd=columns[is_stored].astype(dtype))
    return level, table[is_stored]


def rows_of_blocks(
    level: Compressed, values: Array, blocks: tuple[int, int], shape: tuple[int, ...]
) -> Rows:
    """Every row of rows of blocks, each block stored row by row; ``shape`` in elements."""
    height, width = blocks
    dtype = np.promote_types(level.crd.dtype, index_type(shape, values.size))
    lengths = np.diff(level.pos).astype(np.int64)
    begins = level.pos[:-1].astype(np.int64)
    row_lengths = np.repeat(lengths * width, height)
    pos = np.zeros(row_lengths.size + 1, dtype)
    np.cumsum(row_lengths, out=pos[1:])
    place = np.arange(level.crd.size) - np.repeat(begins, lengths)
    start = np.repeat(begins * height * width, lengths) + place * width
    stride = np.repeat(lengths * width, lengths)
    inside = np.arange(width)
    targets = (start[:, None] + stride[:, None] * np.arange(height))[:, :, None] + inside
    crd = np.empty(values.size, dtype)
    crd[targets] = (level.crd.astype(np.int64)[:, None] * width + inside)[:, None, :]
    ordered = np.empty_like(values)
    ordered[targets] = values.reshape(-1, height, width)
    return Compressed(pos=pos, crd=crd), ordered
