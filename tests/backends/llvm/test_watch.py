"""Ctrl-C and time limits end runs that would never end; everything else stays usable."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from backends.llvm.small_programs import ENDLESS, add, grid, loop, program
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.native import LONG_RUN_SECONDS, bind_native
from teir.backends.llvm.watch import RunTimeoutError, run_watched
from teir.errors import TeirError

ENDLESS_GRID = program(
    "a b out",
    grid(loop(2**30, (), add((0, 0), (1, 0), (2, 0))), axes=((2**30, (), None),)),
)
SHORT = program("a b out", add((0, 0), (1, 0), (2, 0)))


def addresses(count: int) -> tuple[np.ndarray, tuple[int, ...]]:
    memory = np.ones((count, 16), np.float32)
    return memory, tuple(row.ctypes.data for row in memory)


@pytest.fixture
def interrupt_soon() -> Iterator[Callable[[], None]]:
    """Starts the clock for a SIGINT to this process from another thread, as by a terminal."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    yield timer.start
    timer.join()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("endless", "threads"), [(ENDLESS, 1), (ENDLESS_GRID, 1), (ENDLESS_GRID, 3)]
)
def test_an_interrupt_ends_the_run(
    endless: object, threads: int, interrupt_soon: Callable[[], None]
) -> None:
    native = bind_native(endless, host_isa(), threads)
    memory, places = addresses(native.operand_count)
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        native.run(places)
    frozen = memory.copy()
    time.sleep(0.02)
    np.testing.assert_array_equal(memory, frozen)
    assert_usable()


@pytest.mark.parametrize(("endless", "threads"), [(ENDLESS, 1), (ENDLESS_GRID, 3)])
def test_a_time_limit_ends_the_run(endless: object, threads: int) -> None:
    native = bind_native(endless, host_isa(), threads)
    memory, places = addresses(native.operand_count)
    for _ in range(3):
        with pytest.raises(RunTimeoutError) as caught:
            native.run(places, timeout=0.01)
        assert isinstance(caught.value, TimeoutError)
        assert isinstance(caught.value, TeirError)
        assert "0.01 s" in str(caught.value)
    assert memory.size
    assert_usable()


def test_a_run_within_its_limit_is_an_ordinary_run() -> None:
    native = bind_native(SHORT, host_isa(), 1)
    memory, places = addresses(3)
    native.run(places, timeout=60)
    assert memory[2, 0] == 2


def test_a_limit_of_no_time_stops_what_has_not_begun() -> None:
    native = bind_native(ENDLESS, host_isa(), 1)
    memory, places = addresses(2)
    for _ in range(20):
        with pytest.raises(RunTimeoutError):
            native.run(places, timeout=0.0)
    assert memory.size


def test_limits_in_several_threads_at_once() -> None:
    native = bind_native(ENDLESS_GRID, host_isa(), 2)
    memory, places = addresses(3)
    ended: list[bool] = []

    def call() -> None:
        try:
            native.run(places, timeout=0.03)
        except RunTimeoutError:
            ended.append(True)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert ended == [True] * 4
    assert memory.size
    assert_usable()


def test_estimates_tell_long_runs_from_short_ones() -> None:
    assert bind_native(SHORT, host_isa(), 1).seconds < 1e-6
    assert bind_native(ENDLESS, host_isa(), 1).seconds > LONG_RUN_SECONDS


def assert_usable() -> None:
    """A grid on several threads still computes."""
    native = bind_native(
        program("a b out", grid(add((0, 0), (1, 0), (2, 0)), axes=((16, (), None),))), host_isa(), 3
    )
    memory, places = addresses(3)
    native.run(places)
    assert memory[2, 0] == 2


class _AlarmError(Exception):
    pass


@pytest.mark.parametrize("raised", [KeyboardInterrupt, _AlarmError])
def test_nobody_returns_while_the_run_writes(raised: type[BaseException]) -> None:
    """Whatever signal handlers raise, at any time, the caller waits for the end of the run."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")

    def handler(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGUSR1, handler)
    cancel = ctypes.c_int64(0)
    ended: list[bool] = []

    def stubborn() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        while not cancel.value:
            time.sleep(0.001)
        for _ in range(5):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.01)
        ended.append(True)

    try:
        with pytest.raises(raised):
            run_watched(stubborn, cancel, None)
        assert ended == [True]
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("timeout", [-(10**300), -float("inf")], ids=["long", "endless"])
def test_a_time_that_was_over_before(timeout: float) -> None:
    cancel = ctypes.c_int64(0)

    def until_stopped() -> None:
        while not cancel.value:
            time.sleep(0.001)

    with pytest.raises(RunTimeoutError):
        run_watched(until_stopped, cancel, timeout)
