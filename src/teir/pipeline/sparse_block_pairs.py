"""Which two matrices of blocks of a longer product are multiplied first.

    out[i,l,a,d] = R[i,j,a,b] * A[j,k,b,c] * P[k,l,c,d]   ->   t0[j,l,b,d] = A[j,k,b,c] * P[k,l,c,d]

As of other matrices (`teir.pipeline.sparse_pairs`) those come first that make the fewest products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod

import numpy as np

from teir.arrays.levels import parse_format
from teir.arrays.sparse import Sparse
from teir.expr.index_notation import Access
from teir.pipeline.sparse_problem import SparseProblem

BLOCKED = parse_format("dsdd")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two factors, the indices of their product, and the multiplications it takes."""

    left: Access
    right: Access
    indices: tuple[str, ...]
    products: int


def block_neighbours(
    factors: Sequence[Access], stored: Sequence[tuple[Access, Sparse]], problem: SparseProblem
) -> Neighbours | None:
    """None where not all factors, three at least, are matrices of blocks and the result is one."""
    is_chain = len(factors) == len(stored) > 2 and problem.output_format == BLOCKED
    if not is_chain or any(array.format != BLOCKED for _, array in stored):
        return None
    found = [
        _neighbours(left, right, problem)
        for left, right in permutations(stored, 2)
        if _meet(left[0], right[0], factors, problem.assignment.output)
    ]
    return min(found, key=lambda one: one.products) if found else None


def _meet(left: Access, right: Access, factors: Sequence[Access], output: Access) -> bool:
    """True where columns of one are rows of the other, inside blocks too, and nothing else's."""
    column, inner = left.indices[1::2]
    if right.indices[::2] != (column, inner) or len({*left.indices, *right.indices}) != 6:
        return False
    users = [sum(index in one.indices for one in factors) for index in (column, inner)]
    return users == [2, 2] and not {column, inner} & {*output.indices}


def _neighbours(
    left: tuple[Access, Sparse], right: tuple[Access, Sparse], problem: SparseProblem
) -> Neighbours:
    (one, first), (other, second) = left, right
    row, column, above, _ = one.indices
    _, last, inner, below = other.indices
    columns, rows = first.stored[1], second.stored[1]
    assert columns is not None
    assert rows is not None
    counts = np.bincount(columns.crd, minlength=problem.extents[column])
    products = int(np.dot(counts, np.diff(rows.pos)))
    products *= prod(problem.extents[index] for index in (above, inner, below))
    return Neighbours(one, other, (row, last, above, below), products)
