"""Products, chains and sums of blocked matrices, whose results have blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.pipeline.sparse_plan import SparsePlan

scipy_sparse = pytest.importorskip("scipy.sparse")


def blocked(rows: int, columns: int, blocks: tuple[int, int], seed: int) -> Any:
    """A matrix of SciPy with a third of its blocks."""
    draw = np.random.default_rng(seed)
    pattern = scipy_sparse.csr_array((draw.random((rows, columns)) < 0.35).astype(float))
    data = draw.integers(-3, 4, (pattern.nnz, *blocks)).astype(float)
    shape = (rows * blocks[0], columns * blocks[1])
    return scipy_sparse.bsr_array((data, pattern.indices, pattern.indptr), shape=shape)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_product_of_blocked_matrices_has_blocks(is_frozen: bool) -> None:
    left, right = blocked(6, 5, (2, 3), 1), blocked(5, 8, (3, 4), 2)
    one, other = (
        teir.Sparse.from_scipy(matrix, frozen=is_frozen).split_blocks() for matrix in (left, right)
    )
    for _ in range(2):
        made = teir.einsum("ijab,jkbc->ikac", one, other, out_levels="dsdd").join_blocks()
        assert made.blocks == (2, 4)
        result = made.to_scipy()
        assert result.format == "bsr"
        np.testing.assert_array_equal(result.toarray(), (left @ right).toarray())


@pytest.mark.parametrize("columns", [3, 30])
def test_chains_of_blocked_matrices_are_multiplied_two_at_a_time(columns: int) -> None:
    """The pair with fewer products first."""
    shapes = [(6, 5, (2, 3)), (5, 8, (3, 4)), (8, columns, (4, 2))]
    matrices = [blocked(*shape, seed) for seed, shape in enumerate(shapes)]
    tensors = [teir.Sparse.from_scipy(matrix).split_blocks() for matrix in matrices]
    text = "ijab,jkbc,klcd->ilad"
    plan = teir.plan(text, *tensors, out_levels="dsdd")
    assert isinstance(plan, SparsePlan)
    first = "in1[j,k,b,c] * in2[k,l,c,d]" if columns == 3 else "in0[i,j,a,b] * in1[j,k,b,c]"
    assert [first in outline.text for outline in plan.outlines] == [True, False]
    expected = (matrices[0] @ matrices[1] @ matrices[2]).toarray()
    for made in (plan(*tensors), teir.einsum(text, *tensors, out_levels="dsdd")):
        np.testing.assert_array_equal(made.join_blocks().to_scipy().toarray(), expected)


def test_a_sum_of_blocked_matrices_has_blocks() -> None:
    left, right = blocked(6, 5, (2, 2), 1), blocked(6, 5, (2, 2), 2)
    one, other = (teir.Sparse.from_scipy(matrix).split_blocks() for matrix in (left, right))
    text = "C[i,j,a,b] = 2 * A[i,j,a,b] - B[i,j,a,b]"
    made = teir.einsum(text, one, other, out_levels="dsdd").join_blocks()
    np.testing.assert_array_equal(made.to_scipy().toarray(), (2 * left - right).toarray())
