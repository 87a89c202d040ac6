"""Sums over three sparse matrices in a ring: against the dense meaning, in every order."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest

import teir
from teir.pipeline.sparse_rings import Ring

scipy_sparse = pytest.importorskip("scipy.sparse")

Array = np.ndarray[Any, np.dtype[Any]]
TEXTS = ["ij,jk,ik->", "ij,jk,ki->", "ij,jk,ik->i", "ij,kj,ik->", "ji,jk,ki->", "ij,jk,ik->k"]


def drawn(rows: int, columns: int, seed: int, density: float = 0.3) -> Array:
    random = np.random.default_rng(seed)
    numbers = random.integers(-3, 4, (rows, columns)) * (random.random((rows, columns)) < density)
    return np.asarray(numbers, float)


def shaped(text: str, extents: dict[str, int]) -> list[Array]:
    words = text.split("->")[0].split(",")
    return [drawn(extents[w[0]], extents[w[1]], seed) for seed, w in enumerate(words)]


def sums_found(call: Any) -> tuple[Any, int]:
    """What a call gives, and how often rows of a ring gave it."""
    found = []
    own = Ring.sums

    def sums(ring: Ring, threads: int) -> Array | None:
        made = own(ring, threads)
        found.append(made is not None)
        return made

    with mock.patch.object(Ring, "sums", sums):
        return call(), sum(found)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kinds", ["csr csr csr", "csc csr csr", "csr csc csc", "coo csr csc"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rings_in_every_order(text: str, kinds: str, dtype: str) -> None:
    arrays = [one.astype(dtype) for one in shaped(text, {"i": 13, "j": 17, "k": 11})]
    given = [
        scipy_sparse.csr_array(one).asformat(kind)
        for one, kind in zip(arrays, kinds.split(), strict=True)
    ]
    plan = teir.plan(text, *given)
    for call in (partial(teir.einsum, text), partial(teir.einsum, text), plan):
        got = call(*given)
        np.testing.assert_array_equal(got, np.einsum(text, *arrays))
        assert np.asarray(got).dtype == dtype


@pytest.mark.parametrize("text", ["ij,jk,ik->", "ij,jk,ki->", "ij,jk,ik->i"])
def test_a_matrix_with_itself_goes_by_rows(text: str) -> None:
    matrix = drawn(20, 20, 5)
    stored = scipy_sparse.csr_array(matrix)
    for threads in (1, 2, 1):
        got, count = sums_found(partial(teir.einsum, text, stored, stored, stored, threads=threads))
        np.testing.assert_array_equal(got, np.einsum(text, matrix, matrix, matrix))
        assert count == 1
    assert "as a dense row" in teir.plan(text, stored, stored, stored).explain()


def test_wide_index_arrays_and_threads() -> None:
    matrix = drawn(300, 300, 6)
    stored = scipy_sparse.csr_array(matrix)
    stored.indptr, stored.indices = (a.astype(np.int64) for a in (stored.indptr, stored.indices))
    expected = np.einsum("ij,jk,ik->i", matrix, matrix, matrix, optimize=True)
    other = scipy_sparse.csr_array(matrix)
    for threads in (1, 2):
        got, count = sums_found(
            partial(teir.einsum, "ij,jk,ik->i", stored, other, stored, threads=threads)
        )
        np.testing.assert_array_equal(got, expected)
        assert count == 1


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_what_is_not_stored_hides_infinities(wrong: float) -> None:
    left, middle, right = np.ones((1, 1)), np.array([[2.0, wrong]]), np.array([[3.0, 0.0]])
    given = [scipy_sparse.csr_array(one) for one in (left, middle, right)]
    got, count = sums_found(lambda: teir.einsum("ij,jk,ik->", *given))
    assert got == 6
    assert count == 0


def test_sums_and_differences_of_rings() -> None:
    a, b = drawn(9, 9, 7), drawn(9, 9, 8)
    text = "s = B[i,j] * B[j,k] * B[i,k] - B[i,j] * C[j,k] * C[i,k]"
    given = [scipy_sparse.csr_array(one) for one in (a, b)]
    expected = np.einsum("ij,jk,ik->", a, a, a) - np.einsum("ij,jk,ik->", a, b, b)
    assert teir.einsum(text, *given) == expected
    out = np.ones(9)
    teir.einsum("s[i] += B[i,j] * C[j,k] * C[i,k]", *given, out=out)
    np.testing.assert_array_equal(out, 1 + np.einsum("ij,jk,ik->i", a, b, b))


def test_rows_of_very_unequal_lengths_are_intersected() -> None:
    thin = np.zeros((40, 400))
    thin[:, 3] = 1
    full = drawn(40, 400, 9, density=1.0) + 5
    links = np.ones((40, 40))
    given = [scipy_sparse.csr_array(one) for one in (links, full, thin)]
    got, count = sums_found(lambda: teir.einsum("ij,jk,ik->", *given))
    assert got == np.einsum("ij,jk,ik->", links, full, thin, optimize=True)
    assert count == 0


@pytest.mark.parametrize("text", ["ij,ij,ij->", "ij,jk,ik->ij", "ij,jk,kl->", "ij,ij,jk->"])
def test_other_products_of_three_are_no_rings(text: str) -> None:
    arrays = [drawn(8, 8, seed) for seed in range(3)]
    got, count = sums_found(lambda: teir.einsum(text, *map(scipy_sparse.csr_array, arrays)))
    np.testing.assert_array_equal(got, np.einsum(text, *arrays))
    assert count == 0
