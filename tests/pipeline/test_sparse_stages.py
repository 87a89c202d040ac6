"""Products of several sparse factors, two at a time: against the dense meaning."""

from __future__ import annotations

from typing import Any
from unittest import mock

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


def small(text: str, seed: int = 0) -> tuple[list[Array], list[Any]]:
    """Arrays for a product, and the same with every matrix as CSR."""
    extents = {"i": 6, "j": 8, "k": 5, "l": 7}
    words = text.split("->")[0].split(",")
    shapes = [tuple(extents[index] for index in word) for word in words]
    arrays = [
        drawn(*shape, seed + n, 0.4) if len(shape) == 2 else np.arange(1.0, shape[0] + 1)
        for n, shape in enumerate(shapes)
    ]
    given = [scipy_sparse.csr_array(one) if one.ndim == 2 else one for one in arrays]
    return arrays, given


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("ij,jk,ik->ik", ["t0[i,k] = in0[i,j] * in1[j,k]"]),
        ("ik,ij,jk->ki", ["t0[k,i] = in1[i,j] * in2[j,k]"]),
        ("ij,ij,ij->ij", ["t0[i,j] = in0[i,j] * in1[i,j]"]),
        ("ij,ji,jk->ik", ["t0[i,j] = in0[i,j] * in1[j,i]"]),
        ("ij,ij->i", ["t0[i,j] = in0[i,j] * in1[i,j]"]),
        ("ji,j,jk->ik", ["t0[j,k] = in1[j] * in2[j,k]"]),
        ("i,ij,j,jk->ki", ["t0[i,j] = in0[i] * in1[i,j]", "t1[i,j] = t0[i,j] * in2[j]"]),
        ("ij,jk,jl->il", []),
        ("ij,ij->ij", []),
        ("i,ij,j->ij", []),
        ("ii,ij,jk->ik", []),
        ("ij,jk,kl->l", []),
    ],
)
def test_what_goes_before(text: str, made: list[str]) -> None:
    arrays, given = small(text)
    if "ii" in text:
        arrays[0] = drawn(6, 6, 5, 0.5)
        given[0] = scipy_sparse.csr_array(arrays[0])
    levels = "ds" if len(text.split("->")[1]) == 2 else "s"
    plan = teir.plan(text, *given, out_levels=levels)
    found = [one.text for one in plan.outlines if "temporary" in one.text]
    assert [one.removesuffix(", a sparse temporary") for one in found] == made
    for got in (plan(*given), teir.einsum(text, *given, out_levels=levels)):
        np.testing.assert_array_equal(got.to_dense(), np.einsum(text, *arrays))


@pytest.mark.parametrize("text", ["ij,ij->i", "ij,ij->", "ij,ji,jk->ik", "ij,ij,ij,j->i"])
def test_dense_results_multiply_what_lies_alike_first_where_it_is_much(text: str) -> None:
    arrays, given = small(text, 3)
    assert temporaries(teir.plan(text, *given)) == 0
    target = np.empty(np.einsum(text, *arrays).shape)
    with mock.patch("teir.pipeline.sparse_pairs._LEAST_ALIKE", 1):
        plan = teir.plan(text, *given)
        assert temporaries(plan) > 0
        got = [plan(*given), teir.einsum(text, *given), plan(*given, out=target)]
        same = teir.plan("ij,ij->i", given[0], given[0].copy())
    for one in got:
        np.testing.assert_array_equal(one, np.einsum(text, *arrays))
    assert got[2] is target
    assert temporaries(same) == 0


def test_tensors_stay_tensors_and_sums_add_into_out() -> None:
    torch = pytest.importorskip("torch")
    arrays, given = small("ij,ij->i", 4)
    tensors = [torch.from_numpy(one).to_sparse_csr() for one in arrays]
    out = np.ones(6)
    with mock.patch("teir.pipeline.sparse_pairs._LEAST_ALIKE", 1):
        got = teir.einsum("ij,ij->i", *tensors)
        teir.einsum("A[i] += B[i,j] * C[i,j]", *given, out=out)
        with pytest.raises(teir.TeirError, match="TEIR686"):
            teir.einsum("ij,ij->i", *given, out=given[0].data[:6])
    assert isinstance(got, torch.Tensor)
    np.testing.assert_array_equal(got.numpy(), np.einsum("ij,ij->i", *arrays))
    np.testing.assert_array_equal(out, 1 + np.einsum("ij,ij->i", *arrays))


def test_factors_of_very_different_lengths_are_intersected_by_the_program() -> None:
    many = scipy_sparse.csr_array(np.ones((20, 20)))
    few = scipy_sparse.csr_array(([2.0], ([3], [4])), shape=(20, 20))
    plan = teir.plan("ij,ij,jk->ik", many, few, many, out_levels="ds")
    assert temporaries(plan) == 0
    assert plan(many, few, many).to_dense().sum() == 40


def test_extents_that_are_repeated_are_no_chain() -> None:
    given = [scipy_sparse.csr_array(drawn(*shape, 1, 0.5)) for shape in ((4, 5), (1, 5), (5, 6))]
    dense = [one.toarray() for one in given]
    got = teir.einsum("ij,jk,kl->il", *given, out_levels="ds")
    np.testing.assert_array_equal(got.to_dense(), np.einsum("ij,jk,kl->il", *dense))


@pytest.mark.parametrize("levels", ["ds", "ss"])
def test_chains_of_matrices_of_blocks_go_two_at_a_time(levels: str) -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    arrays = [np.kron(drawn(6, 6, seed, 0.3), np.ones((2, 2))) for seed in range(3)]
    blocked = [scipy_sparse.csr_array(one).tobsr(blocksize=(2, 2)) for one in arrays]
    plan = teir.plan("ij,jk,kl->il", *blocked, out_levels=levels)
    assert temporaries(plan) == 1
    for _ in range(2):
        found = plan(*blocked)
        np.testing.assert_array_equal(found.to_dense(), arrays[0] @ arrays[1] @ arrays[2])
    blocked[0].data *= 2
    np.testing.assert_array_equal(plan(*blocked).to_dense(), 2 * arrays[0] @ arrays[1] @ arrays[2])
