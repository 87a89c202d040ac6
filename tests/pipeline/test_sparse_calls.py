"""Calls with operands seen before: as fast as a native call, and as careful as the first."""

from __future__ import annotations

import gc
from itertools import product
from typing import Any

import numpy as np
import pytest

import teir
from teir.errors import TeirError
from teir.pipeline import known_calls, sparse_plan
from teir.pipeline.sparse_einsum import sparse_calls
from teir.pipeline.sparse_plan import SparsePlan

scipy_sparse = pytest.importorskip("scipy.sparse")

Array = np.ndarray[Any, np.dtype[Any]]


def integers(*shape: int, seed: int = 0, density: float = 1.0) -> Array:
    random = np.random.default_rng((seed, *shape))
    return np.asarray(random.integers(-3, 4, shape) * (random.random(shape) < density), float)


def planned(operand: Any, dense: Array) -> SparsePlan:
    """A plan that was called once."""
    plan = teir.plan("ij,jk->ik", operand, dense)
    assert isinstance(plan, SparsePlan)
    plan(operand, dense)
    return plan


B, C = integers(9, 7, density=0.4), integers(7, 5)


@pytest.fixture
def csr() -> Any:
    return scipy_sparse.csr_array(B)


@pytest.mark.parametrize("kind", ["csr", "csc", "frozen", "levels", "coo frozen"])
def test_the_second_call_looks_at_nothing_twice(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operand: Any = scipy_sparse.csr_array(B).asformat(kind.split()[0] if kind[:1] == "c" else "csr")
    if kind not in ("csr", "csc"):
        operand = teir.Sparse.from_scipy(operand, frozen="frozen" in kind)
    plan = planned(operand, C)
    monkeypatch.setattr(sparse_plan, "hold_all", None)
    other = integers(7, 5, seed=4)
    np.testing.assert_array_equal(plan(operand, other), B @ other)
    out = np.full((9, 5), np.nan)
    assert plan(operand, C, out=out) is out
    np.testing.assert_array_equal(out, B @ C)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *product(["coo", "dia"], ["ij,jk->ik", "ij->", "ij->j", "ij,ij->"]),
        *product(["coo", "dia", "bsr", "csr", "csc"], ["ii->i", "ii->", "ii,ij->j"]),
    ],
)
def test_copies_in_another_form_are_known(
    kind: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as nothing of the operand has changed."""
    matrix = scipy_sparse.bsr_array(np.kron(B[:7], np.ones((2, 2))), blocksize=(2, 2))
    operand = matrix.asformat(kind)
    others = {"ij,jk->ik": (integers(14, 5),), "ij->": (), "ij->j": (), "ii->i": (), "ii->": ()}
    given = others.get(text, (operand,))
    plan = teir.plan(text, operand, *given)
    assert isinstance(plan, SparsePlan)

    def expected() -> Array:
        dense = operand.toarray()
        return np.asarray(np.einsum(text, dense, *(dense if o is operand else o for o in given)))

    looks = []
    hold_all = sparse_plan.hold_all

    def counted(*arguments: Any) -> Any:
        looks.append(arguments)
        return hold_all(*arguments)

    plan(operand, *given)
    with monkeypatch.context() as patched:
        patched.setattr(sparse_plan, "hold_all", counted)
        for _ in range(3):
            np.testing.assert_array_equal(plan(operand, *given), expected())
    assert len(looks) <= 1, "only the call from which on specialised code pays may look again"
    before = expected()
    operand.data *= 2
    np.testing.assert_array_equal(plan(operand, *given), expected())
    assert not np.array_equal(expected(), before)


def test_copies_are_made_again_where_positions_change() -> None:
    coo = scipy_sparse.coo_array(B)
    dense = integers(7, 5)
    plan = planned(coo, dense)
    coo.coords[1][:] = coo.coords[1][::-1].copy()
    np.testing.assert_array_equal(plan(coo, dense), coo.toarray() @ dense)
    coo.coords[0][2] = 99
    with pytest.raises(TeirError):
        plan(coo, dense)


def test_scalars_are_scalars(csr: Any) -> None:
    plan = teir.plan("ij,ij->", csr, B)
    assert [plan(csr, B) for _ in range(3)] == [(B * B).sum()] * 3
    assert np.ndim(plan(csr, B)) == 0
    assert not isinstance(plan(csr, B), np.ndarray)


def test_values_changed_or_replaced_count(csr: Any) -> None:
    plan = planned(csr, C)
    csr.data *= 2
    np.testing.assert_array_equal(plan(csr, C), 2 * B @ C)
    csr.data = csr.data * 3
    np.testing.assert_array_equal(plan(csr, C), 6 * B @ C)


def test_index_arrays_broken_between_calls_are_refused(csr: Any) -> None:
    plan = planned(csr, C)
    csr.indices[3] = 99
    with pytest.raises(TeirError) as caught:
        plan(csr, C)
    assert caught.value.findings[0].code == "TEIR673"
    csr.indices[3] = B.shape[1]
    with pytest.raises(TeirError):
        teir.einsum("ij,jk->ik", csr, C)


def test_positions_changed_in_place_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other coordinates, and elements that move to another row, without planning anew."""
    csr = scipy_sparse.csr_array(np.eye(40, 60, k=3))
    dense = integers(60, 5)
    plan = planned(csr, dense)
    monkeypatch.setattr(sparse_plan, "hold_all", None)
    for _ in range(2):
        csr.indices[5:20] += 2
        np.testing.assert_array_equal(plan(csr, dense), csr.toarray() @ dense)
    csr.indptr[8:12] += 1
    np.testing.assert_array_equal(plan(csr, dense), csr.toarray() @ dense)


def test_coordinates_that_fall_in_a_fibre_are_seen() -> None:
    """Twice the same coordinate is refused; in a matrix of SciPy it means the sum of both."""
    csr, dense = scipy_sparse.csr_array(np.ones((2, 30))), integers(30, 5)
    shared = teir.Sparse.from_levels((2, 30), "ds", {1: (csr.indptr, csr.indices)}, csr.data)
    plans = planned(shared, dense), planned(csr, dense)
    for place in (1, 16, 29, 31, 59):
        before = csr.indices[place]
        csr.indices[place] = csr.indices[place - 1]
        with pytest.raises(TeirError) as caught:
            plans[0](shared, dense)
        assert caught.value.findings[0].code == "TEIR673"
        np.testing.assert_array_equal(plans[1](csr, dense), csr.toarray() @ dense)
        csr.indices[place] = before
        for plan, operand in zip(plans, (shared, csr), strict=True):
            np.testing.assert_array_equal(plan(operand, dense), csr.toarray() @ dense)


def test_replaced_index_arrays_count(csr: Any) -> None:
    plan = planned(csr, C)
    other = scipy_sparse.csr_array(integers(9, 7, seed=8, density=0.6))
    csr.data, csr.indices, csr.indptr = other.data, other.indices, other.indptr
    np.testing.assert_array_equal(plan(csr, C), other @ C)


def test_other_layouts_types_and_shapes(csr: Any) -> None:
    plan = planned(csr, C)
    for _ in range(2):
        np.testing.assert_array_equal(plan(csr, np.asfortranarray(C)), B @ C)
        np.testing.assert_array_equal(plan(csr, C), B @ C)
        wide = np.concatenate([C, C], axis=1)
        np.testing.assert_array_equal(plan(csr, wide[:, ::2]), B @ wide[:, ::2])
        for wrong in (wide, C.astype(np.float32)):
            with pytest.raises(TeirError):
                plan(csr, wrong)


def test_a_wrong_out_is_refused_at_every_call(csr: Any) -> None:
    plan = planned(csr, C)
    space = np.zeros(400)
    shared = space[:35].reshape(7, 5)
    shared[...] = C
    for out in (np.zeros((9, 4)), np.zeros((5, 9)).T, space[20:65].reshape(9, 5)):
        with pytest.raises(TeirError) as caught:
            plan(csr, shared, out=out)
        assert caught.value.findings[0].code == "TEIR686"


def test_threads_are_integers_of_any_kind() -> None:
    csr = scipy_sparse.csr_array(B)
    for threads in (2, np.int64(2), np.array(2)):
        np.testing.assert_array_equal(teir.einsum("ij,jk->ik", csr, C, threads=threads), B @ C)


def test_objects_are_numbers_or_refused() -> None:
    csr = scipy_sparse.csr_array(B)
    result = teir.einsum("C[i,j] = A[i,j] * s", csr, 2**70)
    np.testing.assert_array_equal(result, B * 2.0**70)
    for wrong in (10**400, np.array(None), np.float32, object()):
        with pytest.raises(TeirError):
            teir.einsum("C[i,j] = A[i,j] * s", csr, wrong)


def test_einsum_knows_its_calls_until_an_operand_dies(csr: Any) -> None:
    teir.einsum("ij,jk->ik", csr, C)
    known = len(sparse_calls().entries)
    np.testing.assert_array_equal(teir.einsum("ij,jk->ik", csr, C), B @ C)
    np.testing.assert_array_equal(teir.einsum("ij,jk->ik", csr, C, threads=1), B @ C)
    other = scipy_sparse.csr_array(2 * B)
    # The first call of a kind seen before is not worth knowing.
    for _ in range(2):
        teir.einsum("ij,jk->ik", other, C)
    assert len(sparse_calls().entries) >= min(known + 1, 16)
    key = next(key for key in sparse_calls().entries if id(other) in key)
    del other
    gc.collect()
    assert key not in sparse_calls().entries


@pytest.mark.parametrize(
    "text", ["y[i] = 2 * B[i,j] * x[j] - z[i]", "y = B[i,j] * x[j] + z[i] / 2"]
)
def test_sums_with_a_dense_result_are_known(
    text: str, csr: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = teir.plan(text, csr, integers(7), integers(9))
    assert isinstance(plan, SparsePlan)
    plan(csr, integers(7), integers(9))
    with monkeypatch.context() as patched:
        patched.setattr(sparse_plan, "hold_all", None)
        for seed in (1, 2):
            x, z = integers(7, seed=seed), integers(9, seed=seed)
            whole = 2 * B @ x - z if "2 *" in text else (B @ x).sum() + z.sum() / 2
            np.testing.assert_array_equal(plan(csr, x, z), whole)
            csr.data[:] *= 1
    with pytest.raises(TeirError):
        plan(csr, integers(7), integers(8))
    if "y[i]" in text:
        z = integers(9, seed=3)
        with pytest.raises(TeirError):
            plan(csr, integers(7), z, out=z)
        np.testing.assert_array_equal(z, integers(9, seed=3))
        out = np.full(9, np.nan)
        np.testing.assert_array_equal(plan(csr, x, z, out=out), 2 * B @ x - z)


SUMS_INTO_OUT = {
    "y[i] = 2 * B[i,j] * x[j] - z[i]": lambda x, z: 2 * B @ x - z,
    "y[i] += 2 * B[i,j] * x[j] - z[i]": lambda x, z: 1 + 2 * B @ x - z,
    "y[i] += B[i,j] * x[j] * z[i]": lambda x, z: 1 + B @ x * z,
}


@pytest.mark.parametrize("text", SUMS_INTO_OUT)
def test_sums_into_a_given_out_are_known(
    text: str, csr: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, z = integers(7), integers(9)
    plan = teir.plan(text, csr, x, z)
    assert isinstance(plan, SparsePlan)
    plan(csr, x, z, out=np.ones(9))
    with monkeypatch.context() as patched:
        patched.setattr(sparse_plan, "hold_all", None)
        for seed in (1, 2):
            x, z, out = integers(7, seed=seed), integers(9, seed=seed), np.ones(9)
            assert plan(csr, x, z, out=out) is out
            np.testing.assert_array_equal(out, SUMS_INTO_OUT[text](x, z))
    for wrong in (z, np.ones(9, np.float32), np.ones(8), np.ones(18)[::2], csr.data[:9], None):
        if wrong is None and "+=" not in text:
            continue
        before = None if wrong is None else wrong.copy()
        with pytest.raises(TeirError) as caught:
            plan(csr, x, z, out=wrong)
        assert caught.value.findings[0].code == "TEIR686"
        np.testing.assert_array_equal(wrong, before)
    csr.indices[0] = 99
    out = np.ones(9)
    with pytest.raises(TeirError):
        plan(csr, x, z, out=out)
    np.testing.assert_array_equal(out, np.ones(9))


def test_a_scalar_sum_goes_into_its_out(csr: Any) -> None:
    plan = teir.plan("y = B[i,j] * x[j] + z[i]", csr, integers(7), integers(9))
    for seed in (0, 1, 2):
        x, z, out = integers(7, seed=seed), integers(9, seed=seed), np.zeros(())
        assert plan(csr, x, z, out=out) is out
        assert out == (B @ x).sum() + z.sum()


def test_large_sums_take_the_way_that_needs_less_memory(
    csr: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_calls, "_MOST_BYTES", 9 * 5 * 8 - 1)
    text = "Y[i,k] = B[i,j] * X[j,k] - Z[i,k]"
    z = integers(9, 5, seed=1)
    plan = teir.plan(text, csr, C, z)
    assert isinstance(plan, SparsePlan)
    for _ in range(2):
        out = np.full((9, 5), np.nan)
        np.testing.assert_array_equal(plan(csr, C, z, out=out), B @ C - z)
    (call,) = plan.calls.entries.values()
    assert call.run((csr, C, z), np.zeros((9, 5))) is NotImplemented
    np.testing.assert_array_equal(call.run((csr, C, z), None), B @ C - z)


def test_broken_index_arrays_of_a_sum_are_refused(csr: Any) -> None:
    plan = teir.plan("y[i] = B[i,j] * x[j] + z[i]", csr, integers(7), integers(9))
    plan(csr, integers(7), integers(9))
    csr.indices[0] = 99
    with pytest.raises(TeirError):
        plan(csr, integers(7), integers(9))


@pytest.mark.parametrize("expression", ["ij,jk->ik", "ij,j->i", "A[i,k] = 2 * B[i,j] * C[j,k]"])
def test_blocks_out_of_order_are_read_in_order(expression: str) -> None:
    draw = np.random.default_rng(6)
    matrix = scipy_sparse.random_array((16, 20), density=0.1, format="csr", rng=draw)
    turned = matrix.tobsr((2, 2))
    assert not turned.has_sorted_indices
    other = draw.standard_normal((20, 5) if "k" in expression else 20)
    number = 2 if "2" in expression else 1
    plan = teir.plan(expression, turned, other)
    for _ in range(3):
        found = plan(turned, other), teir.einsum(expression, turned, other)
        for one in found:
            np.testing.assert_allclose(one, number * (matrix @ other))
        turned.data *= 2
        matrix = 2 * matrix


@pytest.mark.parametrize("expression", ["ij,jk->ik", "ij,j->i", "A[i,k] = 2 * B[i,j] * C[j,k]"])
def test_blocks_with_dense_results_are_known(
    monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    draw = np.random.default_rng(4)

    def blocked() -> Any:
        pattern = scipy_sparse.random_array((20, 30), density=0.2, format="csr", rng=draw)
        data = draw.standard_normal((pattern.nnz, 2, 3))
        return scipy_sparse.bsr_array((data, pattern.indices, pattern.indptr), shape=(40, 90))

    other = draw.standard_normal((90, 5) if "k" in expression else 90)
    number = 2 if "2" in expression else 1
    given, new = blocked(), blocked()
    plan = teir.plan(expression, given, other)
    plan(given, other)
    monkeypatch.setattr(sparse_plan, "hold_all", None)
    for one in (given, new, given):
        np.testing.assert_allclose(plan(one, other), number * (one @ other))
    given.data[:] = draw.standard_normal(given.data.shape)
    np.testing.assert_allclose(plan(given, other), number * (given @ other))
    given.data = draw.standard_normal(given.data.shape)
    np.testing.assert_allclose(plan(given, other), number * (given @ other))
    given.indices[0] = 30
    monkeypatch.undo()
    with pytest.raises(TeirError):
        plan(given, other)
