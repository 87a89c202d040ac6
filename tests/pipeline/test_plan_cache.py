"""Plans in memory: the oldest go when there are too many, or when they hold too much scratch."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import teir
from teir.pipeline import plan_cache
from teir.pipeline.plan import Plan
from teir.pipeline.plan_cache import PlanCache
from teir.pipeline.planning import kept_plans


def plan(extent: int) -> Plan:
    """A plan that needs scratch."""
    return teir.plan("ij,jk,kl->il", (extent, 20), (20, 30), (30, extent), threads=1)


def test_the_oldest_of_too_many_plans_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MOST_PLANS", 3)
    cache = PlanCache()
    plans = [plan(extent) for extent in range(20, 25)]
    for number, one in enumerate(plans):
        cache.keep(number, one)
    assert list(cache.plans) == [2, 3, 4]
    cache.keep(2, plans[2])
    cache.keep(5, plans[0])
    assert list(cache.plans) == [4, 2, 5]


def test_plans_that_hold_too_much_scratch_go(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = plan(40), plan(41), plan(42)
    room = two.memory_bytes + three.memory_bytes
    assert one.memory_bytes > 0
    monkeypatch.setattr(plan_cache, "MOST_BYTES", room)
    cache = PlanCache()
    for name, made in (("one", one), ("two", two), ("again", two), ("three", three)):
        cache.keep(name, made)
    assert list(cache.plans) == ["two", "again", "three"]
    monkeypatch.setattr(plan_cache, "MOST_BYTES", 1)
    cache.keep("last", one)
    assert list(cache.plans) == ["last"]
    cache.clear()
    assert not cache.plans
    monkeypatch.setattr(plan_cache, "MOST_BYTES", room)
    cache.keep("two", two)
    cache.keep("three", three)
    assert list(cache.plans) == ["two", "three"]


def test_threads_may_keep_plans_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MOST_PLANS", 8)
    cache = PlanCache()
    plans = [plan(extent) for extent in range(20, 24)]

    def keep(start: int) -> None:
        for number in range(200):
            cache.keep((start, number), plans[(start + number) % 4])

    threads = [threading.Thread(target=keep, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache.plans) == 8
    assert cache._bytes == sum({id(p): p.memory_bytes for p in cache.plans.values()}.values())


def test_a_call_in_the_middle_of_keeping_a_plan_is_answered() -> None:
    """As a signal handler or a finalizer makes it, on the thread that is in the middle."""
    cache, one, two = PlanCache(), plan(40), plan(41)

    class Calling:
        """A key that is asked for its hash while a plan is kept."""

        def __init__(self) -> None:
            self.calls = 0

        def __hash__(self) -> int:
            self.calls += 1
            if self.calls == 1:
                cache.keep("between", two)
                cache.try_first(("ij",), two)
            return 7

    cache.keep(Calling(), one)
    assert list(cache.plans.values()) == [one, two]
    assert cache._bytes == one.memory_bytes + two.memory_bytes


def test_only_a_plan_that_is_kept_is_tried_first() -> None:
    cache, one, two = PlanCache(), plan(40), plan(41)
    cache.keep(("ij", 40), one)
    cache.try_first(("ij", 41), two)
    assert not cache.latest
    cache.try_first(("ij", 40), one)
    assert cache.latest == {"ij": one}
    cache.keep(("ij", 40), two)
    assert not cache.latest


def test_keeping_that_is_interrupted_leaves_nothing_half_counted() -> None:
    cache = PlanCache()
    cache.keep("one", plan(40))

    class Interrupting:
        def __init__(self) -> None:
            self.calls = 0

        def __hash__(self) -> int:
            self.calls += 1
            if self.calls == 2:
                raise KeyboardInterrupt
            return 7

    with pytest.raises(KeyboardInterrupt):
        cache.keep(Interrupting(), plan(41))
    assert (len(cache.plans), cache._bytes) == (0, 0)
    cache.keep("two", plan(41))
    assert list(cache.plans) == ["two"]


def test_a_plan_of_an_einsum_seen_before_is_the_one_it_ran() -> None:
    a, b = np.ones((5, 6)), np.ones((6, 7))
    teir.einsum("xy,yz->xz", a, b)
    made = teir.plan("xy,yz->xz", a, b)
    assert made.executable is kept_plans().plans[_signature("xy,yz->xz", a, b)].executable
    assert made.is_callable
    np.testing.assert_array_equal(made(a, b), a @ b)
    assert teir.plan("xy,yz->xz", a, b) is made
    other = teir.plan("xy,yz->xz", a, b, deterministic="threads")
    assert other.executable is not made.executable


def _signature(subscripts: str, *arrays: np.ndarray) -> tuple[object, ...]:
    parts = [part for one in arrays for part in (one.dtype, one.shape, one.strides)]
    return (subscripts, *parts)
