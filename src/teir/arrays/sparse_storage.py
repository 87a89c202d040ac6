"""Coordinates to levels and back: sorting, summing duplicates, compressing.

All of it is in level order: column 0 is the coordinate of the outermost level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from teir.arrays.levels import Level
from teir.arrays.sparse_rules import STORED_SIZE
from teir.errors import NoRoomError, at_argument, refuse

Array = np.ndarray[Any, np.dtype[Any]]

MOST_POSITIONS = 2**34


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compressed:
    """The index arrays of a compressed level.

    Fibre ``f`` stores the coordinates ``crd[pos[f]:pos[f + 1]]``.
    """

    pos: Array
    crd: Array


Stored = tuple[Compressed | None, ...]
"""The index arrays of every level, None for a dense one."""


def index_type(extents: Sequence[int], positions: int) -> np.dtype[Any]:
    """int32 where coordinates and positions fit, else int64."""
    largest = max((positions, *extents), default=0)
    return np.dtype(np.int32 if largest < 2**31 else np.int64)


def sorted_sums(
    columns: Sequence[Array], values: Array, extents: Sequence[int]
) -> tuple[list[Array], Array]:
    """Coordinates in lexicographic order, each once; values of equal ones summed in their order."""
    columns = [np.asarray(column, np.int64) for column in columns]
    if not columns:
        return columns, _sums(values, np.zeros(min(1, values.size), np.int64))
    if prod(extents) < 2**62:
        key = _linear(columns, extents)
        if not bool((key[1:] > key[:-1]).all()):
            key, order = stably_sorted(key, prod(extents))
            columns, values = _columns_of(key, extents), values[order]
        is_first = np.ones(key.size, bool)
        is_first[1:] = key[1:] != key[:-1]
    else:
        order = np.lexsort(tuple(reversed(columns)))
        columns, values = [column[order] for column in columns], values[order]
        is_first = np.ones(values.size, bool)
        is_first[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    if is_first.all():
        return columns, values
    return [column[is_first] for column in columns], _sums(values, np.flatnonzero(is_first))


def stably_sorted(key: Array, count: int) -> tuple[Array, Array]:
    """Keys below ``count`` in order, and the places they come from, of equal ones as they come.

    A key with its place below it sorts as one number, many times as fast as places by their keys.
    """
    bits = max(1, key.size - 1).bit_length()
    if (count - 1).bit_length() + bits > 63:
        order = np.argsort(key, kind="stable")
        return key[order], order
    placed = key << bits
    placed |= np.arange(key.size)
    placed.sort()
    return placed >> bits, placed & ((1 << bits) - 1)


def _linear(columns: Sequence[Array], extents: Sequence[int]) -> Array:
    key = np.zeros(columns[0].shape, np.int64)
    for column, extent in zip(columns, extents, strict=True):
        key = key * extent + column
    return key


def _columns_of(key: Array, extents: Sequence[int]) -> list[Array]:
    """The coordinates that `_linear` made keys of; not read at the places they come from."""
    columns: list[Array] = []
    for extent in reversed(extents[1:]):
        above = key // extent
        columns.append(key - above * extent)
        key = above
    return [key, *reversed(columns)]


def _sums(values: Array, starts: Array) -> Array:
    if starts.size in (0, values.size):
        return values[: starts.size]
    wide = values.astype(np.float32) if values.dtype.itemsize == 2 else values
    sums: Array = np.add.reduceat(wide, starts)
    return sums.astype(values.dtype, copy=False)


def compress(
    columns: Sequence[Array],
    values: Array,
    extents: Sequence[int],
    levels: Sequence[Level],
    width: np.dtype[Any] | None = None,
) -> tuple[Stored, Array]:
    """Index arrays and values of elements in lexicographic order, each coordinate once.

    ``width`` is the type of index arrays, by default the least that fits. Raises TeirError
    (TEIR677) where dense levels would store too much, or more than there is memory for.
    """
    dtype = width or index_type(extents, values.size)
    parents = np.zeros(values.size, np.int64)
    count = 1
    stored: list[Compressed | None] = []
    for column, extent, level in zip(columns, extents, levels, strict=True):
        if level is Level.DENSE:
            count *= extent
            _require_room(count)
            parents = parents * extent + column
            stored.append(None)
            continue
        is_first = np.ones(parents.size, bool)
        is_first[1:] = (parents[1:] != parents[:-1]) | (column[1:] != column[:-1])
        pos = _bounds(parents[is_first], count, dtype)
        stored.append(Compressed(pos=pos, crd=column[is_first].astype(dtype)))
        parents = np.cumsum(is_first) - 1
        count = int(is_first.sum())
    if count == values.size and all(level is Level.COMPRESSED for level in levels[-1:]):
        return tuple(stored), values
    try:
        spread = np.zeros(count, values.dtype)
    except MemoryError:
        raise _no_room(f"{count:,} values") from None
    spread[parents] = values
    return tuple(stored), spread


def _bounds(parents: Array, count: int, dtype: np.dtype[Any]) -> Array:
    """Where each of ``count`` fibres begins; ``parents`` has the fibre of every coordinate."""
    try:
        pos = np.zeros(count + 1, dtype)
        np.cumsum(np.bincount(parents, minlength=count), out=pos[1:])
    except MemoryError:
        raise _no_room(f"the bounds of {count:,} fibres") from None
    return pos


def _no_room(what: str) -> NoRoomError:
    """For levels that were asked for; they are below the rule's limit but not small."""
    hint = "ask for compressed levels, 's', in place of dense ones"
    found = "less memory than that"
    finding = at_argument(STORED_SIZE, "levels", f"memory for {what}", found, hint)
    return NoRoomError((finding,))


def _require_room(count: int) -> None:
    if count > MOST_POSITIONS:
        refuse(STORED_SIZE, "levels", f"at most {MOST_POSITIONS:,} positions", f"{count:,}")


def expand(stored: Stored, extents: Sequence[int], places: int | None = None) -> list[Array]:
    """The coordinates of every stored prefix of the first ``places`` levels, all by default.

    In storage order, int64, one column per level.
    """
    columns: list[Array] = []
    count = 1
    for extent, level in list(zip(extents, stored, strict=True))[:places]:
        if level is None:
            _require_room(count * extent)
            columns = [np.repeat(column, extent) for column in columns]
            columns.append(np.tile(np.arange(extent, dtype=np.int64), count))
            count *= extent
        else:
            lengths = np.diff(level.pos)
            columns = [np.repeat(column, lengths) for column in columns]
            columns.append(level.crd[: int(level.pos[-1])].astype(np.int64))
            count = columns[-1].size
    return columns


def position_count(stored: Stored, extents: Sequence[int]) -> int:
    """How many values the levels store."""
    count = 1
    for extent, level in zip(extents, stored, strict=True):
        count = count * extent if level is None else level.crd.size
    return count
