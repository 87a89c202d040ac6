"""The symbolic phase: which positions a sparse result stores, before any number is computed.

Every sparse factor of a product is a relation: the stored prefixes of its levels down to the last
compressed one; what is not bound by a relation ranges over its whole extent. The pattern of a
product is the join of the relations, projected onto the levels of the result down to its last
compressed one; that of a sum the union. Joins go block by block of the left relation, so that
memory stays bounded and duplicates are dropped where they arise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from teir.arrays.levels import Format
from teir.arrays.sparse import Sparse, owned
from teir.arrays.sparse_rules import STORED_SIZE
from teir.arrays.sparse_storage import MOST_POSITIONS, Stored, compress, expand, sorted_sums
from teir.backends.llvm.pair_marks import pair_marks
from teir.errors import refuse
from teir.pipeline.executable import default_isa
from teir.pipeline.row_patterns import levels_of, row_patterns, row_terms
from teir.pipeline.sparse_operands import Array

_BLOCK = 1 << 21
"""Pairs of a join formed together."""
_BITMAP = 1 << 27
"""Keys that are told apart by a bitmap of so many bytes at most."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relation:
    """Rows of coordinates, one column per index, each row once."""

    indices: tuple[str, ...]
    columns: tuple[Array, ...]
    size: int
    """How many rows; at most one where there is no index."""

    def column(self, index: str) -> Array:
        return self.columns[self.indices.index(index)]


Factors = Sequence[tuple[tuple[str, ...], Sparse]]
"""The sparse factors of a product with their indices."""


def assemble(
    output: tuple[str, ...],
    fmt: Format,
    products: Sequence[Factors],
    extents: Mapping[str, int],
    dtype: np.dtype[Any],
    threads: int = 1,
) -> Sparse:
    """A result of zeros that stores every position a product may reach. Raises TeirError."""
    levels = tuple(output[mode] for mode in fmt.mode_order)
    prefix = levels[: fmt.sparse_prefix]
    sizes = [extents[index] for index in prefix]
    terms = row_terms(products, prefix) if products else None
    fibres = None if terms is None else row_patterns(terms, prefix, extents, threads)
    if fibres is not None:
        stored = levels_of(fibres, sizes, fmt.levels[: len(prefix)])
        return zeros_of(output, fmt, stored, extents, dtype)
    patterns = [pattern_of(factors, prefix, extents, threads) for factors in products]
    columns = [
        np.concatenate([np.zeros(0, np.int64), *(pattern.columns[place] for pattern in patterns)])
        for place in range(len(prefix))
    ]
    count = columns[0].size if columns else 0
    kept, marks = sorted_sums(columns, np.zeros(count, np.int8), sizes)
    stored, _ = compress(kept, marks, sizes, fmt.levels[: len(prefix)])
    return zeros_of(output, fmt, stored, extents, dtype)


def zeros_of(
    output: tuple[str, ...],
    fmt: Format,
    prefix: Stored,
    extents: Mapping[str, int],
    dtype: np.dtype[Any],
) -> Sparse:
    """With the levels of a prefix, dense ones below."""
    extents_of_levels = [extents[output[mode]] for mode in fmt.mode_order]
    stored = (*prefix, *(None for _ in extents_of_levels[len(prefix) :]))
    positions = _positions(stored, extents_of_levels)
    shape = tuple(extents[index] for index in output)
    # One zero for all: whoever computes the values has memory for them.
    return owned(shape, fmt, stored, np.broadcast_to(np.zeros((), dtype), (positions,)))


def _positions(stored: Sequence[Any], extents: Sequence[int]) -> int:
    count = 1
    for extent, level in zip(extents, stored, strict=True):
        count = count * extent if level is None else level.crd.size
    if count > MOST_POSITIONS:
        refuse(STORED_SIZE, "out_levels", f"at most {MOST_POSITIONS:,} positions", f"{count:,}")
    return int(count)


def pattern_of(
    factors: Factors, wanted: tuple[str, ...], extents: Mapping[str, int], threads: int = 1
) -> Relation:
    """The rows over ``wanted`` that the product of these factors reaches."""
    relations = [_relation(indices, sparse) for indices, sparse in factors]
    done: Relation | None = None
    while relations:
        chosen = _next(done, relations, wanted)
        relations.remove(chosen)
        later = {index for relation in relations for index in relation.indices}
        needed = later | set(wanted)
        done = _join(done, chosen, needed, extents, wanted, threads)
    return _spread(done, wanted, extents)


def _relation(indices: tuple[str, ...], sparse: Sparse) -> Relation:
    places = sparse.format.sparse_prefix
    columns = expand(sparse.stored, sparse.level_extents, places)
    names = tuple(indices[mode] for mode in sparse.format.mode_order[:places])
    return Relation(indices=names, columns=tuple(columns), size=columns[0].size)


def _next(done: Relation | None, left: Sequence[Relation], wanted: tuple[str, ...]) -> Relation:
    """What to join next: filters first, then what shares most; the result's first index first."""
    if done is None:
        leading = [relation for relation in left if wanted[:1] == relation.indices[:1]]
        return min(leading or left, key=lambda relation: relation.size)
    known = set(done.indices)

    def rank(relation: Relation) -> tuple[bool, int, int]:
        shared = len(known & set(relation.indices))
        return not set(relation.indices) <= known, -shared, relation.size

    return min(left, key=rank)


def _join(
    left: Relation | None,
    right: Relation,
    needed: set[str],
    extents: Mapping[str, int],
    wanted: tuple[str, ...],
    threads: int,
) -> Relation:
    """Both at once, without the indices nobody asks for any more."""
    if left is None:
        return _projected(right, needed, extents, wanted)
    shared = tuple(index for index in right.indices if index in left.indices)
    own = tuple(index for index in right.indices if index not in shared and index in needed)
    order = [index for index in (*wanted, *left.indices, *own) if index in needed]
    kept = tuple(dict.fromkeys(i for i in order if i in left.indices or i in own))
    keys, starts, right = _grouped(right, shared, own, extents)
    place = np.searchsorted(keys, _key(left, shared, extents))
    place = np.minimum(place, max(0, keys.size - 1))
    is_met = keys[place] == _key(left, shared, extents) if keys.size else np.zeros(left.size, bool)
    first = np.where(is_met, starts[:-1][place] if keys.size else 0, 0)
    counts = np.where(is_met, (starts[1:] - starts[:-1])[place] if keys.size else 0, 0)
    total = np.cumsum(counts)
    if total.size == 0 or total[-1] == 0:
        nothing = tuple(np.zeros(0, np.int64) for _ in kept)
        return Relation(indices=kept, columns=nothing, size=0)
    if not kept:
        return Relation(indices=(), columns=(), size=1)
    cuts = np.searchsorted(total, np.arange(_BLOCK, int(total[-1]), _BLOCK))
    cuts = np.unique(np.concatenate([[0], _between_rows(left, kept, cuts), [total.size]]))
    sizes = [extents[index] for index in kept]
    bounds = [slice(int(start), int(end)) for start, end in pairwise(cuts)]
    pairs = _Pairs(left=left, right=right, first=first, counts=counts, kept=kept, sizes=sizes)
    if threads > 1 and len(bounds) > 1:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(pairs.rows, bounds))
    else:
        parts = [pairs.rows(rows) for rows in bounds]
    joined = parts[0]
    if len(parts) > 1:
        whole = [np.concatenate([part[n] for part in parts]) for n in range(len(kept))]
        joined = _distinct(whole, sizes)
    return Relation(indices=kept, columns=tuple(joined), size=joined[0].size)


def _projected(
    relation: Relation, needed: set[str], extents: Mapping[str, int], wanted: tuple[str, ...]
) -> Relation:
    """Without the indices nobody asks for, rows by the indices of the result first."""
    order = [index for index in (*wanted, *relation.indices) if index in relation.indices]
    kept = tuple(dict.fromkeys(index for index in order if index in needed))
    if kept == relation.indices:
        return relation
    if not kept:
        return Relation(indices=(), columns=(), size=min(1, relation.size))
    columns = _distinct(
        [relation.column(index) for index in kept], [extents[index] for index in kept]
    )
    return Relation(indices=kept, columns=tuple(columns), size=columns[0].size)


def _between_rows(left: Relation, kept: tuple[str, ...], cuts: Array) -> Array:
    """The cuts moved to where the leading index changes: then the blocks' results are in order."""
    if kept[0] not in left.indices:
        return cuts
    leading = left.column(kept[0])
    if not bool((leading[1:] >= leading[:-1]).all()):
        return cuts
    moved: Array = np.searchsorted(leading, leading[np.minimum(cuts, leading.size - 1)])
    return moved


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pairs:
    """Which rows of two relations meet, and the indices ``kept`` of what they make."""

    left: Relation
    right: Relation
    first: Array
    counts: Array
    kept: tuple[str, ...]
    sizes: Sequence[int]

    def rows(self, rows: slice) -> list[Array]:
        """The distinct pairs of some rows of the left relation, in order."""
        count = int(self.counts[rows].sum())
        if count and prod(self.sizes) < 2**62:
            marked = self._marked(rows, count)
            if marked is not None:
                return marked
        lengths = self.counts[rows]
        source = np.repeat(np.arange(rows.start, rows.stop), lengths)
        ends = np.cumsum(lengths)
        inside = np.arange(source.size) - np.repeat(ends - lengths, lengths)
        target = np.repeat(self.first[rows], lengths) + inside
        columns = [
            self.left.column(index)[source]
            if index in self.left.indices
            else self.right.column(index)[target]
            for index in self.kept
        ]
        return _distinct(columns, self.sizes)

    def _marked(self, rows: slice, count: int) -> list[Array] | None:
        """By a mark per key, where the keys of these rows lie close enough to each other."""
        is_met = self.counts[rows] > 0
        left = self._part(self.left)[rows][is_met]
        first, counts = self.first[rows][is_met], self.counts[rows][is_met]
        right = self._part(self.right)
        low, high = int(left.min()), int(left.max())
        least, most = int(right.min()), int(right.max())
        span = high - low + most - least + 1
        if span > min(_BITMAP, 64 * count + 1024):
            return None
        left, right = left - low, right - least
        marks = np.zeros(span, np.uint8)
        first, counts = first.astype(np.int64), counts.astype(np.int64)
        pair_marks(default_isa())(
            left.ctypes.data,
            first.ctypes.data,
            counts.ctypes.data,
            left.size,
            right.ctypes.data,
            marks.ctypes.data,
        )
        return _columns(np.flatnonzero(marks.view(np.bool_)) + (low + least), self.sizes)

    def _part(self, relation: Relation) -> Array:
        """What the rows of one relation add to the key of a pair."""
        part = np.zeros(relation.size, np.int64)
        step = 1
        for index, extent in zip(reversed(self.kept), reversed(self.sizes), strict=True):
            is_left = index in self.left.indices
            if is_left == (relation is self.left):
                part += step * relation.column(index)
            step *= extent
        return part


def _grouped(
    right: Relation, shared: tuple[str, ...], own: tuple[str, ...], extents: Mapping[str, int]
) -> tuple[Array, Array, Relation]:
    """The rows of ``right`` by their shared indices: keys, where each begins, rows in order."""
    columns = [right.column(index) for index in (*shared, *own)]
    if not columns:
        count = min(1, right.size)
        return np.zeros(count, np.int64), np.arange(count + 1), right
    columns = _distinct(columns, [extents[index] for index in (*shared, *own)])
    names = (*shared, *own)
    sorted_right = Relation(indices=names, columns=tuple(columns), size=columns[0].size)
    key = _key(sorted_right, shared, extents)
    is_first = np.ones(key.size, bool)
    is_first[1:] = key[1:] != key[:-1]
    starts = np.append(np.flatnonzero(is_first), key.size)
    return key[is_first], starts, sorted_right


def _key(relation: Relation, shared: tuple[str, ...], extents: Mapping[str, int]) -> Array:
    if prod(extents[index] for index in shared) >= 2**62:
        refuse(STORED_SIZE, "out_levels", "shared extents whose product is below 2^62", "more")
    key = np.zeros(relation.size, np.int64)
    for index in shared:
        key = key * extents[index] + relation.column(index)
    return key


def _distinct(columns: list[Array], extents: Sequence[int]) -> list[Array]:
    """Each row once, in lexicographic order."""
    if not columns:
        return columns
    if prod(extents) >= 2**62:
        return sorted_sums(columns, np.zeros(columns[0].size, np.int8), extents)[0]
    key = np.zeros(columns[0].size, np.int64)
    for column, extent in zip(columns, extents, strict=True):
        key = key * extent + column
    if bool((key[1:] > key[:-1]).all()):
        return columns
    low, high = int(key.min()), int(key.max())
    if high - low < min(_BITMAP, 64 * key.size + 1024):
        flags = np.zeros(high - low + 1, bool)
        flags[key - low] = True
        key = np.flatnonzero(flags) + low
    else:
        # np.unique hashes, which takes ten times as long as sorting what is nearly in order.
        key = np.sort(key, kind="stable")
        key = key[np.append(True, key[1:] != key[:-1])]
    return _columns(key, extents)


def _columns(key: Array, extents: Sequence[int]) -> list[Array]:
    """The coordinates of linear keys."""
    found: list[Array] = []
    for extent in reversed(extents):
        key, coordinate = np.divmod(key, extent)
        found.append(coordinate)
    return found[::-1]


def _spread(
    relation: Relation | None, wanted: tuple[str, ...], extents: Mapping[str, int]
) -> Relation:
    """Over all of ``wanted``: what no relation binds ranges over its extent."""
    count = 1 if relation is None else relation.size
    free = [index for index in wanted if relation is None or index not in relation.indices]
    total = count * prod(extents[index] for index in free)
    if total > MOST_POSITIONS:
        refuse(STORED_SIZE, "out_levels", f"at most {MOST_POSITIONS:,} positions", f"{total:,}")
    inner = prod(extents[index] for index in free)
    columns = []
    for index in wanted:
        if index not in free:
            assert relation is not None
            columns.append(np.repeat(relation.column(index), inner))
            continue
        behind = prod(extents[other] for other in free[free.index(index) + 1 :])
        own = np.repeat(np.arange(extents[index], dtype=np.int64), behind)
        columns.append(np.tile(own, total // max(1, own.size)))
    return Relation(indices=wanted, columns=tuple(columns), size=total)
