"""Sums of element-wise products of tensors whose results store what theirs do, as vectors.

    C[i,j,k] = A[i,j,k] + B[i,j,k] - D[i,j,k]      C[i,j,k] = A[i,j,k] * B[i,j,k]      in "sss"

All levels of a tensor are one (`teir.pipeline.sparse_joined`): coordinates are numbers in
increasing order, which `teir.backends.llvm.fibre_lanes_ir` merges a vector at a time, two tensors
at once. The levels of the result are taken out of the numbers again. Terms are added in their
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import prod

import numpy as np

from teir.arrays.levels import Format
from teir.arrays.sparse import Sparse, owned
from teir.backends.llvm.fibre_sums import (
    NUMBERS,
    FibreSums,
    SumShare,
    SumTerm,
    fibre_sums,
    sum_room,
    sum_term,
)
from teir.backends.llvm.fibre_unions import ROOM, TermKind, squeeze_of
from teir.backends.llvm.fibre_unions_ir import Squeeze
from teir.expr.index_notation import Number
from teir.pipeline.executable import default_isa
from teir.pipeline.row_patterns import Fibres, last_level, levels_of
from teir.pipeline.sparse_joined import joined_levels
from teir.pipeline.sparse_numbers import in_type, scale_of
from teir.pipeline.sparse_operands import Array, kept
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_room import Room
from teir.pipeline.sparse_terms import Term

_MOST_COORDINATES = 1 << 62
_MOST_SPARE = 4
"""How many times its elements a result may hold memory for."""


Vector = tuple[Array, Array, Array]
"""pos, crd and values of one level with one fibre."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorTerm:
    """The product of vectors and a number."""

    vectors: tuple[Vector, ...]
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorSum:
    """Products of vectors, summed; ``index_type`` is that of the operands."""

    terms: tuple[VectorTerm, ...]
    run: FibreSums
    index_type: np.dtype[np.generic]

    def result(self, problem: SparseProblem) -> Sparse:
        """The result of the problem that these are the products of."""
        _, coordinates, values = self._sum()
        if values.base is not None and _MOST_SPARE * values.size < values.base.size:
            values = values.copy()
        fmt = problem.output_format
        sizes = [problem.shape[mode] for mode in fmt.mode_order]
        fibres = _fibres(coordinates, sizes, self.index_type)
        levels = levels_of(fibres, sizes, fmt.levels)
        values = in_type(values, problem.result_type.numpy_dtype())
        return owned(problem.shape, fmt, levels, values)

    def _sum(self) -> Vector:
        (total, scale), *rest = map(self._multiplied, self.terms)
        for vector, factor in rest:
            left = sum_term(TermKind.FIBRE, total, None, scale)
            right = sum_term(TermKind.FIBRE, vector, None, factor)
            total, scale = self._computed((left, right), total[1].size + vector[1].size), 1.0
        return total

    def _multiplied(self, term: VectorTerm) -> tuple[Vector, float]:
        """A vector, and the number that is still to be multiplied with it."""
        (left, *rest), scale = term.vectors, term.scale
        for right in rest:
            both = sum_term(TermKind.BOTH, left, right, scale)
            left, scale = self._computed((both,), min(left[1].size, right[1].size)), 1.0
        return left, scale

    def _computed(self, terms: Sequence[SumTerm], most: int) -> Vector:
        """One product, or the sum of two vectors; of at most ``most`` elements."""
        pos, crd, numbers = terms[0].left
        coordinates = np.empty(most + ROOM, crd.dtype)
        values = np.empty(most + ROOM, numbers.dtype)
        share = SumShare(range(1), coordinates, values)
        rooms = [sum_room(1, numbers.dtype)]
        (count,) = self.run.sums(terms, [share], rooms, np.empty(1, np.int64))
        return np.array([0, count], pos.dtype), coordinates[:count], values[:count]


def vector_sum(problem: SparseProblem, terms: Sequence[tuple[Term, Number]]) -> VectorSum | None:
    """The sum of terms, each with its coefficient; None where they are no such vectors."""
    fmt, data_type = problem.output_format, problem.computed_type
    if fmt.sparse_prefix != len(fmt.levels) or len(fmt.levels) < 2 or data_type not in NUMBERS:
        return None
    if squeeze_of(default_isa()) is Squeeze.NOTHING or prod(problem.shape) > _MOST_COORDINATES:
        return None
    wanted = tuple(problem.assignment.output.indices[mode] for mode in fmt.mode_order)
    stored = [_stored(term, wanted, problem) for term, _ in terms]
    if not all(stored) or sum(map(len, stored)) < 2:
        return None
    arrays = [array for one in stored for array in one]
    room = terms[0][0].factors[0].held.room
    joined = [_joined(array, room) for array in arrays]
    width = np.result_type(*(last_level(one).crd.dtype for one in joined))
    numbers = data_type.numpy_dtype()
    levels = iter([_level(one, width, numbers) for one in joined])
    return VectorSum(
        terms=tuple(
            VectorTerm(tuple(islice(levels, len(one))), _scale(term, coefficient, numbers))
            for one, (term, coefficient) in zip(stored, terms, strict=True)
        ),
        run=fibre_sums(default_isa(), width.itemsize, data_type),
        index_type=np.result_type(*(array.index_dtype for array in arrays)),
    )


def _stored(term: Term, wanted: tuple[str, ...], problem: SparseProblem) -> tuple[Sparse, ...]:
    """The sparse factors where all are over ``wanted`` in this order, beside one number at most."""
    factors = [one for one in term.factors if one.stored is not None]
    others = [one for one in term.factors if one.stored is None]
    if len(others) > 1 or any(one.access.indices for one in others):
        return ()
    if any(one.held.array.dtype.kind == "c" for one in others):
        return ()
    found = []
    for one in factors:
        array = one.stored
        assert array is not None
        fmt: Format = array.format
        order = tuple(one.access.indices[mode] for mode in fmt.mode_order)
        is_whole = fmt.sparse_prefix == array.ndim and array.blocks is None
        extents = tuple(problem.extents[index] for index in order)
        if order != wanted or not is_whole or tuple(array.level_extents) != extents:
            return ()
        found.append(array)
    return tuple(found)


def _joined(array: Sparse, room: Room | None) -> Sparse:
    """All levels as one, kept with the array. Raises TeirError (TEIR643)."""
    sizes = (array.ndim,)
    return kept(array, f"joined {sizes}", "levels", partial(joined_levels, array, sizes), room)[0]


def _level(
    array: Sparse, width: np.dtype[np.generic], numbers: np.dtype[np.generic]
) -> tuple[Array, Array, Array]:
    level = last_level(array)
    pos, crd = (part.astype(width, copy=False) for part in (level.pos, level.crd))
    return pos, crd, in_type(array.values, numbers)


def _scale(term: Term, coefficient: Number, numbers: np.dtype[np.generic]) -> float:
    given = [one.held.array for one in term.factors if one.stored is None]
    return scale_of(given[0] if given else 1.0, coefficient, numbers)


def _fibres(coordinates: Array, sizes: Sequence[int], dtype: np.dtype[np.generic]) -> Fibres:
    """The fibres of the last level, with coordinates of the levels above where they store some."""
    rows = coordinates // sizes[-1]
    crd = coordinates - rows * sizes[-1]
    is_first = np.ones(rows.size, bool)
    np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
    first = np.flatnonzero(is_first)
    left = rows[first]
    above: list[Array] = []
    for size in reversed(sizes[:-1]):
        outer = left // size
        above.append(left - outer * size)
        left = outer
    counts = np.diff(np.append(first, rows.size))
    return Fibres(above=tuple(above[::-1]), counts=counts, crd=crd.astype(dtype, copy=False))
