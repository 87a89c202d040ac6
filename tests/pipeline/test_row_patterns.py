"""Products of sparse matrices with sparse results: pattern and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.arrays.sparse import Sparse
from teir.pipeline import row_patterns as module
from teir.pipeline.row_patterns import Factor, Fibres, row_patterns, row_terms

Array = np.ndarray[Any, np.dtype[Any]]


def pattern(products: list[list[Factor]], wanted: str, threads: int = 1) -> Fibres | None:
    extents = {
        index: extent
        for factors in products
        for names, sparse in factors
        for index, extent in zip(names, sparse.shape, strict=True)
    }
    terms = row_terms(products, tuple(wanted))
    return None if terms is None else row_patterns(terms, tuple(wanted), extents, threads)


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
        factors = [(("i", "j"), wide[0]), (("j", "k"), wide[1])]
        for order in (factors, factors[::-1]):
            found = pattern([order], "ik", threads)
            assert found is not None
            expected = (b != 0) @ (c != 0)
            np.testing.assert_array_equal(found.counts, expected.sum(1))
            np.testing.assert_array_equal(found.crd, np.nonzero(expected)[1])


def test_other_products_are_left_alone() -> None:
    eye = Sparse.from_coo(([0, 1], [0, 1]), [1.0, 1.0], (2, 2))
    for left, right, wanted in (("ij", "ij", "i"), ("ij", "kj", "ik"), ("ij", "jk", "ki")):
        assert pattern([[(tuple(left), eye), (tuple(right), eye)]], wanted) is None
    three: list[Factor] = [(("i", "j"), eye)] * 3
    assert pattern([three], "ij") is None


@pytest.mark.parametrize("pairs", [1 << 20, 5])
@pytest.mark.parametrize("threads", [1, 2])
def test_sums_and_intersections(monkeypatch: pytest.MonkeyPatch, pairs: int, threads: int) -> None:
    monkeypatch.setattr(module, "_PAIRS", pairs)
    for seed in range(12):
        random = np.random.default_rng(seed)
        rows, inner, columns = (int(n) for n in random.integers(1, [40, 30, 400]))
        shapes = ((rows, columns), (rows, columns), (rows, inner), (inner, columns))
        dense = [drawn(random, shape, random.choice([0.02, 0.1, 0.5])) for shape in shapes]
        d, e, b, c = (
            Sparse.from_coo(np.nonzero(one), one[np.nonzero(one)], one.shape) for one in dense
        )
        masks = [one != 0 for one in dense]
        add: list[Factor] = [(("i", "k"), d)]
        other: list[Factor] = [(("i", "k"), e)]
        product: list[Factor] = [(("i", "j"), b), (("j", "k"), c)]
        cases = [
            ([[*add, *other]], masks[0] & masks[1]),
            ([add, other], masks[0] | masks[1]),
            ([product, add], (masks[2] @ masks[3]) | masks[0]),
            ([[*add, *other], product, other], (masks[2] @ masks[3]) | masks[1]),
        ]
        for products, expected in cases:
            found = pattern(products, "ik", threads)
            assert found is not None
            np.testing.assert_array_equal(found.counts, expected.sum(1))
            np.testing.assert_array_equal(found.crd, np.nonzero(expected)[1])


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
    assert text.count("  parallel ") == 1
    assert "row by row" in text
    assert "native code" in text


@pytest.mark.parametrize("rows", [1, 7, 64, 131])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_of_all_kinds_in_one_program(rows: int, threads: int, dtype: type) -> None:
    random = np.random.default_rng(rows)
    shapes = {"B": (rows, 30), "C": (30, 40), "D": (rows, 40), "E": (rows, 40), "F": (40, rows)}
    dense = {name: drawn(random, shape, 0.15).astype(dtype) for name, shape in shapes.items()}
    dense["x"] = random.integers(1, 4, (40,)).astype(dtype)
    given = {
        name: Sparse.from_coo(np.nonzero(one), one[np.nonzero(one)], one.shape)
        if name != "x"
        else one
        for name, one in dense.items()
    }
    b, c, d, e, f, x = (dense[name] for name in "BCDEFx")
    cases = {
        "A[i,k] = B[i,j] * C[j,k] + D[i,k] - E[i,k]": b @ c + d - e,
        "A[i,k] = D[i,k] - B[i,j] * C[j,k] - B[i,j] * C[j,k]": d - 2 * b @ c,
        "A[i,k] = -D[i,k] * x[k] + E[i,k]": -d * x + e,
        "A[i,k] = D[i,k] * E[i,k]": d * e,
        "A[i,k] = -D[i,k] * E[i,k] * x[k] * D[i,k]": -d * e * x * d,
        "A[i,k] = D[i,k] * F[k,i] + E[i,k]": d * f.T + e,
        "A[i,k] = D[i,k] - D[i,k]": d - d,
        "A[i,k] = D[i,k] + D[i,k]": 2 * d,
    }
    for text, expected in cases.items():
        names = dict.fromkeys(name for name in "BCDEFx" if name in text.partition("=")[2])
        order = sorted(names, key=text.partition("=")[2].index)
        got = teir.einsum(text, *(given[name] for name in order), out_levels="ds", threads=threads)
        got.require_valid("result")
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.to_dense(), expected, err_msg=text)


def test_nothing_is_multiplied_by_what_is_not_stored() -> None:
    """An infinity where the other factor stores nothing does not show, nor in other rows."""
    b = Sparse.from_coo(([0, 0, 1], [0, 1, 1]), [np.inf, 2.0, np.nan], (3, 3))
    c = Sparse.from_coo(([0, 1, 2], [1, 0, 1]), [3.0, 4.0, 5.0], (3, 3))
    product = teir.einsum("ij,ij->ij", b, c, out_levels="ds")
    np.testing.assert_array_equal(product.to_dense(), [[0, 6, 0], [0, 0, 0], [0, 0, 0]])
    total = teir.einsum("A[i,j] = B[i,j] * C[i,j] + C[i,j]", b, c, out_levels="ds")
    np.testing.assert_array_equal(total.to_dense(), [[0, 9, 0], [4, 0, 0], [0, 5, 0]])
