"""Results that store what one operand stores, times a number: all is looked at, nothing walked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import teir
from teir.arrays.sparse import Sparse
from teir.errors import TeirError
from teir.pipeline import sparse_run
from teir.pipeline.sparse_einsum import sparse_calls
from teir.pipeline.sparse_run import PatternSource


@pytest.fixture(autouse=True)
def none_known() -> None:
    sparse_calls().entries.clear()


def walked(monkeypatch: pytest.MonkeyPatch, text: str, *operands: Any, **wishes: Any) -> Sparse:
    """The same by a program."""
    with monkeypatch.context() as patch:
        patch.setattr(sparse_run, "kept_pattern", lambda *_: None)
        found = teir.einsum(text, *operands, dtype=operands[0].dtype, **wishes)
    assert isinstance(found, Sparse)
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("width", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (60, 90), (400, 300)])
def test_as_a_program(
    monkeypatch: pytest.MonkeyPatch, dtype: type[Any], width: type[Any], shape: tuple[int, int]
) -> None:
    random = np.random.default_rng(shape[0])
    made = sp.random_array(shape, density=0.3, rng=random, dtype=dtype).tocsr()
    made.data[::7] = -0.0
    made.indptr, made.indices = made.indptr.astype(width), made.indices.astype(width)
    for text, numbers in (("A[i,j] = B[i,j] * c", (dtype(-1.5),)), ("A[i,j] = B[i,j]", ())):
        expected = walked(monkeypatch, text, made, *numbers, out_levels="ds")
        for _ in range(2):
            found = teir.einsum(text, made, *numbers, out_levels="ds")
            assert found.dtype == dtype
            assert found.values.tobytes() == expected.values.tobytes()
            level, wanted = found.stored[1], expected.stored[1]
            assert level is not None
            assert wanted is not None
            np.testing.assert_array_equal(level.pos, wanted.pos)
            np.testing.assert_array_equal(level.crd, wanted.crd)
            assert not np.shares_memory(level.crd, made.indices)


@pytest.mark.parametrize("levels", ["s", "ds", "ss", "dss", "dds", "dsd", "sss:2,0,1", "ddd"])
def test_levels_and_numbers_that_change(levels: str) -> None:
    rank = len(levels.partition(":")[0])
    random = np.random.default_rng(rank)
    dense = random.integers(-4, 5, (6, 5, 7)[:rank]) * (random.random((6, 5, 7)[:rank]) < 0.4)
    coords = np.nonzero(dense)
    operand = Sparse.from_coo(coords, dense[coords].astype(float), dense.shape, levels)
    indices = ",".join("ijk"[:rank])
    for scale in (2.0, 3, np.float64(-1.0), 0.5):
        text = f"A[{indices}] = -c * B[{indices}]"
        found = teir.einsum(text, scale, operand, out_levels=levels)
        np.testing.assert_array_equal(found.to_dense(), -scale * dense)
        assert str(found.format) == levels


def test_index_arrays_are_looked_at_at_every_call() -> None:
    made = sp.random_array((50, 40), density=0.2, rng=np.random.default_rng(2)).tocsr()
    good = made.indices.copy()
    for _ in range(2):
        teir.einsum("ij,->ij", made, 2.0, out_levels="ds")
    for place, wrong in ((0, -1), (3, 40), (good.size - 1, 2**31 - 1)):
        made.indices[place] = wrong
        with pytest.raises(TeirError, match=r"TEIR67[234]"):
            teir.einsum("ij,->ij", made, 2.0, out_levels="ds")
        made.indices[:] = good
        found = teir.einsum("ij,->ij", made, 2.0, out_levels="ds")
        np.testing.assert_array_equal(found.to_dense(), 2 * made.toarray())
    made.indices[1] = good[0]
    found = teir.einsum("ij,->ij", made, 2.0, out_levels="ds")
    np.testing.assert_array_equal(found.to_dense(), 2 * made.toarray())
    made.indptr[4] = 10**6
    with pytest.raises(TeirError, match="TEIR672"):
        teir.einsum("ij,->ij", made, 2.0, out_levels="ds")


def test_values_that_change_show() -> None:
    made = sp.random_array((9, 9), density=0.4, rng=np.random.default_rng(1)).tocsr()
    first = teir.einsum("A[i,j] = -B[i,j]", made, out_levels="ds")
    made.data *= 3
    second = teir.einsum("A[i,j] = -B[i,j]", made, out_levels="ds")
    np.testing.assert_array_equal(second.to_dense(), -made.toarray())
    np.testing.assert_array_equal(3 * first.to_dense(), second.to_dense())


def test_other_kinds_are_walked() -> None:
    """Levels, types and factors this does not serve."""
    random = np.random.default_rng(4)
    made = sp.random_array((12, 12), density=0.3, rng=random).tocsr()
    dense, vector = random.standard_normal((12, 12)), random.standard_normal(12)
    whole = made.toarray()
    for text, operands, levels, expected in (
        ("ij,->ij", (made, 2.0), "ss", 2 * whole),
        ("ij,->ji", (made, 2.0), "ds", 2 * whole.T),
        ("ij,->ij", (made, 2.0), "ds:1,0", 2 * whole),
        ("ij,->ij", (made, 2j), "ds", 2j * whole),
        ("ij,,->ij", (made, 2.0, 4.0), "ds", 8 * whole),
        ("ij,j->ij", (made, vector), "ds", whole * vector),
        ("ij,ij->ij", (made, dense), "ds", whole * dense),
        ("ij,->ij", (sp.bsr_array(made, blocksize=(2, 3)), 2.0), "ds", 2 * whole),
        ("ij,->ij", (made.astype(np.int32), 2.0), "ds", 2 * made.astype(np.int32).toarray()),
    ):
        for _ in range(2):
            found = teir.einsum(text, *operands, out_levels=levels)
            np.testing.assert_allclose(found.to_dense(), expected, atol=1e-12)


@pytest.mark.parametrize("stored", [0, 1])
def test_tensors_without_an_axis_are_numbers(stored: int) -> None:
    number = Sparse.from_coo(np.zeros((0, stored), int), np.full(stored, 3.0), ())
    made = sp.random_array((8, 8), density=0.4, rng=np.random.default_rng(6)).tocsr()
    for text, expected in (
        ("A[i,j] = c * B[i,j]", 3 * stored * made),
        ("A[i,j] = c * B[i,j] + B[i,j]", (3 * stored + 1) * made),
    ):
        for _ in range(2):
            found = teir.einsum(text, number, made, out_levels="ds")
            np.testing.assert_allclose(found.to_dense(), expected.toarray())


@pytest.mark.parametrize(
    ("text", "source", "words"),
    [
        ("A[i,j] = B[i,j] * c", PatternSource.KEPT, "the program is not run"),
        ("A[i,j] = B[i,j] * v[j] * c", PatternSource.SHARED, "walks for both"),
        ("A[i,j] = B[i,j] + B[i,j] * c", PatternSource.AT_ONCE, "in one pass"),
        ("A[i,j] = B[i,j] * v[j] + B[i,j] * c", PatternSource.ASSEMBLED, "assembled"),
    ],
)
def test_plans_say_where_the_pattern_comes_from(
    text: str, source: PatternSource, words: str
) -> None:
    made = sp.random_array((8, 8), density=0.4, rng=np.random.default_rng(6)).tocsr()
    operands = [made, *([np.ones(8)] if "v" in text else []), 2.0]
    plan = teir.plan(text, *operands, out_levels="ds")
    assert plan.pattern is source
    assert words in plan.explain()
    assert teir.plan(text, *operands).pattern is None


def test_terms_that_store_nothing_are_not_what_is_kept() -> None:
    made = sp.random_array((8, 6), density=0.4, rng=np.random.default_rng(6)).tocsr()
    empty = sp.csr_array((8, 6))
    for text in ("A[i,j] = B[i,j] - c * C[i,j]", "A[i,j] = -c * C[i,j] + B[i,j]"):
        operands = (empty, 2.0, made) if "= B" in text else (2.0, made, empty)
        for _ in range(2):
            found = teir.einsum(text, *operands, out_levels="ds")
            np.testing.assert_array_equal(found.to_dense(), -2 * made.toarray())
