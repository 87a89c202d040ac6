"""Calls with sparse results on operands seen before: what is looked at again, what is forgotten."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from teir.errors import TeirError
from teir.pipeline import sparse_einsum
from teir.pipeline.sparse_einsum import sparse_calls
from teir.pipeline.sparse_results import KnownResult

draw = np.random.default_rng(4)
SUM = "A[i,j] = B[i,j] + C[i,j]"


def matrix(density: float = 0.3) -> Any:
    return scipy.sparse.random_array((9, 9), density=density, format="csr", rng=draw)


@pytest.fixture(autouse=True)
def none_known() -> None:
    sparse_calls().entries.clear()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What takes the long way."""
    found: list[str] = []
    usual = sparse_einsum.stages_of

    def stages_of(problem: Any, held: Any, room: Any) -> Any:
        found.append(str(problem.assignment))
        return usual(problem, held, room)

    monkeypatch.setattr(sparse_einsum, "stages_of", stages_of)
    return found


@pytest.mark.parametrize("text", ["ij,jk->ik", SUM, "ij,ij->ij"])
@pytest.mark.parametrize("kind", ["scipy", "teir", "frozen", "both the same"])
def test_repeated_calls_are_planned_once(text: str, kind: str, planned: list[str]) -> None:
    b, c = matrix(), matrix()
    c = b if kind == "both the same" else c
    expected = {"ij,jk->ik": b @ c, SUM: b + c, "ij,ij->ij": b * c}[text].toarray()
    given: list[Any] = [b, c]
    if kind in ("teir", "frozen"):
        given = [teir.Sparse.from_scipy(one, frozen=kind == "frozen") for one in given]
    for _ in range(3):
        found = teir.einsum(text, *given, out_levels="ds")
        np.testing.assert_allclose(found.to_dense(), expected)
    assert len(planned) == 1


@pytest.mark.parametrize("text", [SUM, "A[i,j] = B[i,j] - C[j,i]", "ij,kj->ik", "ij->ji"])
@pytest.mark.parametrize("kind", ["scipy", "teir"])
def test_turned_operands_are_planned_once(text: str, kind: str, planned: list[str]) -> None:
    b, c = matrix(), matrix()
    c = c.tocsc() if text == SUM else c
    given: list[Any] = [b] if text == "ij->ji" else [b, c]
    if kind == "teir":
        given = [teir.Sparse.from_scipy(one) for one in given]
    for round_ in range(4):
        left, right = b.toarray(), c.toarray()
        expected = {SUM: left + right, "ij,kj->ik": left @ right.T, "ij->ji": left.T}
        found = teir.einsum(text, *given, out_levels="ds")
        np.testing.assert_allclose(found.to_dense(), expected.get(text, left - right.T), atol=1e-12)
        if round_ == 2:
            b.data[:] += 1
            c.data[:] += 1
    assert len(planned) == 2


def test_a_matrix_and_its_transposed_are_one_pass(planned: list[str]) -> None:
    b = matrix()
    for _ in range(3):
        found = teir.einsum("A[i,j] = B[i,j] + C[j,i]", b, b, out_levels="ds")
        np.testing.assert_allclose(found.to_dense(), (b + b.T).toarray())
        b.data[:] *= 2
    assert len(planned) == 3
    told = teir.plan("A[i,j] = B[i,j] + C[j,i]", b, b, out_levels="ds").explain()
    assert "computed with the numbers, row by row" in told


def test_positions_of_turned_operands_may_change() -> None:
    b, c = matrix(), matrix(1.0).tocsc()
    for _ in range(2):
        teir.einsum(SUM, b, c, out_levels="ds")
    fewer = matrix(1.0).tocsc()
    fewer.data[::2] = 0
    c.data[:] = fewer.data
    found = teir.einsum(SUM, b, c, out_levels="ds")
    np.testing.assert_allclose(found.to_dense(), b.toarray() + fewer.toarray())
    c.indices[4] = 90
    with pytest.raises(TeirError):
        teir.einsum(SUM, b, c, out_levels="ds")
    c.indices[4] = 4
    found = teir.einsum(SUM, b, c, out_levels="ds")
    np.testing.assert_allclose(found.to_dense(), b.toarray() + fewer.toarray())


def test_plans_know_their_calls_too() -> None:
    b, c = matrix(), matrix()
    plan = teir.plan("ij,jk->ik", b, c, out_levels="ds")
    for _ in range(2):
        np.testing.assert_allclose(plan(b, c).to_dense(), (b @ c).toarray())
    assert any(isinstance(one, KnownResult) for one in plan.calls.entries.values())


def test_values_are_those_of_the_call(planned: list[str]) -> None:
    b, c = matrix(), matrix()
    teir.einsum(SUM, b, c, out_levels="ds")
    b.data *= 3
    found = teir.einsum(SUM, b, c, out_levels="ds")
    np.testing.assert_allclose(found.to_dense(), (b + c).toarray())
    assert len(planned) == 1
    b.data = b.data + 1
    found = teir.einsum(SUM, b, c, out_levels="ds")
    np.testing.assert_allclose(found.to_dense(), (b + c).toarray())
    assert len(planned) == 2


def test_other_dense_operands_of_the_same_layout(planned: list[str]) -> None:
    b = matrix()
    for _ in range(3):
        d = draw.standard_normal((9, 9))
        found = teir.einsum("ij,ij->ij", b, d, out_levels="ds")
        np.testing.assert_allclose(found.to_dense(), b.toarray() * d)
        assert len(planned) == 1
    turned = draw.standard_normal((9, 9)).T
    found = teir.einsum("ij,ij->ij", b, turned, out_levels="ds")
    np.testing.assert_allclose(found.to_dense(), b.toarray() * turned)
    assert len(planned) == 2


def test_patterns_changed_in_place_are_seen() -> None:
    b, c = matrix(), matrix()
    teir.einsum(SUM, b, c, out_levels="ds")
    row = next(r for r in range(9) if b.indptr[r + 1] - b.indptr[r] >= 1)
    last = b.indptr[row + 1] - 1
    b.indices[last] = 8
    found = teir.einsum(SUM, b, c, out_levels="ds")
    np.testing.assert_allclose(found.to_dense(), (b + c).toarray())
    b.indices[last] = 99
    with pytest.raises(TeirError) as caught:
        teir.einsum(SUM, b, c, out_levels="ds")
    assert caught.value.findings[0].code in ("TEIR672", "TEIR673", "TEIR674")


def test_calls_are_forgotten_with_their_operands() -> None:
    b, c = matrix(), matrix()
    for _ in range(2):
        teir.einsum(SUM, b, c, out_levels="ds")
    assert len(sparse_calls().entries) == 1
    del b
    gc.collect()
    assert not sparse_calls().entries


def test_levels_asked_for_are_told_apart() -> None:
    b, c = matrix(), matrix()
    for _ in range(2):
        for levels in ("ds", "ss", "ds:1,0"):
            found = teir.einsum(SUM, b, c, out_levels=levels)
            assert str(found.format) == levels
        assert isinstance(teir.einsum(SUM, b, c), np.ndarray)
    with pytest.raises(TeirError):
        teir.einsum(SUM, b, c, out_levels="ds", out=np.zeros((9, 9)))


@pytest.mark.parametrize("kind", [float, int, np.float32, np.float64])
def test_numbers_may_change(kind: type[Any], planned: list[str]) -> None:
    b = matrix()
    for number in (2, -3, 5):
        found = teir.einsum("A[i,j] = c * B[i,j]", kind(number), b, out_levels="ds")
        np.testing.assert_allclose(found.to_dense(), number * b.toarray())
    assert len(planned) == 1
    found = teir.einsum("A[i,j] = c * B[i,j]", np.array(2.0), b, out_levels="ds")
    np.testing.assert_allclose(found.to_dense(), 2 * b.toarray())
    assert len(planned) == 2
