"""Products of sparse matrices with sparse results: pattern and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.arrays.sparse import Sparse
from teir.pipeline import fibre_product as module
from teir.pipeline.fibre_product import fibre_product

Array = np.ndarray[Any, np.dtype[Any]]


def drawn(random: np.random.Generator, shape: tuple[int, ...], density: float) -> Array:
    """Small integers, some rows equal to the row before."""
    array = random.integers(1, 4, shape) * (random.random(shape) < density)
    for row in range(1, shape[0]):
        if random.random() < 0.3:
            array[row] = array[row - 1]
    return np.asarray(array, float)


@pytest.mark.parametrize("width", [np.int32, np.int64])
@pytest.mark.parametrize("pairs", [1 << 20, 5])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_columns_of_every_row(
    monkeypatch: pytest.MonkeyPatch, width: type, pairs: int, threads: int
) -> None:
    monkeypatch.setattr(module, "_PAIRS", pairs)
    for seed in range(12):
        random = np.random.default_rng(seed)
        rows, inner, columns = (int(n) for n in random.integers(1, [40, 30, 400]))
        density = random.choice([0.0, 0.05, 0.3, 1.0], 2)
        b, c = drawn(random, (rows, inner), density[0]), drawn(random, (inner, columns), density[1])
        stored = [
            Sparse.from_coo(np.nonzero(one), one[np.nonzero(one)], one.shape) for one in (b, c)
        ]
        wide = [
            Sparse.from_levels(
                one.shape,
                "ds",
                {1: (one.stored[1].pos.astype(width), one.stored[1].crd.astype(width))},
                one.values,
            )
            for one in stored
            if one.stored[1] is not None
        ]
        extents = {"i": rows, "j": inner, "k": columns}
        factors = [(("i", "j"), wide[0]), (("j", "k"), wide[1])]
        for order in (factors, factors[::-1]):
            found = fibre_product(order, ("i", "k"), extents, threads)
            assert found is not None
            expected = (b != 0) @ (c != 0)
            np.testing.assert_array_equal(found.counts, expected.sum(1))
            np.testing.assert_array_equal(found.crd, np.nonzero(expected)[1])


def test_other_products_are_left_alone() -> None:
    eye = Sparse.from_coo(([0, 1], [0, 1]), [1.0, 1.0], (2, 2))
    extents = {"i": 2, "j": 2, "k": 2}
    for left, right, wanted in (("ij", "ij", "ij"), ("ij", "kj", "ik"), ("ij", "jk", "ki")):
        factors = [(tuple(left), eye), (tuple(right), eye)]
        assert fibre_product(factors, tuple(wanted), extents, 1) is None


@pytest.mark.parametrize("levels", ["ds", "ss"])
@pytest.mark.parametrize("rows", [1, 3, 64, 65, 130, 1000])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_in_blocks(levels: str, rows: int, threads: int) -> None:
    random = np.random.default_rng(rows)
    b, c = drawn(random, (rows, 50), 0.05), drawn(random, (50, 70), 0.1)
    given = [Sparse.from_coo(np.nonzero(one), one[np.nonzero(one)], one.shape) for one in (b, c)]
    got = teir.einsum("ij,jk->ik", *given, out_levels=levels, threads=threads)
    got.require_valid("result")
    assert str(got.format) == levels
    assert got.nnz == np.count_nonzero(b @ c)
    np.testing.assert_array_equal(got.to_dense(), b @ c)
    again = teir.einsum("ij,jk->ik", *given, out_levels=levels, threads=3 - threads)
    np.testing.assert_array_equal(again.values, got.values)


@pytest.mark.parametrize("levels", ["dss", "sss", "dds", "sds"])
def test_fibres_of_a_tensor_with_a_matrix(levels: str) -> None:
    random = np.random.default_rng(3)
    b, c = drawn(random, (5, 6, 8), 0.1), drawn(random, (8, 9), 0.2)
    tensor = Sparse.from_coo(np.nonzero(b), b[np.nonzero(b)], b.shape, levels)
    matrix = Sparse.from_coo(np.nonzero(c), c[np.nonzero(c)], c.shape)
    for out in ("dss", "sss", "dds"):
        got = teir.einsum("hij,jk->hik", tensor, matrix, out_levels=out)
        got.require_valid("result")
        np.testing.assert_array_equal(got.to_dense(), b @ c)


def test_the_program_is_parallel_and_proved() -> None:
    eye = Sparse.from_coo((np.arange(100), np.arange(100)), np.ones(100), (100, 100))
    plan = teir.plan("ij,jk->ik", eye, eye, out_levels="ds", threads=2)
    text = plan.explain()
    assert "over i.block" in text
    assert "sequential i_2 over i" not in text
    assert "native code" in text
