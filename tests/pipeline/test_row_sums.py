"""Sparse results whose numbers are computed with their pattern: the same bits as in two passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.arrays.sparse import Sparse
from teir.pipeline import row_sums, sparse_run
from teir.pipeline.sparse_einsum import sparse_calls

Array = np.ndarray[Any, np.dtype[Any]]

TEXTS = (
    ("A[i,j] = B[i,k] * C[k,j]", 2),
    ("A[i,j] = -B[i,k] * C[k,j]", 2),
    ("A[i,j] = B[i,j] * C[i,j]", 2),
    ("A[i,j] = -B[i,j] * C[i,j]", 2),
    ("A[i,j] = B[i,j] + C[i,j]", 2),
    ("A[i,j] = B[i,j] - C[i,j]", 2),
    ("A[i,j] = -B[i,j] - C[i,j]", 2),
    ("A[i,j] = B[i,j] - C[i,k] * D[k,j] + E[i,j]", 4),
    ("A[i,j] = B[i,k] * C[k,j] + D[i,k] * E[k,j]", 4),
)


@pytest.fixture(autouse=True)
def none_known() -> None:
    sparse_calls().entries.clear()


def stored(random: np.random.Generator, rows: int, longest: int) -> Sparse:
    """Rows of very different lengths; some are empty, some values are -0 or infinite."""
    shape = (rows, rows)
    chosen = random.random(shape) < random.random((rows, 1)) * longest / rows
    chosen[random.integers(0, rows, 3)] = False
    values = random.standard_normal(shape)
    values[random.random(shape) < 0.05] = -0.0
    values[random.random(shape) < 0.01] = np.inf
    coords = np.nonzero(chosen)
    return Sparse.from_coo(coords, values[coords], shape)


def two_passes(monkeypatch: pytest.MonkeyPatch, text: str, operands: Any, **wishes: Any) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(sparse_run, "row_sum", lambda *_: None)
        found = teir.einsum(text, *operands, **wishes)
    sparse_calls().entries.clear()
    return found


def require_same(found: Sparse, expected: Sparse) -> None:
    assert found.format == expected.format
    for one, other in zip(found.stored, expected.stored, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.crd.dtype == other.crd.dtype
            np.testing.assert_array_equal(one.pos, other.pos)
            np.testing.assert_array_equal(one.crd, other.crd)
    bits = [
        np.where(np.isnan(one.values), 7, one.values).view(np.uint8) for one in (found, expected)
    ]
    np.testing.assert_array_equal(*bits)
    np.testing.assert_array_equal(np.isnan(found.values), np.isnan(expected.values))


@pytest.mark.parametrize(("text", "factors"), TEXTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_bits_of_two_passes(
    monkeypatch: pytest.MonkeyPatch, text: str, factors: int, dtype: type[Any]
) -> None:
    random = np.random.default_rng(len(text))
    for longest in (4, 30, 150):
        operands = [stored(random, 60, longest) for _ in range(factors)]
        operands = [one.with_values(one.values.astype(dtype)) for one in operands]
        found = teir.einsum(text, *operands, out_levels="ds")
        require_same(found, two_passes(monkeypatch, text, operands, out_levels="ds"))


@pytest.mark.parametrize(
    ("text", "factors"),
    [
        ("A[i,j] = c * B[i,j] + d * C[i,j]", "cBdC"),
        ("A[i,j] = B[i,j] * c - C[i,j] * d", "BcCd"),
        ("A[i,j] = c * B[i,j] * C[i,j]", "cBC"),
        ("A[i,j] = B[i,j] * c * C[i,j]", "BcC"),
        ("A[i,j] = B[i,k] * c * C[k,j] - d * D[i,j]", "BcCdD"),
        ("A[i,j] = B[i,k] * C[k,j] * c", "BCc"),
        ("A[i,j] = B[i,j] * C[i,j] * d", "BCd"),
        ("A[i,j] = c * d * B[i,j] + C[i,j]", "cdBC"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_among_the_factors(
    monkeypatch: pytest.MonkeyPatch, text: str, factors: str, dtype: type[Any]
) -> None:
    random = np.random.default_rng(12)
    operands: list[Any] = []
    for name in factors:
        one = stored(random, 40, 9)
        is_number = name.islower()
        operands.append(
            dtype(random.standard_normal())
            if is_number
            else one.with_values(one.values.astype(dtype))
        )
    found = teir.einsum(text, *operands, out_levels="ds")
    require_same(found, two_passes(monkeypatch, text, operands, out_levels="ds"))
    plan = teir.plan(text, *operands, out_levels="ds")
    assert plan.is_at_once == (factors not in ("BCd", "cdBC"))


@pytest.mark.parametrize("text", ["A[i,j] = c * B[i,j]", "A[i,j] = -B[i,j]"])
def test_what_stores_the_same_shares_index_arrays(text: str) -> None:
    b = stored(np.random.default_rng(1), 30, 6)
    operands = (2.0, b) if "c" in text else (b,)
    assert not teir.plan(text, *operands, out_levels="ds").is_at_once


@pytest.mark.parametrize("threads", [1, 2])
def test_parts_and_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(row_sums, "_SHARED", 1)
    random = np.random.default_rng(5)
    for text, factors in TEXTS:
        operands = [stored(random, 50, 20) for _ in range(factors)]
        whole = teir.einsum(text, *operands, out_levels="ds", threads=1)
        sparse_calls().entries.clear()
        with monkeypatch.context() as patch:
            patch.setattr(row_sums, "_MOST_AT_ONCE", 40)
            cut = teir.einsum(text, *operands, out_levels="ds", threads=threads)
        sparse_calls().entries.clear()
        require_same(cut, whole)


@pytest.mark.parametrize(
    ("text", "levels", "out_levels"),
    [
        ("A[i,j] = B[i,k] * C[k,j]", ("ss", "ds"), "ss"),
        ("A[i,j] = B[i,k] * C[k,j]", ("ds", "ds"), "ss"),
        ("A[i,j] = B[i,k] * C[k,j]", ("ds:1,0", "ds:1,0"), "ds:1,0"),
        ("A[h,i,j] = B[h,i,k] * C[k,j]", ("dss", "ds"), "dss"),
        ("A[h,i,j] = B[h,i,k] * C[k,j]", ("sss", "ds"), "sss"),
        ("A[h,i,j] = B[h,i,j] + C[h,i,j]", ("dds", "dds"), "dds"),
        ("A[h,i,j] = B[h,i,j] * C[h,i,j]", ("dds", "dds"), "dss"),
    ],
)
def test_levels(text: str, levels: tuple[str, str], out_levels: str) -> None:
    random = np.random.default_rng(8)
    operands, dense = [], []
    for one, name in zip(levels, ("B", "C"), strict=True):
        rank = text.split(name)[1].split("]")[0].count(",") + 1
        array = random.integers(-3, 4, (5, 7, 6)[:rank] if rank == 3 else (6, 6)).astype(float)
        array *= random.random(array.shape) < 0.4
        operands.append(
            Sparse.from_coo(np.nonzero(array), array[np.nonzero(array)], array.shape, one)
        )
        dense.append(array)
    plan = teir.plan(text, *operands, out_levels=out_levels)
    assert plan.is_at_once
    einsum = {"B[i,k]": "ik,kj->ij", "B[h,i,k]": "hik,kj->hij"}.get(text.split("=")[1].split()[0])
    b, c = dense
    expected = np.einsum(einsum, b, c) if einsum else b + c if "+" in text else b * c
    found = plan(*operands)
    np.testing.assert_array_equal(found.to_dense(), expected)
    assert str(found.format) == out_levels


def test_long_rows_take_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    b = stored(random, 40, 12)
    assert "in one pass" in teir.plan("ij,jk->ik", b, b, out_levels="ds").explain()
    monkeypatch.setattr(row_sums, "_MOST_PAIRS", 3)
    plan = teir.plan("ij,jk->ik", b, b, out_levels="ds")
    assert not plan.is_at_once
    assert "before every run" in plan.explain()


@pytest.mark.parametrize(
    ("text", "others", "levels"),
    [
        ("ij,jk,k->ik", ((9, 9), (9,)), "ds"),
        ("ij,jk->ik", ((9, 9),), "ds"),
        ("ij,jkl->ikl", ((9, 9, 2),), "dsd"),
    ],
)
def test_what_needs_a_program(text: str, others: Any, levels: str) -> None:
    """Dense factors, and results with dense levels."""
    random = np.random.default_rng(2)
    b = stored(random, 9, 5)
    plan = teir.plan(text, b, *others, out_levels=levels)
    assert not plan.is_at_once
