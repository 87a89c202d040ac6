"""Products of three and more sparse matrices, two at a time: against the dense meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.arrays.sparse import Sparse

scipy_sparse = pytest.importorskip("scipy.sparse")

Array = np.ndarray[Any, np.dtype[Any]]
EXTENTS = {"i": 13, "j": 17, "k": 11, "l": 7, "m": 19}
TEXTS = [
    "ij,jk,kl->il",
    "ij,jk,kl->li",
    "ji,jk,kl->il",
    "kl,ij,jk->il",
    "lk,kj,ij->il",
    "ij,jk,kl,lm->im",
    "ij,kj,lk,lm->im",
]


def drawn(rows: int, columns: int, seed: int, density: float = 0.2) -> Array:
    random = np.random.default_rng(seed)
    numbers = random.integers(-3, 4, (rows, columns)) * (random.random((rows, columns)) < density)
    return np.asarray(numbers, float)


def shaped(text: str, density: float = 0.2) -> list[Array]:
    words = text.split("->")[0].split(",")
    return [drawn(EXTENTS[w[0]], EXTENTS[w[1]], seed, density) for seed, w in enumerate(words)]


def temporaries(plan: Any) -> int:
    return sum("a sparse temporary" in outline.text for outline in plan.outlines)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("levels", ["ds", "ss", "ds:1,0"])
def test_chains_in_every_order(text: str, kind: str, levels: str) -> None:
    arrays = shaped(text)
    given = [scipy_sparse.csr_array(one).asformat(kind) for one in arrays]
    plan = teir.plan(text, *given, out_levels=levels)
    assert temporaries(plan) == len(arrays) - 2
    for got in (teir.einsum(text, *given, out_levels=levels), plan(*given), plan(*given)):
        np.testing.assert_array_equal(got.to_dense(), np.einsum(text, *arrays))
        assert str(got.format) == levels


@pytest.mark.parametrize("levels", ["ss", "sd", "ds:1,0", "ss:1,0"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_chains_of_every_format(levels: str, dtype: str) -> None:
    text = "ij,jk,kl->il"
    arrays = [one.astype(dtype) for one in shaped(text)]
    name, _, order = levels.partition(":")
    modes = tuple(map(int, order.split(","))) if order else None
    given = [
        Sparse.from_coo(np.nonzero(one), one[np.nonzero(one)], one.shape, name, modes)
        for one in arrays
    ]
    got = teir.einsum(text, *given, out_levels="ds")
    np.testing.assert_array_equal(got.to_dense(), np.einsum(text, *arrays))
    assert got.dtype == dtype


def test_the_cheaper_neighbours_are_multiplied_first() -> None:
    wide, narrow = drawn(30, 40, 1, 0.5), drawn(40, 30, 2, 0.02)
    few = drawn(30, 5, 3, 0.2)
    given = [scipy_sparse.csr_array(one) for one in (wide, narrow, few)]
    right = teir.plan("ij,jk,kl->il", *given, out_levels="ds")
    assert right.outlines[0].text.startswith("t0[j,l] = in1[j,k] * in2[k,l]")
    left = teir.plan("lk,kj,ji->li", *(one.T.tocsr() for one in given[::-1]), out_levels="ds")
    assert left.outlines[0].text.startswith("t0[l,j] = in0[l,k] * in1[k,j]")
    assert left(*(one.T.tocsr() for one in given[::-1])).to_dense().tolist() == (
        (wide @ narrow @ few).T.tolist()
    )


def test_sums_numbers_and_the_name_of_a_temporary() -> None:
    t0, b, c, d = (drawn(9, 9, seed) for seed in range(4))
    given = [scipy_sparse.csr_array(one) for one in (t0, b, c, d)]
    text = "A[i,l] = t0[i,j] * B[j,k] * C[k,l] - D[i,l] + B[i,j] * B[j,k] * B[k,l]"
    got = teir.einsum(text, *given, out_levels="ds")
    np.testing.assert_array_equal(got.to_dense(), t0 @ b @ c - d + b @ b @ b)
    plan = teir.plan(text, *given, out_levels="ds")
    assert [one.text.split("[")[0] for one in plan.outlines[:2]] == ["t1", "t2"]
    scaled = teir.einsum("A[i,l] = x * B[i,j] * C[j,k] * D[k,l]", 3.0, *given[1:], out_levels="ds")
    np.testing.assert_array_equal(scaled.to_dense(), 3 * b @ c @ d)


def test_the_pattern_keeps_what_cancels() -> None:
    ones = scipy_sparse.csr_array(np.array([[1.0, -1.0], [0.0, 0.0]]))
    got = teir.einsum("ij,jk,kl->il", ones, np.abs(ones).T.tocsr(), np.abs(ones), out_levels="ds")
    assert got.nnz == 2
    assert not got.to_dense().any()


def test_empty_factors_and_other_patterns_later() -> None:
    given = [scipy_sparse.csr_array(one) for one in shaped("ij,jk,kl->il")]
    empty = scipy_sparse.csr_array(given[1].shape)
    plan = teir.plan("ij,jk,kl->il", *given, out_levels="ds")
    assert plan(given[0], empty, given[2]).nnz == 0
    assert "a sparse temporary" in plan.explain(measure=True)
    again = teir.plan("ij,jk,kl->il", given[0], empty, given[2], out_levels="ds")
    want = (given[0] @ given[1] @ given[2]).toarray()
    np.testing.assert_array_equal(again(*given).to_dense(), want)


@pytest.mark.parametrize(
    "text", ["ij,jk,ik->ik", "ij,jk,jl->il", "ij,ij,jk->ik", "ii,ij,jk->ik", "ij,jk,kl->l"]
)
def test_what_is_no_chain_is_one_program(text: str) -> None:
    extents = {"i": 6, "j": 6, "k": 5, "l": 7}
    words = text.split("->")[0].split(",")
    arrays = [drawn(extents[w[0]], extents[w[1]], n, 0.4) for n, w in enumerate(words)]
    given = [scipy_sparse.csr_array(one) for one in arrays]
    levels = "ds" if len(text.split("->")[1]) == 2 else "s"
    plan = teir.plan(text, *given, out_levels=levels)
    assert temporaries(plan) == 0
    np.testing.assert_array_equal(plan(*given).to_dense(), np.einsum(text, *arrays))


def test_extents_that_are_repeated_are_no_chain() -> None:
    given = [scipy_sparse.csr_array(drawn(*shape, 1, 0.5)) for shape in ((4, 5), (1, 5), (5, 6))]
    dense = [one.toarray() for one in given]
    got = teir.einsum("ij,jk,kl->il", *given, out_levels="ds")
    np.testing.assert_array_equal(got.to_dense(), np.einsum("ij,jk,kl->il", *dense))
