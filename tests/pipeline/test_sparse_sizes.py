"""Sparse products beyond every program: refused where the tensor is, not in a program's words."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from teir.arrays.sparse import Sparse
from teir.errors import TeirError

LAST = 2**59 - 2
"""The largest extent whose bounds, of 8 bytes each, have addresses."""


def matrix(rows: int, dtype: str = "float64") -> Sparse:
    return Sparse.from_coo([[0, 1], [0, 1]], np.array([1, 2], dtype), (rows, 2), "ss")


def test_the_largest_extents_are_computed_with() -> None:
    assert teir.einsum("ij,j->", matrix(LAST), np.ones(2)) == 3
    assert teir.einsum("ij,j->", matrix(2**58 - 2, "complex128"), np.ones(2)) == 3


@pytest.mark.parametrize("rows", [LAST + 1, 2**61, 2**62 - 1])
def test_larger_extents_are_refused_at_their_tensor(rows: int) -> None:
    given = matrix(rows)
    with pytest.raises(TeirError, match=f"TEIR679 at in0: .*found extent {rows} of 'i'"):
        teir.einsum("ij,j->", given, np.ones(2))
    with pytest.raises(TeirError, match=f"TEIR679 at B: .*found extent {rows} of 'i'"):
        teir.einsum("y = x[j] * B[i,j]", np.ones(2), given)
    with pytest.raises(TeirError, match=f"TEIR679 at B: .*found extent {rows} of 'i'"):
        teir.plan("y = x[j] * B[i,j]", (2,), given)


def test_extents_of_a_result_are_refused_at_it() -> None:
    vector = Sparse.from_coo([[0, 1]], [1.0, 2.0], (2**60,))
    assert teir.einsum("i,i->", vector, vector) == 5
    with pytest.raises(TeirError, match="TEIR679 at out:"):
        teir.einsum("i,i->i", vector, vector, out_levels="s")


def test_more_indices_than_loops_are_refused() -> None:
    rank = 257
    names = ",".join(f"i{number}" for number in range(rank))
    coords, shape = [[1]] * rank, (2,) * rank
    given = Sparse.from_coo(coords, [1.0], shape, "s" * rank)
    with pytest.raises(TeirError, match="TEIR679 at y: expected at most 256 indices, found 257"):
        teir.einsum(f"y[{names}] = A[{names}]", given, out_levels="s" * rank)
