"""The pool: every point once, whoever does it; callers never wait for each other."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backends.llvm.small_programs import add, elementwise, grid, program, slot, steps
from teir.backends.llvm import pool_ir
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.layout import ARENA_STRIDE_BYTES, slot_bytes
from teir.backends.llvm.library import code_library
from teir.backends.llvm.native import Context, NativeProgram, bind_native
from teir.backends.llvm.pool import (
    ExecutorPool,
    ForkFunction,
    JobFunction,
    NativePool,
    thread_pool,
)
from teir.ir.nodes import Operation
from teir.lower.kernel_program import Storage
from teir.runtime import runtime
from teir.runtime.runtime import Runtime

COUNT = 1000

POINTS = program(
    "a b out",
    grid(add((0, 0), (1, 0), (2, 0)), axes=((COUNT, steps((0, 1), (1, 1), (2, 1)), None),)),
)
SCRATCH = program(
    "a b out",
    grid(
        elementwise(Operation.COPY, (0, 0), (3, 0)),
        add((3, 0), (1, 0), (2, 0)),
        axes=((COUNT, steps((0, 1), (1, 1), (2, 1)), None),),
    ),
    scratch=(slot("own", Storage.THREAD),),
)


class OnPool:
    """A native program whose grids use a given pool."""

    def __init__(self, native: NativeProgram, pool: ExecutorPool | NativePool) -> None:
        self.native = native
        self.pool = pool

    def run(self, addresses: tuple[int, ...]) -> None:
        self.pool.ensure_running(self.native.threads - 1)
        context = self.native.take_context()
        context.memory[context.frame - context.memory.ctypes.data :][8:16].view(np.int64)[0] = (
            self.pool.address
        )
        self.native.place(context, addresses)
        self.native.call(context)


class ShortPool(NativePool):
    """A pool in a process that the system gives two threads."""

    __slots__ = ()

    def _start(self, participant: int) -> bool:
        return participant <= 2 and super()._start(participant)


def arrays(seed: int) -> list[np.ndarray]:
    numbers = np.random.default_rng(seed)
    return [numbers.standard_normal(COUNT).astype(np.float32) for _ in range(3)]


def run_many(run: Callable[[tuple[int, ...]], None], seed: int, times: int) -> bool:
    a, b, out = arrays(seed)
    for _ in range(times):
        out[:] = 0
        run((a.ctypes.data, b.ctypes.data, out.ctypes.data))
        if not np.array_equal(out, a + b):
            return False
    return True


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("kernel_program", [POINTS, SCRATCH], ids=["points", "scratch"])
def test_every_point_is_done_once(kernel_program: object, threads: int) -> None:
    native = bind_native(kernel_program, host_isa(), threads)
    assert run_many(native.run, 1, 300)


@pytest.mark.parametrize("kernel_program", [POINTS, SCRATCH], ids=["points", "scratch"])
def test_callers_at_once(kernel_program: object) -> None:
    native = bind_native(kernel_program, host_isa(), 3)
    good = [False] * 6

    def call(number: int) -> None:
        good[number] = run_many(native.run, number, 100)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(len(good))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(good)


@pytest.mark.parametrize("kernel_program", [POINTS, SCRATCH], ids=["points", "scratch"])
def test_the_standard_librarys_pool(kernel_program: object) -> None:
    pool = ExecutorPool()
    native = OnPool(bind_native(kernel_program, host_isa(), 3), pool)
    assert run_many(native.run, 3, 20)
    assert pool.workers == 2
    pool.after_fork_in_child()
    assert pool.workers == 0
    assert run_many(native.run, 4, 5)


def test_a_pool_of_ones_own_starts_as_many_threads_as_asked() -> None:
    own = Runtime()
    library = code_library(runtime.current(), host_isa())
    pool = thread_pool(own, library)
    assert pool is thread_pool(own, library)
    before = len(os.listdir("/proc/self/task"))
    pool.ensure_running(3)
    pool.ensure_running(2)
    assert len(os.listdir("/proc/self/task")) == before + 3


def test_threads_that_the_system_does_not_give_are_done_without() -> None:
    pool = ShortPool(code_library(runtime.current(), host_isa()))
    pool.ensure_running(4)
    assert pool.workers == 2
    assert run_many(OnPool(bind_native(SCRATCH, host_isa(), 5), pool).run, 2, 5)


def test_a_pool_asked_while_it_starts_a_worker_starts_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a finalizer asks, on the thread that starts them; a signal handler has to wait."""
    pool = NativePool(code_library(runtime.current(), host_isa()))
    participants: list[int] = []

    def start(self: NativePool, participant: int) -> bool:
        assert signal.SIGALRM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        participants.append(participant)
        self.ensure_running(3)
        return True

    monkeypatch.setattr(NativePool, "_start", start)
    pool.ensure_running(2)
    assert (participants, pool.workers) == ([1, 2], 2)
    pool.ensure_running(3)
    assert participants == [1, 2, 3]
    assert signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_handler_that_raises_while_workers_start_leaves_the_pool_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It runs before all signals are blocked, or after that."""
    pool = NativePool(code_library(runtime.current(), host_isa()))
    monkeypatch.setattr(NativePool, "_start", lambda *_: True)
    block = signal.pthread_sigmask

    def interrupted(how: int, signals: Any) -> Any:
        before = block(how, signals)
        if how == signal.SIG_BLOCK and signals:
            monkeypatch.setattr(signal, "pthread_sigmask", block)
            raise KeyboardInterrupt
        return before

    monkeypatch.setattr(signal, "pthread_sigmask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.ensure_running(2)
    assert signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    pool.ensure_running(2)
    assert pool.workers == 2


def test_the_standard_librarys_pool_in_use_starts_no_more() -> None:
    pool = ExecutorPool()
    pool.ensure_running(1)
    with pool._busy:
        pool.ensure_running(2)
    assert pool.workers == 1
    pool.ensure_running(2)
    assert pool.workers == 2


def test_workers_block_all_signals() -> None:
    native = bind_native(POINTS, host_isa(), 2)
    assert run_many(native.run, 1, 1)
    names = {str(thread.native_id) for thread in threading.enumerate()}
    foreign = [task for task in os.listdir("/proc/self/task") if task not in names]
    blocked = 0
    wanted = 1 << (signal.SIGINT - 1)
    for task in foreign:
        with open(f"/proc/self/task/{task}/status") as status:
            mask = next(line for line in status if line.startswith("SigBlk"))
        blocked += bool(int(mask.split()[1], 16) & wanted)
    assert blocked >= 1


@pytest.fixture
def one_processor() -> Iterator[None]:
    """This thread, and those it starts, on one of the processors it may use."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    yield
    os.sched_setaffinity(0, usable)


def seconds_on_processor(thread: str) -> float:
    with open(f"/proc/self/task/{thread}/schedstat") as times:
        return 1e-9 * int(times.read().split()[0])


@pytest.mark.usefixtures("one_processor")
@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="no times of threads")
def test_a_spinning_worker_leaves_the_processor_to_its_caller() -> None:
    pool = NativePool(code_library(runtime.current(), host_isa()))
    before = set(os.listdir("/proc/self/task"))
    pool.ensure_running(1)
    (worker,) = set(os.listdir("/proc/self/task")) - before
    caller = str(threading.get_native_id())
    started = [seconds_on_processor(thread) for thread in (worker, caller)]
    assert run_many(OnPool(bind_native(POINTS, host_isa(), 2), pool).run, 6, 2000)
    ended = [seconds_on_processor(thread) for thread in (worker, caller)]
    assert ended[0] - started[0] < (ended[1] - started[1]) / 4


def fork_chunks(pool: NativePool, chunks: int, threads: int) -> dict[int, list[int]]:
    """The chunks that every participant of a job took, in its order."""
    taken: dict[int, list[int]] = {number: [] for number in range(threads)}

    def take(_node: int, _frame: int, participant: int, chunk: int, count: int) -> None:
        assert count == chunks
        taken[participant].append(chunk)
        time.sleep(1e-4)

    job = JobFunction(take)
    fork = ForkFunction(ctypes.c_int64.from_address(pool.address + pool_ir.FORK_BYTES).value)
    assert fork(pool.address, ctypes.cast(job, ctypes.c_void_p), None, None, chunks, threads)
    return taken


@pytest.mark.parametrize("threads", [2, 4])
def test_participants_take_chunks_from_both_ends(threads: int) -> None:
    pool = NativePool(code_library(runtime.current(), host_isa()))
    pool.ensure_running(threads - 1)
    for chunks in (1, 2, 7, 100):
        taken = fork_chunks(pool, chunks, threads)
        assert sorted(chunk for own in taken.values() for chunk in own) == list(range(chunks))
        first = sorted(chunk for number in range(0, threads, 2) for chunk in taken[number])
        assert first == list(range(len(first)))
        for number, own in taken.items():
            assert own == sorted(own, reverse=bool(number % 2))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_workers_stay_off_the_processor_of_their_caller() -> None:
    usable = os.sched_getaffinity(0)
    pool = NativePool(code_library(runtime.current(), host_isa()))
    before = set(os.listdir("/proc/self/task"))
    pool.ensure_running(2)
    workers = [int(task) for task in set(os.listdir("/proc/self/task")) - before]
    native = OnPool(bind_native(POINTS, host_isa(), 3), pool)
    try:
        for here in (min(usable), max(usable), min(usable)):
            os.sched_setaffinity(0, {here})
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                assert run_many(native.run, here, 5)
                if all(here not in os.sched_getaffinity(worker) for worker in workers):
                    break
            assert [os.sched_getaffinity(worker) for worker in workers] == [usable - {here}] * 2
    finally:
        os.sched_setaffinity(0, usable)


@pytest.mark.usefixtures("one_processor")
def test_workers_share_the_only_processor_with_their_caller() -> None:
    pool = NativePool(code_library(runtime.current(), host_isa()))
    pool.ensure_running(1)
    assert run_many(OnPool(bind_native(POINTS, host_isa(), 2), pool).run, 7, 20)


def worker_arena(context: Context) -> np.ndarray:
    """What the second participant of a grid of SCRATCH writes to."""
    memory = context.memory
    start = memory.ctypes.data
    stride = memory[context.frame - start + ARENA_STRIDE_BYTES :][:8].view(np.int64)[0]
    own = memory[context.frame - start + slot_bytes(3) :][:8].view(np.int64)[0]
    return memory[own - start + stride :][:4]


def test_threadpoolctl_limits_the_pool() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    native = bind_native(SCRATCH, host_isa(), 2)
    pool = native.pool
    assert isinstance(pool, NativePool)
    a, b, out = arrays(5)
    a += 10
    addresses = tuple(array.ctypes.data for array in (a, b, out))
    pool.ensure_running(1)
    context = native.take_context()
    native.place(context, addresses)
    arena = worker_arena(context)
    with threadpoolctl.threadpool_limits(limits=1):
        assert pool.most_threads == 1
        arena[:] = 0
        for _ in range(300):
            native.call(context)
        assert not arena.any(), "a limit of one leaves the grid to its caller"
    for _ in range(20000):
        native.call(context)
        if arena.any():
            break
    assert arena.any(), "without the limit the worker takes part"
    np.testing.assert_array_equal(out, a + b)
