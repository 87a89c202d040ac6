"""Memory of runs: what runs of other programs left, and what all programs share."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import teir
from teir.backends.llvm.native import NativeProgram
from teir.backends.llvm.run_memory import (
    MOST_SHARED_BYTES,
    SpareMemory,
    entry_scratch,
    spare_memory,
)

USED_BYTES = 1 << 20
"""So many of the bytes shared by runs are looked at."""


Planned = tuple[teir.Plan, NativeProgram, tuple[np.ndarray, ...]]

LITTLE, MUCH = "ij,kj->ik", "ikj,jk->i"
"""Products that pack: a few rows at a time, and a matrix of half a million elements as a whole."""


def planned(rows: int, text: str) -> Planned:
    draw = np.random.default_rng(rows)
    if text == LITTLE:
        a, b, out = draw.random((rows, 200)), draw.random((100, 200)), np.zeros((rows, 100))
    else:
        a, b, out = draw.random((rows, 500, 510)), draw.random((510, 500)), np.zeros(rows)
    plan = teir.plan(text, a, b, threads=1)
    assert plan.executable is not None
    assert (plan.memory_bytes >= USED_BYTES) is (text == MUCH)
    return plan, plan.executable.native, (a, b, out)


def run(native: NativeProgram, arrays: tuple[np.ndarray, ...]) -> None:
    native.run(tuple(array.ctypes.data for array in arrays))


def right(arrays: tuple[np.ndarray, ...]) -> bool:
    a, b, out = arrays
    expected = a @ b.T if a.ndim == b.ndim else np.tensordot(a, b.T, 2)
    return bool(np.allclose(out, expected))


def new_program(rows: int, text: str) -> tuple[NativeProgram, tuple[np.ndarray, ...]]:
    """One that has never run: a plan's native entry keeps memory of its own."""
    plan, _, arrays = planned(rows, text)
    executable = teir.compile(plan.program, threads=1)
    return executable.native, arrays


def test_first_runs_share_memory_and_later_ones_have_their_own() -> None:
    one, arrays_of_one = new_program(300, LITTLE)
    two, arrays_of_two = new_program(200, LITTLE)
    run(one, arrays_of_one)
    (memory,) = spare_memory()._memory
    begin = memory[:USED_BYTES]
    begin[:] = 255
    run(two, arrays_of_two)
    assert spare_memory()._memory == [memory]
    assert not (begin == 255).all()
    begin[:] = 255
    run(two, arrays_of_two)
    assert (begin == 255).all()
    assert right(arrays_of_one)
    assert right(arrays_of_two)


def test_first_runs_at_once_have_memory_each() -> None:
    programs = [new_program(200 + 3 * number, LITTLE) for number in range(8)]
    threads = [threading.Thread(target=run, args=one) for one in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(right(arrays) for _, arrays in programs)


def test_one_piece_is_kept_and_no_larger_one() -> None:
    spare = SpareMemory([])
    one, other = spare.take(100), spare.take(200)
    assert one.size == other.size == MOST_SHARED_BYTES
    spare.give(one)
    spare.give(other)
    assert spare.take(MOST_SHARED_BYTES) is one
    assert spare.take(100) is not other
    large = spare.take(MOST_SHARED_BYTES + 1)
    assert large.size == MOST_SHARED_BYTES + 1
    spare.give(large)
    assert spare.take(1) is not large


def test_all_runs_with_much_scratch_share_memory() -> None:
    one, arrays_of_one = new_program(3, MUCH)
    two, arrays_of_two = new_program(5, MUCH)
    assert one.shares_scratch
    assert two.shares_scratch
    for _ in range(2):
        run(one, arrays_of_one)
        run(two, arrays_of_two)
    assert not one._idle
    assert not two._idle
    assert right(arrays_of_one)
    assert right(arrays_of_two)


def test_native_calls_of_plans_share_scratch() -> None:
    (one, _, arrays_of_one), (two, _, arrays_of_two) = planned(3, MUCH), planned(5, MUCH)
    begin = entry_scratch().memory[:USED_BYTES]
    for plan, arrays in ((one, arrays_of_one), (two, arrays_of_two)):
        begin[:] = 255
        a, b, out = arrays
        assert plan.entry is not None
        assert plan.entry(a, b, out) is None
        assert not (begin == 255).all()
        assert right(arrays)
    assert entry_scratch().is_used[0] == 0


def test_a_call_while_another_uses_the_scratch_is_right() -> None:
    plan, _, arrays = planned(3, MUCH)
    a, b, out = arrays
    shared = entry_scratch()
    begin = shared.memory[:USED_BYTES]
    begin[:] = 255
    shared.is_used[0] = 1
    try:
        assert plan.entry is not None
        assert plan.entry(a, b, out) is NotImplemented
        assert plan(a, b, out=out) is out
    finally:
        shared.is_used[0] = 0
    assert (begin == 255).all()
    assert right(arrays)


def test_calls_of_two_plans_at_once_are_right() -> None:
    plans = [planned(3 + number, MUCH) for number in range(4)]

    def call(plan: teir.Plan, arrays: tuple[np.ndarray, ...]) -> None:
        a, b, out = arrays
        for _ in range(20):
            out[:] = 0
            plan(a, b, out=out)
            assert right(arrays)
            done.append(plan)

    done: list[teir.Plan] = []
    threads = [threading.Thread(target=call, args=(plan, arrays)) for plan, _, arrays in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 80


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_may_use_the_scratch_that_a_run_of_the_parent_has() -> None:
    shared = entry_scratch()
    shared.is_used[0] = 1
    child = os.fork()
    if not child:
        os._exit(shared.is_used[0])
    shared.is_used[0] = 0
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
