"""Which two sparse factors of a product are multiplied first, into a sparse temporary.

One loop nest over all factors takes a step for every combination of their elements, and has to walk
all of them in one order. Three kinds of pairs go before it, each computed as a product of its own:

    out[i]    = B[i, j] * C[i, j]              alike        t0[i, j] = B[i, j] * C[i, j]
    out[i, k] = A[j, i] * w[j] * A[j, k]       scaled       t0[j, i] = A[j, i] * w[j]
    out[i, l] = R[i, j] * A[j, k] * P[k, l]    neighbours   t0[j, l] = A[j, k] * P[k, l]

Of neighbours those come first that make the fewest products (what a product of sparse matrices
costs: Gustavson, 1978), counted on the operands at hand; others may be taken in another order.
Matrices of blocks are neighbours as well (`teir.pipeline.sparse_block_pairs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from teir.arrays.levels import Format, Level, parse_format
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_storage import expand
from teir.backends.llvm.fibre_sums import NUMBERS
from teir.expr.index_notation import Access
from teir.pipeline.sparse_block_pairs import BLOCKED, block_neighbours
from teir.pipeline.sparse_factors import plain_levels
from teir.pipeline.sparse_operands import Array, Held
from teir.pipeline.sparse_patterns import store_alike
from teir.pipeline.sparse_problem import SparseProblem

_MOST_COUNTED = 1 << 26
"""Extent up to which elements are counted by coordinate."""
_LEAST_ALIKE = 1 << 14
"""Elements from which on a dense result is worth a temporary, which every call plans anew."""
_SHORTER = 16
"""How many times fewer elements one factor has from which on intersections gallop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two factors in their order, and the indices and levels of their product."""

    left: Access
    right: Access
    indices: tuple[str, ...]
    format: Format


def next_pair(
    factors: Sequence[Access], problem: SparseProblem, held: Mapping[str, Held]
) -> Pair | None:
    """The factors to multiply first; None where one program is to compute the product."""
    stored = [(one, array) for one in factors if (array := _stored(one, problem, held)) is not None]
    if len(stored) < 2:
        return None
    alike = _alike(factors, stored, problem)
    if alike is not None or not problem.has_sparse_result:
        return alike
    blocks = block_neighbours(factors, stored, problem)
    if blocks is not None:
        return Pair(left=blocks.left, right=blocks.right, indices=blocks.indices, format=BLOCKED)
    vectors = [one for one in factors if _is_vector(one, problem, held)]
    matrices = [pair for pair in stored if len(pair[0].indices) == 2]
    numbers = [one for one in factors if not one.indices]
    if len(matrices) < 2 or len(matrices) + len(vectors) + len(numbers) < len(factors):
        return None
    scaled = _scaled(factors, vectors, matrices)
    return scaled if scaled is not None else _neighbours(factors, matrices, problem)


def _stored(access: Access, problem: SparseProblem, held: Mapping[str, Held]) -> Sparse | None:
    """The levels of a sparse factor with every index once, along all of its extent."""
    array = plain_levels(access, held[access.tensor].array)
    extents = tuple(problem.extents[index] for index in access.indices)
    return array if array is not None and array.shape == extents else None


def _is_vector(access: Access, problem: SparseProblem, held: Mapping[str, Held]) -> bool:
    array = held[access.tensor].array
    if isinstance(array, Sparse) or len(access.indices) != 1:
        return False
    return bool(array.shape == (problem.extents[access.indices[0]],))


def _alike(
    factors: Sequence[Access], stored: Sequence[tuple[Access, Sparse]], problem: SparseProblem
) -> Pair | None:
    """Two factors of the same indices, not the last two of a sparse result with these."""
    if problem.computed_type not in NUMBERS:
        return None
    output = set(problem.assignment.output.indices)
    is_short = len([one for one in factors if one.indices]) == 2
    for (left, one), (right, other) in combinations(stored, 2):
        if set(left.indices) != set(right.indices):
            continue
        if problem.has_sparse_result and is_short and output == set(left.indices):
            continue
        if _are_rows(one) and _are_rows(other) and _is_worth(one, other, problem):
            return Pair(left=left, right=right, indices=left.indices, format=one.format)
    return None


def _are_rows(array: Sparse) -> bool:
    """True for matrices of which all rows are there: others are intersected by a program."""
    return array.format.levels == (Level.DENSE, Level.COMPRESSED)


def _is_worth(one: Sparse, other: Sparse, problem: SparseProblem) -> bool:
    """False where one program does as well: by galloping, or on values that lie alike."""
    few, many = sorted((one.nnz, other.nnz))
    if many > _SHORTER * few:
        return False
    return problem.has_sparse_result or (few + many >= _LEAST_ALIKE and not store_alike(one, other))


def _scaled(
    factors: Sequence[Access],
    vectors: Sequence[Access],
    matrices: Sequence[tuple[Access, Sparse]],
) -> Pair | None:
    """A dense vector and the smallest matrix that has its index."""
    for vector in vectors:
        (index,) = vector.indices
        reached = [pair for pair in matrices if index in pair[0].indices]
        if reached:
            access, array = min(reached, key=lambda pair: pair[1].nnz)
            left, right = sorted((access, vector), key=lambda one: _place(one, factors))
            return Pair(left=left, right=right, indices=access.indices, format=array.format)
    return None


def _place(access: Access, factors: Sequence[Access]) -> int:
    return next(place for place, one in enumerate(factors) if one is access)


def _neighbours(
    factors: Sequence[Access], matrices: Sequence[tuple[Access, Sparse]], problem: SparseProblem
) -> Pair | None:
    """Two of at least three matrices that share an index which nothing else has."""
    outputs = problem.assignment.output.indices
    if len(matrices) < 3 or len(outputs) != 2:
        return None
    found: list[tuple[int, Pair]] = []
    for (left, one), (right, other) in combinations(matrices, 2):
        shared = set(left.indices) & set(right.indices)
        if len(shared) != 1:
            continue
        (index,) = shared
        count = sum(index in factor.indices for factor in factors)
        if count != 2 or index in outputs or problem.extents[index] > _MOST_COUNTED:
            continue
        ends = _other(left, index), _other(right, index)
        pair = _product_of(left, right, ends, (one, other), problem)
        products = np.dot(_elements(left, one, index), _elements(right, other, index))
        found.append((int(products), pair))
    return min(found, key=lambda each: each[0])[1] if found else None


def _other(access: Access, index: str) -> str:
    first, second = access.indices
    return second if first == index else first


def _product_of(
    left: Access,
    right: Access,
    ends: tuple[str, str],
    arrays: tuple[Sparse, Sparse],
    problem: SparseProblem,
) -> Pair:
    """Rows are along the result's outer index where one end is that, or the other its inner one."""
    outer, inner = (
        problem.assignment.output.indices[mode] for mode in problem.output_format.mode_order
    )
    is_turned = ends[1] == outer or (ends[0] == inner and ends[1] != inner)
    indices = ends[::-1] if is_turned else ends
    rows = arrays[1] if is_turned else arrays[0]
    is_compressed = Level.DENSE not in rows.format.levels
    fmt = parse_format("ss" if is_compressed else "ds")
    return Pair(left=left, right=right, indices=indices, format=fmt)


def _elements(access: Access, stored: Sparse, index: str) -> Array:
    """The elements at every coordinate along ``index``."""
    axis = access.indices.index(index)
    level = stored.format.mode_order.index(axis)
    outer, inner = stored.stored
    if level == 0 and outer is None and inner is not None:
        return np.diff(inner.pos)
    if level == 1 and inner is not None:
        return np.bincount(inner.crd, minlength=stored.shape[axis])
    coordinates = expand(stored.stored, stored.level_extents)[level]
    return np.bincount(coordinates, minlength=stored.shape[axis])
