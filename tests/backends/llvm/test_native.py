"""Memory of runs: a first run takes what another program's first run left."""

from __future__ import annotations

import threading

import numpy as np

import teir
from teir.backends.llvm.native import NativeProgram, SpareMemory, spare_memory


def planned(rows: int) -> tuple[teir.Plan, NativeProgram, tuple[np.ndarray, ...]]:
    """A product that packs, so that it has scratch."""
    draw = np.random.default_rng(rows)
    a, b = draw.random((rows, 200)), draw.random((150, 200))
    plan = teir.plan("ij,kj->ik", a, b, threads=1)
    assert plan.executable is not None
    assert plan.memory_bytes > 0
    return plan, plan.executable.native, (a, b, np.zeros((rows, 150)))


def run(native: NativeProgram, arrays: tuple[np.ndarray, ...]) -> None:
    native.run(tuple(array.ctypes.data for array in arrays))


def right(arrays: tuple[np.ndarray, ...]) -> bool:
    a, b, out = arrays
    return bool(np.allclose(out, a @ b.T))


def new_program(rows: int) -> tuple[NativeProgram, tuple[np.ndarray, ...]]:
    """One that has never run: a plan's native entry keeps memory of its own."""
    plan, _, arrays = planned(rows)
    executable = teir.compile(plan.program, threads=1)
    return executable.native, arrays


def test_first_runs_share_memory_and_later_ones_have_their_own() -> None:
    one, arrays_of_one = new_program(300)
    two, arrays_of_two = new_program(200)
    run(one, arrays_of_one)
    (memory,) = spare_memory()._memory
    memory[:] = 255
    run(two, arrays_of_two)
    assert spare_memory()._memory == [memory]
    assert not (memory == 255).all()
    memory[:] = 255
    run(two, arrays_of_two)
    assert (memory == 255).all()
    assert right(arrays_of_one)
    assert right(arrays_of_two)


def test_first_runs_at_once_have_memory_each() -> None:
    programs = [new_program(200 + 3 * number) for number in range(8)]
    threads = [threading.Thread(target=run, args=one) for one in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(right(arrays) for _, arrays in programs)


def test_one_piece_is_kept_and_no_large_one() -> None:
    spare = SpareMemory([])
    small, large = np.empty(100, np.uint8), np.empty(33 << 20, np.uint8)
    spare.give(small)
    spare.give(np.empty(200, np.uint8))
    assert spare.take(100) is small
    assert spare.take(100) is not small
    spare.give(large)
    assert spare.take(1) is not large
    spare.give(small)
    assert spare.take(33 << 20).size == 33 << 20
    assert spare.take(50) is small
    spare.give(small)
    assert spare.take(101).size == 101
    assert spare.take(50) is not small
