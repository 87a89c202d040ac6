"""Matrices not seen before, of kinds seen before: no planning, and the same results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from pipeline.tuning_folder import own_folder
from teir.errors import TeirError
from teir.pipeline import sparse_einsum, sparse_plan
from teir.pipeline.sparse_einsum import sparse_calls

draw = np.random.default_rng(8)
ROWS, COLUMNS = 50, 40
C, D = draw.standard_normal((COLUMNS, 16)), draw.standard_normal((16, 8))
K = draw.standard_normal((ROWS, 16))


def matrix(
    density: float = 0.2, kind: str = "csr", shape: tuple[int, int] = (ROWS, COLUMNS)
) -> Any:
    return scipy.sparse.random_array(shape, density=density, format=kind, rng=draw)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What takes the long way, from no known call on."""
    found: list[str] = []
    for module in (sparse_einsum, sparse_plan):
        usual = module.stages_of

        def stages_of(problem: Any, *others: Any, usual: Any = usual) -> Any:
            found.append(str(problem.assignment))
            return usual(problem, *others)

        monkeypatch.setattr(module, "stages_of", stages_of)
    sparse_calls().kinds.clear()
    yield found
    sparse_calls().kinds.clear()


CASES = [
    ("ij,jk->ik", lambda: (matrix(), C), None),
    ("ij,jk->ik", lambda: (matrix(kind="csc"), C), None),
    ("ij,jk,kl->il", lambda: (matrix(), C, D), None),
    ("ij,j->i", lambda: (matrix(), C[:, 0].copy()), None),
    ("ij,i,j->", lambda: (matrix(), K[:, 0].copy(), C[:, 0].copy()), None),
    ("A[i,k] = -2.5 * B[i,j] * C[j,k]", lambda: (matrix(), C), None),
    ("ij,ik,jk->ij", lambda: (matrix(), K, C), "ds"),
    ("ij,jk->ik", lambda: (matrix(), matrix(shape=(COLUMNS, 30))), "ds"),
    ("A[i,j] = B[i,j] + c * C[i,j]", lambda: (matrix(), 2.5, matrix()), "ds"),
    ("ij,ij->ij", lambda: (matrix(), matrix(0.4)), "ds"),
]


@pytest.mark.parametrize(("expression", "operands", "levels"), CASES)
def test_new_matrices_are_not_planned_for(
    planned: list[str], expression: str, operands: Any, levels: str | None
) -> None:
    plan = teir.plan(expression, *operands(), out_levels=levels)
    first = operands()
    teir.einsum(expression, *first, out_levels=levels)
    plan(*first)
    planned.clear()
    for _ in range(4):
        given = operands()
        found = teir.einsum(expression, *given, out_levels=levels), plan(*given)
        assert not planned
        dense = [one.toarray() if hasattr(one, "toarray") else one for one in given]
        wanted = teir.einsum(expression, *dense)
        for one in found:
            values = one.to_dense() if isinstance(one, teir.Sparse) else one
            np.testing.assert_allclose(values, wanted, atol=1e-12)
        planned.clear()


@pytest.mark.parametrize(("expression", "operands", "levels"), CASES)
def test_the_bits_are_those_of_the_long_way(
    planned: list[str], expression: str, operands: Any, levels: str | None
) -> None:
    teir.einsum(expression, *operands(), out_levels=levels)
    given = operands()
    planned.clear()
    quick = teir.einsum(expression, *given, out_levels=levels)
    assert not planned
    sparse_calls().kinds.clear()
    slow = teir.einsum(expression, *given, out_levels=levels)
    assert planned
    pair = [one.values if isinstance(one, teir.Sparse) else one for one in (quick, slow)]
    assert np.array_equal(*pair)


def test_a_matrix_that_comes_again_is_known_by_itself(planned: list[str]) -> None:
    teir.einsum("ij,jk->ik", matrix(), C)
    again = matrix()
    planned.clear()
    results = [teir.einsum("ij,jk->ik", again, C) for _ in range(4)]
    assert len(planned) == 1
    assert all(np.array_equal(one, results[0]) for one in results)


@pytest.mark.parametrize("levels", [None, "ds"])
def test_other_kinds_are_planned_for(planned: list[str], levels: str | None) -> None:
    expression = "ij,jk->ik" if levels is None else "ij,ik,jk->ij"
    others = (C,) if levels is None else (K, C)
    wide = matrix()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    teir.einsum(expression, matrix(), *others, out_levels=levels)
    for other in (
        matrix(0.8),
        matrix(0.0),
        matrix().astype(np.float32),
        matrix(kind="csc"),
        matrix(kind="coo"),
        wide,
    ):
        planned.clear()
        found = teir.einsum(expression, other, *others, out_levels=levels)
        values = found.to_dense() if isinstance(found, teir.Sparse) else found
        wanted = teir.einsum(expression, other.toarray(), *others)
        np.testing.assert_allclose(values, wanted, rtol=1e-4, atol=1e-5)
        assert planned


@pytest.mark.parametrize("levels", [None, "ds"])
def test_rows_out_of_order_are_sorted_and_wrong_ones_refused(levels: str | None) -> None:
    expression = "ij,jk->ik" if levels is None else "ij,ik,jk->ij"
    others = (C,) if levels is None else (K, C)
    teir.einsum(expression, matrix(), *others, out_levels=levels)
    turned = matrix()
    wanted = teir.einsum(expression, turned.toarray(), *others)
    for row in range(ROWS):
        part = slice(turned.indptr[row], turned.indptr[row + 1])
        turned.indices[part] = turned.indices[part][::-1].copy()
        turned.data[part] = turned.data[part][::-1].copy()
    found = teir.einsum(expression, turned, *others, out_levels=levels)
    values = found.to_dense() if isinstance(found, teir.Sparse) else found
    np.testing.assert_allclose(values, wanted)
    for place, wrong in ((3, COLUMNS), (0, -1)):
        broken = matrix()
        broken.indices[place] = wrong
        with pytest.raises(TeirError, match="TEIR67"):
            teir.einsum(expression, broken, *others, out_levels=levels)
    short = matrix()
    short.indptr = short.indptr[:-1].copy()
    with pytest.raises(TeirError):
        teir.einsum(expression, short, *others, out_levels=levels)
    lost = matrix()
    lost.indptr[5] = 1 << 30
    with pytest.raises(TeirError):
        teir.einsum(expression, lost, *others, out_levels=levels)


def test_results_share_no_memory_with_operands() -> None:
    teir.einsum("ij,ik,jk->ij", matrix(), K, C, out_levels="ds")
    other = matrix()
    found = teir.einsum("ij,ik,jk->ij", other, K, C, out_levels="ds")
    before = found.to_dense()
    other.indices[:] = 0
    other.indptr[:] = 0
    assert np.array_equal(found.to_dense(), before)


def test_out_takes_the_long_way(planned: list[str]) -> None:
    teir.einsum("ij,jk->ik", matrix(), C)
    out, other = np.empty((ROWS, 16)), matrix()
    planned.clear()
    assert teir.einsum("ij,jk->ik", other, C, out=out) is out
    np.testing.assert_allclose(out, other @ C)
    assert planned


def test_tuning_is_seen(planned: list[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_folder(tmp_path, monkeypatch):
        teir.einsum("ij,jk,kl->il", matrix(), C, D)
        teir.plan("ij,jk,kl->il", matrix(), C, D, tune=True)
        planned.clear()
        teir.einsum("ij,jk,kl->il", matrix(), C, D)
        assert planned


def test_no_operand_is_kept_alive() -> None:
    import gc
    import weakref

    for levels in (None, "ds"):
        expression = "ij,jk->ik" if levels is None else "ij,ik,jk->ij"
        first = matrix()
        values = weakref.ref(first.data)
        teir.einsum(expression, first, *((C,) if levels is None else (K, C)), out_levels=levels)
        del first
        gc.collect()
        assert values() is None


def test_matrices_that_say_more_than_their_class_are_planned_for() -> None:
    """The axes of their rows, and what they hold where nothing is stored."""
    sparse = pytest.importorskip("sparse")
    dense, x = np.triu(np.arange(1.0, 37).reshape(6, 6)), np.arange(1.0, 7)
    for axis in (0, 1, 0):
        given = sparse.GCXS.from_numpy(dense, compressed_axes=(axis,))
        np.testing.assert_array_equal(teir.einsum("y[i] = A[i,j] * x[j]", given, x), dense @ x)
    one = sparse.GCXS((np.ones(6), np.arange(6), np.arange(7)), (6, 6), compressed_axes=(0,))
    np.testing.assert_array_equal(teir.einsum("y[i] = A[i,j] * x[j]", one, x), x)
    filled = sparse.GCXS(
        (np.ones(6), np.arange(6), np.arange(7)), (6, 6), compressed_axes=(0,), fill_value=5.0
    )
    with pytest.raises(TeirError, match="TEIR676"):
        teir.einsum("y[i] = A[i,j] * x[j]", filled, x)
