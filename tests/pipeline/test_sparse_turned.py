"""Sums and products of operands stored in different orders, and what turning keeps."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import teir
from teir.arrays.sparse import Sparse
from teir.pipeline.sparse_turned import sorted_anew

Array = np.ndarray[Any, np.dtype[Any]]

scipy_sparse = pytest.importorskip("scipy.sparse")

RANDOM = np.random.default_rng(3)
LEFT = RANDOM.integers(-3, 4, (7, 9)) * (RANDOM.random((7, 9)) < 0.4)
RIGHT = RANDOM.integers(-3, 4, (7, 9)) * (RANDOM.random((7, 9)) < 0.4)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64", "complex128"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_turning_is_converting(dtype: str, order: tuple[int, int], width: type) -> None:
    coords = [column.astype(np.int64) for column in np.nonzero(LEFT)]
    stored = Sparse.from_coo(coords, LEFT[tuple(coords)].astype(dtype), LEFT.shape, "ds", order)
    level = stored.stored[1]
    assert level is not None
    parts: dict[int, tuple[Array, Array]] = {1: (level.pos.astype(width), level.crd.astype(width))}
    array = Sparse.from_levels(LEFT.shape, "ds", parts, stored.values, order)
    with mock.patch.object(Sparse, "converted", side_effect=AssertionError):
        made = sorted_anew(array, "ds", order[::-1])
    expected = array.converted("ds", order[::-1])
    assert made.format == expected.format
    assert made.is_frozen
    assert made.index_dtype == expected.index_dtype == width
    made.require_valid("made")
    np.testing.assert_array_equal(made.to_coo()[0], expected.to_coo()[0])
    np.testing.assert_array_equal(made.values, expected.values)


@pytest.mark.parametrize("levels", ["ss", "sd", "ds"])
def test_other_levels_are_sorted(levels: str) -> None:
    array = Sparse.from_scipy(scipy_sparse.csr_array(LEFT.astype(float)))
    made = sorted_anew(array, levels, (1, 0) if levels != "ds" else (0, 1))
    np.testing.assert_array_equal(made.to_dense(), LEFT)


@pytest.mark.parametrize("kinds", [("csr", "csc"), ("csc", "csr"), ("csc", "csc")])
@pytest.mark.parametrize("levels", ["ds", "ss", "ds:1,0"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A[i,j] = B[i,j] + C[i,j]", LEFT + RIGHT),
        ("A[i,j] = B[i,j] - C[i,j]", LEFT - RIGHT),
        ("A[i,j] = B[i,j] * C[i,j]", LEFT * RIGHT),
        ("A[i,k] = B[i,j] * C[k,j] + B[i,j] * B[k,j]", LEFT @ RIGHT.T + LEFT @ LEFT.T),
    ],
)
def test_operands_in_different_orders(
    kinds: tuple[str, str], levels: str, text: str, expected: Array
) -> None:
    arrays = zip((LEFT, RIGHT), kinds, strict=True)
    left, right = (scipy_sparse.csr_array(a.astype(float)).asformat(kind) for a, kind in arrays)
    for _ in range(2):
        got = teir.einsum(text, left, right, out_levels=levels)
        np.testing.assert_array_equal(got.to_dense(), expected)


def test_a_kept_copy_is_made_anew_when_the_values_change() -> None:
    left, right = (scipy_sparse.csr_array(one.astype(float)) for one in (LEFT, RIGHT))
    right = right.tocsc()
    text = "A[i,j] = B[i,j] + C[i,j]"
    for factor in (1, 2, 3):
        got = teir.einsum(text, left, right, out_levels="ds")
        np.testing.assert_array_equal(got.to_dense(), factor * (LEFT + RIGHT))
        for one in (left, right):
            one.data *= (factor + 1) / factor


def test_a_matrix_and_its_transposed() -> None:
    square = LEFT[:, :7].astype(float)
    matrix = scipy_sparse.csr_array(square)
    got = teir.einsum("A[i,j] = B[i,j] + C[j,i]", matrix, matrix, out_levels="ds")
    np.testing.assert_array_equal(got.to_dense(), square + square.T)


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("text", ["ij,kj->ik", "kj,ij->ki", "ij,jk->ik", "ji,jk->ik"])
def test_dense_products_sum_rows_or_columns_and_never_intersect(text: str, kind: str) -> None:
    random = np.random.default_rng(3)
    words = text.split("->")[0].split(",")
    extents = {"i": 6, "j": 7, "k": 5}
    arrays = [
        random.integers(-2, 3, (extents[w[0]], extents[w[1]]))
        * (random.random((extents[w[0]], extents[w[1]])) < 0.4)
        * 1.0
        for w in words
    ]
    given = [scipy_sparse.csr_array(one).asformat(kind) for one in arrays]
    plan = teir.plan(text, *given)
    np.testing.assert_array_equal(plan(*given), np.einsum(text, *arrays))
    summed = (set(words[0]) & set(words[1])).pop()
    loops = next(line for line in plan.explain().splitlines() if "schedule:" in line)
    order = loops.split(":")[1].replace("'", "").replace(" ", "").split(",")
    assert order.index(summed) < 2


@pytest.mark.parametrize("levels", [None, "ds", "ss", "sd", "ds:1,0"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A[i,j] = B[i,k] * C[i,j]", LEFT.sum(1)[:, None] * RIGHT),
        ("A[i,j] = C[i,j] * B[i,k]", LEFT * RIGHT.sum(1)[:, None]),
        ("A[i,j] = B[k,j] * C[i,j]", LEFT.sum(0)[None, :] * RIGHT),
        ("A[j,i] = B[i,k] * C[i,j]", (LEFT.sum(1)[:, None] * RIGHT).T),
    ],
)
@pytest.mark.parametrize("kinds", [("csr", "csr"), ("csc", "bsr"), ("csr", "csc")])
def test_matrices_that_share_an_index_of_the_result(
    text: str, expected: Array, levels: str | None, kinds: tuple[str, str]
) -> None:
    made = teir.einsum(
        text,
        scipy_sparse.csr_array(LEFT.astype(float)).asformat(kinds[0]),
        scipy_sparse.csr_array(RIGHT.astype(float)).asformat(kinds[1]),
        out_levels=levels,
    )
    dense = made.to_dense() if levels else made
    np.testing.assert_array_equal(dense, expected)
