"""Calls of einsum that were seen before: native code knows them by their arrays alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.backends.llvm.native import NativeProgram
from teir.pipeline import plan_cache
from teir.pipeline.plan_cache import PlanCache
from teir.pipeline.planning import kept_plans


@pytest.fixture(autouse=True)
def no_plans() -> None:
    kept_plans().clear()


def drawn(*shape: int, kind: Any = np.float64) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape).astype(kind)


def test_calls_that_alternate_are_told_apart() -> None:
    pairs = [(drawn(3, 4), drawn(4, 5)), (drawn(2, 7), drawn(7, 6))]
    pairs += [(a.astype(np.float32), b.astype(np.float32)) for a, b in pairs]
    pairs += [(np.asfortranarray(a), b) for a, b in pairs[:2]]
    for _ in range(4):
        for a, b in pairs:
            result = teir.einsum("ij,jk->ik", a, b)
            assert result.dtype == a.dtype
            np.testing.assert_allclose(result, a @ b, rtol=1e-6)
            out = np.empty_like(result)
            assert teir.einsum("ij,jk->ik", a, b, out=out) is out
            np.testing.assert_array_equal(out, result)


def test_the_latest_plan_is_tried_before_keys() -> None:
    a, b = drawn(3, 4), drawn(4, 5)
    kept = kept_plans()
    for _ in range(2):
        teir.einsum("ij,jk->ik", a, b)
    (plan,) = kept.plans.values()
    assert kept.latest == {"ij,jk->ik": plan}
    kept.plans.clear()
    np.testing.assert_allclose(teir.einsum("ij,jk->ik", a, b), a @ b)
    assert not kept.plans


def test_results_without_axes_are_scalars() -> None:
    a = drawn(50, kind=np.float32)
    for _ in range(3):
        result = teir.einsum("i,i->", a, a)
        assert type(result) is np.float32
        np.testing.assert_allclose(result, a @ a, rtol=1e-5)


def test_wrong_operands_are_refused_after_known_calls() -> None:
    a, b = drawn(3, 4), drawn(4, 5)
    for _ in range(3):
        teir.einsum("ij,jk->ik", a, b)
    for operands in ((a,), (a, b, b), (b, a), (a, None)):
        with pytest.raises(teir.TeirError):
            teir.einsum("ij,jk->ik", *operands)
    with pytest.raises(teir.TeirError):
        teir.einsum("ij,jk->ik", a, b, out=np.empty((3, 4)))


def test_forgotten_plans_are_no_longer_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MOST_PLANS", 2)
    kept = kept_plans()
    for extent in range(2, 6):
        for expression in ("ij->ji", "ij,jk->ik"):
            arrays = [drawn(extent, extent)] * (expression.count(",") + 1)
            for _ in range(3):
                teir.einsum(expression, *arrays)
    assert all(any(one is plan for plan in kept.plans.values()) for one in kept.latest.values())
    assert len(kept.latest) <= 2
    kept.clear()
    assert not kept.latest


def test_a_plan_that_was_not_kept_is_not_tried() -> None:
    a = drawn(3, 4)
    plan = teir.plan("ij->ji", a)
    cache = PlanCache()
    cache.try_first(("ij->ji", a.dtype, a.shape, a.strides), plan)
    assert not cache.latest


def test_the_run_from_which_on_specialised_code_pays_is_counted_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = drawn(3, 4), drawn(4, 5)
    for _ in range(2):
        teir.einsum("ij,jk->ik", a, b)
    (plan,) = kept_plans().latest.values()
    assert plan.executable is not None
    native = plan.executable.native
    counted = []
    monkeypatch.setattr(NativeProgram, "_count_run", lambda self: counted.append(self))
    native.runs_left[0] = 3
    for run in range(1, 6):
        np.testing.assert_allclose(teir.einsum("ij,jk->ik", a, b), a @ b)
        assert counted == [native] * (run >= 3)
