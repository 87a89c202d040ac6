"""Plans and executables do not leave their process; what they are made of does."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import teir
from teir.pipeline.process_bound import ProcessBound


@pytest.fixture(scope="module")
def plan() -> teir.Plan:
    return teir.plan("ij,jk->ik", (3, 4), (4, 5), threads=1)


def test_a_copy_is_the_value_itself(plan: teir.Plan) -> None:
    assert copy.copy(plan) is plan
    assert copy.deepcopy([plan])[0] is plan
    assert copy.deepcopy(plan.executable) is plan.executable


def test_plans_and_executables_are_equal_and_hash_by_identity(plan: teir.Plan) -> None:
    array = teir.Sparse.from_coo(np.diag_indices(3), np.ones(3), (3, 3))
    sparse = teir.plan("ij,jk->ik", array, (3, 2), threads=1)
    again = teir.plan("ij,jk->ik", array, (3, 2), threads=1)
    compiled = teir.compile(plan.program, threads=1)
    values = (plan, plan.executable, compiled, sparse, again)
    assert len(dict.fromkeys(values)) == len(set(map(id, values)))
    assert all(value == value for value in values)
    assert sparse != again


def test_pickling_is_refused_with_the_way_out(plan: teir.Plan) -> None:
    with pytest.raises(TypeError, match=r"a teir Plan .* teir\.Program"):
        pickle.dumps(plan)
    with pytest.raises(TypeError, match="a teir Executable"):
        pickle.dumps(plan.executable)


def test_plans_of_sparse_products_stay_too() -> None:
    array = teir.Sparse.from_coo(np.diag_indices(3), np.ones(3), (3, 3))
    plan = teir.plan("ij,jk->ik", array, (3, 2), threads=1)
    assert copy.copy(plan) is plan
    assert copy.deepcopy([plan])[0] is plan
    with pytest.raises(TypeError, match="a teir SparsePlan"):
        pickle.dumps(plan)


def test_programs_reports_findings_and_sparse_arrays_travel(plan: teir.Plan) -> None:
    for value in (plan.program, teir.check(plan.program)):
        assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(teir.TeirError) as caught:
        teir.loads("x")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    array = teir.Sparse.from_levels((3, 3), "ds", {1: (np.arange(4), np.arange(3))}, np.ones(3))
    again = pickle.loads(pickle.dumps(array))
    np.testing.assert_array_equal(again.to_dense(), np.eye(3))


def test_the_refusal_names_the_type() -> None:
    class Handle(ProcessBound):
        __slots__ = ()

    with pytest.raises(TypeError, match="a teir Handle"):
        pickle.dumps(Handle())
