"""The patterns of results whose rows, or fibres, come from rows of the operands.

    A[i, k] = B[i, j] C[j, k]      A[h, i, k] = B[h, i, j] C[j, k]      A[i, k] = B[i, k] C[i, k]
    and sums of such products and of B[i, k]

Row by row in compiled code (`teir.backends.llvm.fibre_unions`), by several threads where there are,
without a list of all pairs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TypeVar

import numpy as np

from teir.arrays.levels import Level
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_storage import Compressed, Stored, compress, expand, index_type
from teir.backends.llvm.fibre_unions import (
    ROOM,
    FibreUnions,
    Term,
    TermKind,
    fibre_unions,
    marks_for,
)
from teir.backends.llvm.fibre_words import LINE
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_operands import Array
from teir.runtime.runtime import current

Factor = tuple[tuple[str, ...], Sparse]
"""A sparse factor with its indices."""

Task = TypeVar("Task")
Made = TypeVar("Made")

MOST_COLUMNS = 1 << 28
"""Columns that are marked, a byte each per thread; wider products are sorted."""
_PAIRS = 1 << 20
"""Pairs looked at by one call."""
_SHARED = 1 << 18
"""Pairs from which on threads are worth starting."""
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


@dataclass(frozen=True, slots=True)
class RowTerm:
    """A product as rows are formed from it; ``right`` for those of two factors."""

    kind: TermKind
    left: Sparse
    right: Sparse | None

    @property
    def is_dense_above(self) -> bool:
        """True where row r is fibre r of what stands in the term, whatever that stores."""
        lefts = [self.left]
        if self.kind is TermKind.BOTH and self.right is not None:
            lefts.append(self.right)
        return all(Level.COMPRESSED not in one.format.levels[: last_place(one)] for one in lefts)


def row_terms(
    products: Sequence[Sequence[Factor]], wanted: tuple[str, ...]
) -> tuple[RowTerm, ...] | None:
    """The products as terms of rows over ``wanted``; None where one of them is none."""
    if not wanted:
        return None
    terms = []
    for factors in products:
        term = _row_term(factors, wanted)
        if term is None:
            return None
        terms.append(term)
    is_alone = len(terms) == 1 and terms[0].kind is not TermKind.BOTH
    return tuple(terms) if is_alone or all(term.is_dense_above for term in terms) else None


def _row_term(factors: Sequence[Factor], wanted: tuple[str, ...]) -> RowTerm | None:
    names = [_bound(*factor) for factor in factors]
    if len(factors) == 1 and names[0] == wanted:
        return RowTerm(TermKind.FIBRE, factors[0][1], None)
    if len(factors) != 2:
        return None
    if names[0] == names[1] == wanted:
        return RowTerm(TermKind.BOTH, factors[0][1], factors[1][1])
    for left, right in ((0, 1), (1, 0)):
        levels = factors[right][1].format.levels[: len(names[right])]
        is_matrix = levels == (Level.DENSE, Level.COMPRESSED)
        joins = is_matrix and names[left][-1:] == names[right][:1]
        joins = joins and names[left][-1] not in wanted
        if joins and (*names[left][:-1], names[right][1]) == wanted:
            return RowTerm(TermKind.PRODUCT, factors[left][1], factors[right][1])
    return None


def row_patterns(
    terms: Sequence[RowTerm], wanted: tuple[str, ...], extents: Mapping[str, int], threads: int
) -> Fibres | None:
    """The fibres over ``wanted`` that the terms reach; None where they are too wide to mark."""
    if extents[wanted[-1]] > MOST_COLUMNS:
        return None
    levels = [
        last_level(one) for term in terms for one in (term.left, term.right) if one is not None
    ]
    dtype = np.result_type(*(level.pos.dtype for level in levels))
    run = fibre_unions(default_isa(), dtype.itemsize)
    first = terms[0].left
    work = _Work(
        run=run,
        terms=tuple(_marked(run, term, dtype, len(terms) == 1) for term in terms),
        counts=np.zeros(last_level(first).pos.size - 1, np.int64),
        columns=extents[wanted[-1]],
        dtype=dtype,
        spare=current().once("room of fibre unions", lambda: deque(maxlen=_MOST_ROOMS)),
    )
    parts = work.parts(threads)
    crd = np.concatenate(parts) if len(parts) != 1 else parts[0]
    place = last_place(first)
    above = tuple(expand(first.stored, first.level_extents, place)) if place else ()
    return Fibres(above=above, counts=work.counts, crd=crd)


def levels_of(fibres: Fibres, extents: Sequence[int], levels: Sequence[Level]) -> Stored:
    """The index arrays of levels that store the fibres; the last one is compressed.

    Of the type the fibres' coordinates have, that of the operands, where it is wide enough.
    """
    counts = fibres.counts
    stored: Stored = (None,) * (len(levels) - 1)
    if Level.COMPRESSED in levels[:-1] or counts.size != prod(extents[:-1]):
        is_some = counts > 0
        columns = [column[is_some] for column in fibres.above]
        stored, counts = compress(columns, counts[is_some], extents[:-1], levels[:-1])
    dtype = np.promote_types(index_type(extents, fibres.crd.size), fibres.crd.dtype)
    pos = np.zeros(counts.size + 1, dtype)
    np.cumsum(counts, out=pos[1:])
    return (*stored, Compressed(pos=pos, crd=fibres.crd.astype(dtype, copy=False)))


def pairs_of(
    run: FibreUnions, terms: Sequence[tuple[TermKind, Sequence[Array], Sequence[Array] | None]]
) -> Array:
    """Up to every row, how many coordinates the terms look at; levels begin with pos and crd."""
    rows = terms[0][1][0].size - 1
    total = np.zeros(rows + 1, np.int64)
    for kind, left, right in terms:
        if kind is TermKind.PRODUCT and right is not None:
            total += run.pairs(left[0], left[1], right[0])
            continue
        total += left[0]
    return total


def shares(pairs: Array, threads: int, most: int, shared: int) -> list[tuple[range, int]]:
    """Consecutive rows and their pairs, at most ``most`` pairs in a share; about as many in each.

    From ``shared`` pairs on there is a share for every thread.
    """
    total = int(pairs[-1])
    is_shared = threads > 1 and total >= shared
    step = max(1, min(most, -(-total // threads) if is_shared else most))
    cuts = np.searchsorted(pairs, np.arange(step, total, step))
    bounds = np.unique(np.concatenate([[0], cuts, [pairs.size - 1]])).tolist()
    return [(range(*rows), int(pairs[rows[1]] - pairs[rows[0]])) for rows in pairwise(bounds)]


def in_threads(tasks: Sequence[Task], threads: int, run: Callable[[Task], Made]) -> list[Made]:
    """``run`` of every task; this thread takes tasks as the others do."""
    workers = min(threads, len(tasks)) - 1
    if workers < 1:
        return [run(task) for task in tasks]
    made: dict[int, Made] = {}
    left = deque(enumerate(tasks))

    def take() -> None:
        while True:
            try:
                number, task = left.popleft()
            except IndexError:
                return
            made[number] = run(task)

    with ThreadPoolExecutor(workers) as pool:
        others = [pool.submit(take) for _ in range(workers)]
        take()
        for other in others:
            other.result()
    return [made[number] for number in range(len(tasks))]


def _bound(indices: tuple[str, ...], sparse: Sparse) -> tuple[str, ...]:
    """The indices of the levels down to the last compressed one."""
    fmt = sparse.format
    return tuple(indices[mode] for mode in fmt.mode_order[: fmt.sparse_prefix])


def last_place(sparse: Sparse) -> int:
    """The number of the last compressed level."""
    return sparse.format.sparse_prefix - 1


def last_level(sparse: Sparse) -> Compressed:
    level = sparse.stored[last_place(sparse)]
    assert level is not None
    return level


def _marked(run: FibreUnions, term: RowTerm, dtype: np.dtype[np.generic], alone: bool) -> Term:
    """The term's arrays, and which rows repeat the one before where that saves work."""
    one = _as_type(last_level(term.left), dtype)
    same = run.same_rows(*one) if alone and term.kind is TermKind.PRODUCT else _never(one)
    if term.right is None:
        return Term(term.kind, (*one, same), None)
    other = _as_type(last_level(term.right), dtype)
    if term.kind is TermKind.BOTH:
        return Term(term.kind, (*one, same), (*other, _never(other)))
    is_square = alone and last_level(term.right) is last_level(term.left)
    return Term(term.kind, (*one, same), (*other, same if is_square else run.same_rows(*other)))


def _never(level: tuple[Array, Array]) -> Array:
    return np.zeros(level[0].size, np.uint8)


def _as_type(level: Compressed, dtype: np.dtype[np.generic]) -> tuple[Array, Array]:
    return level.pos.astype(dtype, copy=False), level.crd.astype(dtype, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Room:
    """What one thread works in; kept, for new memory costs as much as the work."""

    marks: tuple[Array, Array]
    found: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """All rows of a sum; ``spare`` holds room that no thread uses."""

    run: FibreUnions
    terms: tuple[Term, ...]
    counts: Array
    columns: int
    dtype: np.dtype[np.generic]
    spare: deque[_Room]

    def parts(self, threads: int) -> list[Array]:
        """The columns of consecutive rows."""
        pairs = pairs_of(self.run, [(one.kind, one.left, one.right) for one in self.terms])
        tasks = shares(pairs, threads, _PAIRS, _SHARED)
        is_shared = int(pairs[-1]) >= _SHARED
        made = in_threads(tasks, threads if is_shared else 1, self._part)
        return made or [np.zeros(0, self.dtype)]

    def _part(self, task: tuple[range, int]) -> Array:
        rows, pairs = task
        most = min(pairs, len(rows) * self.columns) + ROOM
        room = self._room(most)
        count = self.run.unions(self.terms, rows, room.marks, self.counts, room.found)
        part = room.found[:count].copy()
        if most <= 2 * _PAIRS and self.columns <= _KEPT_COLUMNS:
            self.spare.append(room)
        return part

    def _room(self, most: int) -> _Room:
        marks = -(-self.columns // LINE) + LINE
        try:
            room = self.spare.pop()
        except IndexError:
            room = _Room(marks_for(self.columns), np.empty(0, self.dtype))
        if room.marks[1].size < marks:
            room = _Room(marks_for(self.columns), room.found)
        if room.found.size < most or room.found.dtype != self.dtype:
            room = _Room(room.marks, np.empty(max(most, min(_PAIRS, 2 * most)), self.dtype))
        return room
