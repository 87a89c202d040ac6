"""Sparse results whose numbers are computed with their pattern, row by row in compiled code.

    A[i, k] = B[i, j] C[j, k]      A[i, k] = B[i, k] C[i, k]      A[i, k] = B[i, k] - C[i, k]

Where every factor is sparse and rows are short, finding the columns of a row costs as much as
computing it: `teir.backends.llvm.fibre_sums` does both at once. Where rows are long, or repeat the
pattern of the row before, the pattern is assembled first, once for equal rows, and a program
computes the numbers.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from teir.arrays.levels import Format, Level
from teir.arrays.numpy_fields import address_of
from teir.arrays.sparse import Sparse, owned
from teir.arrays.sparse_storage import Compressed, expand, index_type
from teir.backends.llvm.fibre_sums import (
    NUMBERS,
    FibreSums,
    SumRoom,
    SumShare,
    SumTerm,
    fibre_sums,
    sum_room,
    sum_term,
)
from teir.backends.llvm.fibre_sums_ir import SPARE
from teir.backends.llvm.fibre_unions import ROOM, TermKind, fibre_unions, squeeze_of
from teir.backends.llvm.fibre_unions_ir import Squeeze
from teir.dtypes import DataType
from teir.expr.index_notation import Number
from teir.pipeline.executable import default_isa
from teir.pipeline.row_patterns import (
    Fibres,
    RowTerm,
    last_level,
    last_place,
    levels_of,
    pairs_of,
    row_terms,
    shares,
)
from teir.pipeline.sparse_numbers import in_type, scale_of
from teir.pipeline.sparse_operands import Array
from teir.pipeline.sparse_terms import Term
from teir.runtime.runtime import current

_MOST_COLUMNS = 1 << 22
"""Columns of a dense row that a thread holds."""
_MOST_PAIRS = 200
"""Pairs per row of a product, on average, up to which one pass is the faster one."""
_MOST_AT_ONCE = 1 << 24
"""Pairs of a share at most."""
_SHARED = 1 << 16
"""Pairs from which on threads share the rows."""
_MOST_ROOMS = 8
_KEPT_COLUMNS = 1 << 20
"""Columns of the rooms that are kept for the next call."""
_MOST_SPARE = 4
"""How many times the elements of a part it may hold memory for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowSum:
    """A sum of products that is computed in one pass, on the arrays of its operands."""

    rows: tuple[RowTerm, ...]
    terms: tuple[SumTerm, ...]
    numbers: tuple[tuple[str | None, Number], ...]
    """The tensor of the number that each term is multiplied by, and its coefficient."""
    pairs: Array | None
    """Up to every row, how many elements are looked at; None where it is not asked for."""
    wanted: tuple[str, ...]
    width: np.dtype[Any]
    run: FibreSums

    @property
    def is_direct(self) -> bool:
        """True where all arrays are those of the operands, none is a copy."""
        return all(
            pos is last_level(one).pos and crd is last_level(one).crd and values is one.values
            for row, term in zip(self.rows, self.terms, strict=True)
            for one, (pos, crd, values) in zip(_operands(row), _sides(term), strict=True)
        )

    def again(self, given: Mapping[str, Array]) -> RowSum:
        """On what the arrays hold now, with the numbers given now where they are given."""
        terms = self.terms
        if given:
            terms = tuple(
                term
                if name is None or name not in given
                else replace(term, scale=scale_of(given[name], factor, term.left[2].dtype))
                for (name, factor), term in zip(self.numbers, terms, strict=True)
            )
        elif self.pairs is None:
            return self
        return replace(self, terms=terms, pairs=None)

    def result(
        self,
        output: tuple[str, ...],
        fmt: Format,
        extents: Mapping[str, int],
        data_type: DataType,
        threads: int,
    ) -> Sparse:
        """The sum with indices ``output`` and levels ``fmt``."""
        first = self.rows[0].left
        work = _Work(
            run=self.run,
            terms=self.terms,
            ends=np.empty(last_level(first).pos.size - 1, np.int64),
            columns=extents[self.wanted[-1]],
            width=self.width,
            numbers=data_type.numpy_dtype(),
            spare=current().once("room of fibre sums", _rooms),
        )
        tasks = self._shares(work.ends.size, threads)
        crd, values = work.found(tasks, threads)
        shape = tuple(extents[index] for index in output)
        above = fmt.levels[:-1]
        sizes = [extents[index] for index in self.wanted]
        if Level.COMPRESSED not in above and work.ends.size == prod(sizes[:-1]):
            dtype = np.promote_types(index_type(sizes, crd.size), crd.dtype)
            pos = work.pos(tasks, dtype)
            level = Compressed(pos=pos, crd=crd.astype(dtype, copy=False))
            return owned(shape, fmt, (*(None for _ in above), level), values)
        place = last_place(first)
        columns = tuple(expand(first.stored, first.level_extents, place)) if place else ()
        counts = np.diff(work.pos(tasks, np.dtype(np.int64)))
        fibres = Fibres(above=columns, counts=counts, crd=crd)
        return owned(shape, fmt, levels_of(fibres, sizes, fmt.levels), values)

    @property
    def _is_by_lanes(self) -> bool:
        """True where rows of two fibres are merged a vector at a time: as fast as memory is moved.

        Threads would have to move what they wrote to where the shares before end.
        """
        kinds = [term.kind for term in self.terms]
        merges = kinds in ([TermKind.BOTH], [TermKind.FIBRE, TermKind.FIBRE])
        return merges and squeeze_of(default_isa()) is not Squeeze.NOTHING

    def _shares(self, rows: int, threads: int) -> list[tuple[range, int]]:
        """Consecutive rows and how many elements are looked at for them."""
        has_product = any(term.kind is TermKind.PRODUCT for term in self.terms)
        if self.pairs is None and not has_product:
            total = sum(term.left[1].size for term in self.terms)
            is_alone = threads == 1 or total < _SHARED or self._is_by_lanes
            if total <= _MOST_AT_ONCE and is_alone:
                return [(range(rows), total)] if rows else []
        pairs = _pairs_of(self.terms, self.width) if self.pairs is None else self.pairs
        return shares(pairs, threads, _MOST_AT_ONCE, _SHARED)


def _sides(term: SumTerm) -> tuple[tuple[Array, Array, Array], ...]:
    return (term.left,) if term.right is None else (term.left, term.right)


def _rooms() -> deque[SumRoom]:
    return deque(maxlen=_MOST_ROOMS)


def _pairs_of(terms: Sequence[SumTerm], width: np.dtype[Any]) -> Array:
    run = fibre_unions(default_isa(), width.itemsize)
    return pairs_of(run, [(term.kind, term.left, term.right) for term in terms])


def row_sum(
    terms: Sequence[tuple[Term, Number]],
    output: tuple[str, ...],
    fmt: Format,
    extents: Mapping[str, int],
    data_type: DataType,
) -> RowSum | None:
    """The sum of products, each given with its coefficient; None where two passes are due.

    ``output`` are the indices of the result, ``fmt`` its levels.
    """
    wanted = tuple(output[mode] for mode in fmt.mode_order)
    rows = _rows_of(terms, wanted, fmt)
    if rows is None or data_type not in NUMBERS or extents[wanted[-1]] > _MOST_COLUMNS:
        return None
    levels = [last_level(one) for term in rows for one in _operands(term)]
    width = np.result_type(*(level.pos.dtype for level in levels))
    numbers = data_type.numpy_dtype()
    made = tuple(
        _summed(row, term, coefficient, width, numbers)
        for row, (term, coefficient) in zip(rows, terms, strict=True)
    )
    pairs = None
    if any(row.kind is TermKind.PRODUCT for row in rows):
        pairs = _pairs_of(made, width)
        if pairs[-1] > _MOST_PAIRS * (pairs.size - 1):
            return None
    return RowSum(
        rows=rows,
        terms=made,
        numbers=tuple((_number_of(term), factor) for term, factor in terms),
        pairs=pairs,
        wanted=wanted,
        width=width,
        run=fibre_sums(default_isa(), width.itemsize, data_type),
    )


def _rows_of(
    terms: Sequence[tuple[Term, Number]], wanted: tuple[str, ...], fmt: Format
) -> tuple[RowTerm, ...] | None:
    """The terms by rows; None where one is none, has an array as a factor, or dense levels."""
    if fmt.sparse_prefix != len(wanted) or not terms:
        return None
    products = []
    for term, _ in terms:
        factors = []
        for factor in term.factors:
            stored = factor.stored
            if stored is not None and stored.format.sparse_prefix == stored.ndim:
                factors.append((factor.access.indices, stored))
            elif factor.access.indices or factor.held.array.dtype.kind == "c":
                return None
        products.append(factors)
    rows = row_terms(products, wanted)
    if rows is None:
        return None
    are_scaled = [
        _is_scaled_first(term, row.kind) for row, (term, _) in zip(rows, terms, strict=True)
    ]
    return rows if all(are_scaled) else None


def _is_scaled_first(term: Term, kind: TermKind) -> bool:
    """True for at most one number, multiplied with before the last sparse factor is.

    Programs multiply a product of matrices with the last one last; other factors in their order.
    """
    numbers = [place for place, one in enumerate(term.factors) if one.stored is None]
    if not numbers:
        return True
    last = max(place for place, one in enumerate(term.factors) if one.stored is not None)
    return len(numbers) == 1 and (kind is not TermKind.BOTH or numbers[0] < last)


def _operands(term: RowTerm) -> tuple[Sparse, ...]:
    return (term.left,) if term.right is None else (term.left, term.right)


def _number_of(term: Term) -> str | None:
    """The tensor that is a number; None where the term has none."""
    return next((one.held.name for one in term.factors if one.stored is None), None)


def _summed(
    row: RowTerm, term: Term, coefficient: Number, width: np.dtype[Any], numbers: np.dtype[Any]
) -> SumTerm:
    arrays = []
    for one in _operands(row):
        level = last_level(one)
        pos, crd = (array.astype(width, copy=False) for array in (level.pos, level.crd))
        arrays.append((pos, crd, in_type(one.values, numbers)))
    right = arrays[1] if len(arrays) > 1 else None
    made = sum_term(row.kind, arrays[0], right, coefficient.real)
    found = [one.held.array for one in term.factors if one.stored is None]
    return replace(made, scale=scale_of(found[0], coefficient, numbers)) if found else made


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """All rows of a sum; ``spare`` holds room that nobody uses."""

    run: FibreSums
    terms: tuple[SumTerm, ...]
    ends: Array
    """Up to every row of a share, how many columns its rows reach."""
    columns: int
    width: np.dtype[Any]
    numbers: np.dtype[Any]
    spare: deque[SumRoom]

    def found(self, tasks: Sequence[tuple[range, int]], threads: int) -> tuple[Array, Array]:
        """Columns and values of all rows, given in shares with their pairs."""
        most = [min(pairs, len(rows) * self.columns) + ROOM for rows, pairs in tasks]
        places = list(accumulate(most, initial=0))
        arrays = np.empty(places[-1], self.width), np.empty(places[-1], self.numbers)
        shares = [
            SumShare(rows, arrays[0][start:end], arrays[1][start:end])
            for (rows, _), (start, end) in zip(tasks, pairwise(places), strict=True)
        ]
        rooms = [self._room() for _ in range(min(threads, len(tasks)))]
        counts = self.run.sums(self.terms, shares, rooms, self.ends)
        if self.columns <= _KEPT_COLUMNS:
            self.spare.extend(rooms)
        for array in arrays:
            _close_up(array, places, counts)
        count = sum(counts)
        crd, values = (array[:count] for array in arrays)
        # Memory that nothing was written to costs nothing, as long as there is not much of it.
        is_full = _MOST_SPARE * count >= places[-1]
        return (crd, values) if is_full else (crd.copy(), values.copy())

    def pos(self, tasks: Sequence[tuple[range, int]], dtype: np.dtype[Any]) -> Array:
        """Where the columns of every row begin, and where the last ones end."""
        pos = np.zeros(self.ends.size + 1, dtype)
        before = 0
        for rows, _ in tasks:
            part = pos[rows.start + 1 : rows.stop + 1]
            np.add(self.ends[rows.start : rows.stop], before, out=part, casting="unsafe")
            before = int(part[-1])
        return pos

    def _room(self) -> SumRoom:
        try:
            room = self.spare.pop()
        except IndexError:
            return sum_room(self.columns, self.numbers)
        fits = room.dense.size == self.columns + SPARE and room.dense.dtype == self.numbers
        return room if fits else sum_room(self.columns, self.numbers)


def _close_up(array: Array, places: Sequence[int], counts: Sequence[int]) -> None:
    """Move what begins at every place to behind what is before it."""
    address, width = address_of(array), array.itemsize
    end = 0
    for place, count in zip(places, counts, strict=False):
        if place != end:
            ctypes.memmove(address + end * width, address + place * width, count * width)
        end += count
