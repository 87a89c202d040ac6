"""The pattern of a product of two matrices, or of all fibres of a tensor with a matrix.

    A[i, k] = B[i, j] C[j, k]        A[h, i, k] = B[h, i, j] C[j, k]

Fibre by fibre of B in compiled code (`teir.backends.llvm.fibre_unions`), by several threads where
there are, without a list of all pairs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from teir.arrays.levels import Level
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_storage import Compressed, Stored, compress, expand, index_type
from teir.backends.llvm.fibre_unions import LINE, FibreUnions, fibre_unions, marks_for
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_operands import Array
from teir.runtime.runtime import current

MOST_COLUMNS = 1 << 28
"""Columns that are marked, a byte each per thread; wider products are sorted."""
_PAIRS = 1 << 20
"""Pairs looked at by one call."""
_MOST_ROOMS = 8
_KEPT_COLUMNS = 1 << 24
"""Columns whose marks are kept for the next product."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fibres:
    """For every fibre of some levels: its coordinates there, and what it stores, in order."""

    above: tuple[Array, ...]
    """A column of coordinates per level above, one entry per fibre; empty where that is dense."""
    counts: Array
    crd: Array


def fibre_product(
    factors: Sequence[tuple[tuple[str, ...], Sparse]],
    wanted: tuple[str, ...],
    extents: Mapping[str, int],
    threads: int,
) -> Fibres | None:
    """The fibres over ``wanted`` that the product reaches; None where it is another product."""
    if len(factors) != 2 or len(wanted) < 1:
        return None
    for left, right in (factors, tuple(reversed(factors))):
        if _fits(left, right, wanted) and extents[wanted[-1]] <= MOST_COLUMNS:
            return _fibres(left[1], right[1], extents[wanted[-1]], threads)
    return None


def levels_of(fibres: Fibres, extents: Sequence[int], levels: Sequence[Level]) -> Stored:
    """The index arrays of levels that store the fibres; the last one is compressed."""
    above = prod(extents[:-1])
    counts = fibres.counts
    stored: Stored = (None,) * (len(levels) - 1)
    if Level.COMPRESSED in levels[:-1] or counts.size != above:
        is_some = counts > 0
        columns = [column[is_some] for column in fibres.above]
        stored, counts = compress(columns, counts[is_some], extents[:-1], levels[:-1])
    dtype = index_type(extents, fibres.crd.size)
    pos = np.zeros(counts.size + 1, dtype)
    np.cumsum(counts, out=pos[1:])
    return (*stored, Compressed(pos=pos, crd=fibres.crd.astype(dtype, copy=False)))


def _fits(
    left: tuple[tuple[str, ...], Sparse],
    right: tuple[tuple[str, ...], Sparse],
    wanted: tuple[str, ...],
) -> bool:
    """True where the last level of ``left`` numbers the rows of ``right``, and is summed over."""
    left_names, right_names = _bound(*left), _bound(*right)
    levels = right[1].format.levels[: len(right_names)]
    return (
        levels == (Level.DENSE, Level.COMPRESSED)
        and left_names[-1:] == right_names[:1]
        and (*left_names[:-1], right_names[1]) == wanted
        and left_names[-1] not in wanted
    )


def _bound(indices: tuple[str, ...], sparse: Sparse) -> tuple[str, ...]:
    """The indices of the levels down to the last compressed one."""
    fmt = sparse.format
    return tuple(indices[mode] for mode in fmt.mode_order[: fmt.sparse_prefix])


def _fibres(left: Sparse, right: Sparse, columns: int, threads: int) -> Fibres:
    place = left.format.sparse_prefix - 1
    rows, matrix = left.stored[place], right.stored[1]
    assert rows is not None
    assert matrix is not None
    dtype = np.promote_types(rows.pos.dtype, matrix.pos.dtype)
    one, other = _as_type(rows, dtype), _as_type(matrix, dtype)
    run = fibre_unions(default_isa(), dtype.itemsize)
    same = run.same_rows(*one)
    work = _Work(
        run=run,
        left=(*one, same),
        right=(*other, same if matrix is rows else run.same_rows(*other)),
        counts=np.zeros(rows.pos.size - 1, np.int64),
        columns=columns,
        spare=current().once("room of fibre unions", lambda: deque(maxlen=_MOST_ROOMS)),
    )
    parts = work.parts(threads)
    crd = np.concatenate(parts) if len(parts) != 1 else parts[0]
    above = tuple(expand(left.stored, left.level_extents, place)) if place else ()
    return Fibres(above=above, counts=work.counts, crd=crd)


def _as_type(level: Compressed, dtype: np.dtype[np.generic]) -> tuple[Array, Array]:
    return level.pos.astype(dtype, copy=False), level.crd.astype(dtype, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Room:
    """What one thread works in; kept, for new memory costs as much as the work."""

    marks: tuple[Array, Array]
    found: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """All rows of a product; ``spare`` holds room that no thread uses."""

    run: FibreUnions
    left: tuple[Array, Array, Array]
    right: tuple[Array, Array, Array]
    counts: Array
    columns: int
    spare: deque[_Room]

    def parts(self, threads: int) -> list[Array]:
        """The columns of consecutive rows, about as many pairs in every part."""
        pos, crd, _ = self.left
        pairs = self.run.pairs(pos, crd, self.right[0])
        total = int(pairs[-1])
        step = max(1, min(_PAIRS, total // (4 * threads) if threads > 1 else _PAIRS))
        cuts = np.searchsorted(pairs, np.arange(step, total, step))
        rows = np.unique(np.concatenate([[0], cuts, [pos.size - 1]])).tolist()
        tasks = [
            (range(first, last), int(pairs[last] - pairs[first])) for first, last in pairwise(rows)
        ]
        if threads > 1 and len(tasks) > 1:
            with ThreadPoolExecutor(threads) as pool:
                return list(pool.map(self._part, tasks))
        return [self._part(task) for task in tasks] or [crd[:0]]

    def _part(self, task: tuple[range, int]) -> Array:
        rows, pairs = task
        most = min(pairs, len(rows) * self.columns) + 1
        room = self._room(most)
        count = self.run.unions(self.left, self.right, rows, room.marks, self.counts, room.found)
        part = room.found[:count].copy()
        if most <= 2 * _PAIRS and self.columns <= _KEPT_COLUMNS:
            self.spare.append(room)
        return part

    def _room(self, most: int) -> _Room:
        dtype, marks = self.left[1].dtype, -(-self.columns // LINE)
        try:
            room = self.spare.pop()
        except IndexError:
            room = _Room(marks_for(self.columns), np.empty(0, dtype))
        if room.marks[1].size < marks + 16:
            room = _Room(marks_for(self.columns), room.found)
        if room.found.size < most or room.found.dtype != dtype:
            room = _Room(room.marks, np.empty(max(most, min(_PAIRS, 2 * most)), dtype))
        return room
