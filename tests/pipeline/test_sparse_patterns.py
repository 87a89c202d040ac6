"""Products of operands that store the same positions, and sums that need no positions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import teir


def matrix(seed: int, pattern: int = 0, rows: int = 90, columns: int = 70) -> sp.csr_array:
    """Matrices of one ``pattern`` store the same positions."""
    made = sp.csr_array(sp.random(rows, columns, density=0.1, format="csr", random_state=pattern))
    made.data = np.random.default_rng(seed).standard_normal(made.nnz)
    return made


def takes_values_alone(plan: teir.SparsePlan) -> bool:
    return not any("crd" in tensor.name for tensor in plan.program.tensors)


@pytest.mark.parametrize("text", ["ij->", "ij,ij->", "ij,ij,ij->"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_of_all_elements_walk_no_positions(text: str, dtype: type) -> None:
    one = matrix(1).astype(dtype)
    operands = [one] * (text.count(",") + 1)
    plan = teir.plan(text, *operands)
    assert takes_values_alone(plan)
    wanted = (one.data.astype(np.float64) ** len(operands)).sum()
    for _ in range(3):
        assert plan(*operands) == pytest.approx(wanted, rel=1e-4 if dtype is np.float32 else 1e-12)


def test_values_of_later_calls_count() -> None:
    one = matrix(1)
    plan = teir.plan("ij->", one)
    assert plan(one) == plan(one) == pytest.approx(one.data.sum())
    one.data[3] = 1e3
    assert plan(one) == pytest.approx(one.data.sum())
    one.data = np.arange(one.nnz, dtype=float)
    assert plan(one) == pytest.approx(one.data.sum())
    larger = matrix(2, pattern=5)
    assert plan(larger) == pytest.approx(larger.data.sum())
    assert plan(sp.csr_array((90, 70))) == 0


@pytest.mark.parametrize("result", ["", "i", "j"])
@pytest.mark.parametrize("is_taken", [False, True], ids=["scipy", "teir"])
def test_equal_positions_are_walked_once(result: str, is_taken: bool) -> None:
    left, right = matrix(1), matrix(2)
    given = [teir.Sparse.from_scipy(one) if is_taken else one for one in (left, right)]
    plan = teir.plan(f"ij,ij->{result}", *given)
    (program,) = plan.programs
    assert all(len(axis.segments) < 2 for axis in program.axes)
    wanted = np.einsum(f"ij,ij->{result}", left.toarray(), right.toarray())
    for _ in range(3):
        np.testing.assert_allclose(plan(*given), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("result", ["", "i"])
def test_positions_that_change_are_noticed(result: str) -> None:
    """Index arrays of others may be written between calls: equal once is not equal for good."""
    left, right = matrix(1), matrix(2)
    plan = teir.plan(f"ij,ij->{result}", left, right)
    for _ in range(2):
        plan(left, right)
    row = int(np.flatnonzero(np.diff(right.indptr) > 0)[0])
    begin, end = right.indptr[row : row + 2]
    free = sorted(set(range(70)) - set(right.indices[begin:end].tolist()))
    right.indices[begin:end] = sorted(free[: end - begin])
    wanted = np.einsum(f"ij,ij->{result}", left.toarray(), right.toarray())
    np.testing.assert_allclose(plan(left, right), wanted, rtol=1e-12, atol=1e-12)


def test_other_positions_intersect() -> None:
    left, right = matrix(1), matrix(2, pattern=1)
    wanted = (left * right).sum()
    for _ in range(2):
        assert teir.einsum("ij,ij->", left, right) == pytest.approx(wanted)


def test_the_callers_arrays_stay_writable() -> None:
    left, right = matrix(1), matrix(2)
    teir.einsum("ij,ij->i", left, right)
    parts = (left.data, left.indices, left.indptr, right.data, right.indices, right.indptr)
    assert all(part.flags.writeable for part in parts)
