"""Indices of extent 1 that only dense operands have are left out of sparse products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir

scipy_sparse = pytest.importorskip("scipy.sparse")
DRAW = np.random.default_rng(5)
MATRIX = scipy_sparse.random_array((30, 20), density=0.2, format="csr", rng=5)
DENSE = MATRIX.toarray()
COLUMN = DRAW.standard_normal((20, 1))
ROWS = DRAW.standard_normal((30, 1))
NUMBER = DRAW.standard_normal((1, 1))


@pytest.mark.parametrize(
    ("text", "operands", "expected"),
    [
        ("ij,jk->ik", (COLUMN,), DENSE @ COLUMN),
        ("ij,jk->ki", (COLUMN,), (DENSE @ COLUMN).T),
        ("ij,kj->ik", (COLUMN.T,), DENSE @ COLUMN),
        ("ij,jk->i", (COLUMN,), (DENSE @ COLUMN)[:, 0]),
        ("ij,jk,kl->il", (COLUMN, NUMBER), DENSE @ COLUMN @ NUMBER),
        ("ij,jk,kl->il", (COLUMN, DRAW.standard_normal((1, 4))), None),
        ("ij,k->ik", (NUMBER[0],), DENSE.sum(1)[:, None] * NUMBER),
        ("A[i,k] = 2 * B[i,j] * C[j,k] - D[i,k]", (COLUMN, ROWS), 2 * DENSE @ COLUMN - ROWS),
    ],
)
def test_results_keep_their_shape(text: str, operands: tuple[Any, ...], expected: Any) -> None:
    if expected is None:
        expected = np.einsum(text, DENSE, *operands)
    result = teir.einsum(text, MATRIX, *operands)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, atol=1e-12)
    out = np.full(expected.shape, np.nan)
    plan = teir.plan(text, MATRIX, *operands)
    for _ in range(3):
        assert plan(MATRIX, *operands, out=out) is out
        np.testing.assert_allclose(out, expected, atol=1e-12)


def test_a_column_is_multiplied_as_a_vector() -> None:
    def schedule(plan: Any) -> str:
        (line,) = (one for one in plan.explain().splitlines() if "schedule:" in one)
        return str(line)

    as_column = teir.plan("ij,jk->ik", MATRIX, COLUMN)
    assert schedule(as_column) == schedule(teir.plan("ij,j->i", MATRIX, COLUMN[:, 0]))


@pytest.mark.parametrize("levels", ["ds", "dd"])
def test_sparse_results_keep_their_levels(levels: str) -> None:
    result = teir.einsum("ij,jk->ik", MATRIX, COLUMN, out_levels=levels)
    np.testing.assert_allclose(result.to_dense(), DENSE @ COLUMN, atol=1e-12)
    sampled = teir.einsum(
        "A[i,j] = B[i,j] * C[i,k] * D[j,k]", MATRIX, ROWS, COLUMN, out_levels="ds"
    )
    np.testing.assert_allclose(sampled.to_dense(), DENSE * (ROWS @ COLUMN.T), atol=1e-12)
