"""A forked child can compile, run and share grids, whatever the parent was doing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import numpy as np

from backends.llvm.small_programs import add, elementwise, grid, program, steps
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.entry import EntryOperand, bind_entry
from teir.backends.llvm.native import NativeProgram, bind_native
from teir.backends.llvm.specialise import bind_specialised
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.kernel_program import KernelProgram
from teir.runtime.runtime import Runtime, current

COUNT = 400
SECONDS = 30.0


def shared(operation: Operation = Operation.ADD) -> KernelProgram:
    call = elementwise(operation, (0, 0), (1, 0), (2, 0))
    return program("a b out", grid(call, axes=((COUNT, steps((0, 1), (1, 1), (2, 1)), None),)))


def computes(native: NativeProgram, times: int = 20) -> bool:
    a = np.arange(COUNT, dtype=np.float32)
    b = np.ones(COUNT, np.float32)
    for _ in range(times):
        out = np.zeros(COUNT, np.float32)
        native.run((a.ctypes.data, b.ctypes.data, out.ctypes.data))
        if not np.array_equal(out, a + b):
            return False
    return True


def in_child(work: Callable[[], bool]) -> bool:
    """Whether ``work`` is true in a forked child that ends within the time limit."""
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = work()
        finally:
            os._exit(0 if good else 1)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status == 0
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def test_the_child_shares_grids_with_threads_of_its_own() -> None:
    native = bind_native(shared(), host_isa(), 3)
    assert computes(native)

    def work() -> bool:
        alone = len(os.listdir("/proc/self/task")) == 1
        return alone and computes(native) and len(os.listdir("/proc/self/task")) > 1

    assert in_child(work)
    assert computes(native)


def test_the_child_can_compile() -> None:
    assert computes(bind_native(shared(), host_isa(), 2))
    assert in_child(lambda: bind_native(shared(Operation.MUL), host_isa(), 2) is not None)


def test_a_grandchild_works_too() -> None:
    native = bind_native(shared(), host_isa(), 2)
    assert in_child(lambda: computes(native) and in_child(lambda: computes(native)))


def test_the_entry_point_declines_until_the_child_has_threads() -> None:
    native = bind_native(shared(), host_isa(), 2)
    assert computes(native)
    operands = tuple(
        EntryOperand(
            slot=n, data_type=DataType.FP32, shape=(COUNT,), strides_bytes=(4,), writable=n == 2
        )
        for n in range(3)
    )
    function = bind_entry(native, operands)
    assert function is not None
    a, b, out = (np.ones(COUNT, np.float32) for _ in range(3))
    assert function(a, b, out) is None
    assert in_child(
        lambda: (
            function(a, b, out) is NotImplemented
            and computes(native)
            and function(a, b, out) is None
        )
    )


def test_forks_while_other_threads_run_and_compile() -> None:
    native = bind_native(shared(), host_isa(), 3)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            computes(native, 1)

    def compile_more() -> None:
        while not stop.is_set():
            bind_specialised(shared(), host_isa(), 2)

    def hold() -> None:
        while not stop.is_set():
            current().once("held for long", lambda: time.sleep(0.02) or 1)
            current()._kept.pop("held for long", None)

    busy = [threading.Thread(target=work, daemon=True) for work in (run, compile_more, hold)]
    for thread in busy:
        thread.start()
    try:
        for number in range(15):
            assert in_child(
                lambda number=number: (
                    computes(native)
                    and current().once(f"new {number}", lambda: 1) == 1
                    and computes(bind_specialised(shared(), host_isa(), 2), 1)
                )
            )
    finally:
        stop.set()
        for thread in busy:
            thread.join()
    assert computes(native)


def test_things_are_made_once() -> None:
    runtime = Runtime()
    made: list[int] = []

    def make() -> int:
        time.sleep(0.01)
        made.append(1)
        return 7

    callers = [threading.Thread(target=lambda: runtime.once("x", make)) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert made == [1]
    assert runtime.once("x", make) == 7
    assert runtime.once("y", lambda: runtime.once("x", make)) == 7


def test_the_first_thing_made_stays_where_making_it_is_interrupted_by_itself() -> None:
    runtime = Runtime()
    inner: list[object] = []

    def make() -> object:
        inner.append(runtime.once("x", object))
        return object()

    assert runtime.once("x", make) is inner[0]
    assert runtime.once("x", object) is inner[0]


def test_a_failure_is_tried_again() -> None:
    runtime = Runtime()

    def fail() -> int:
        raise RuntimeError

    for _ in range(2):
        try:
            runtime.once("x", fail)
        except RuntimeError:
            continue
        raise AssertionError
    assert runtime.once("x", lambda: 3) == 3


def test_one_thread_needs_no_pool() -> None:
    native = bind_native(program("a b out", add((0, 0), (1, 0), (2, 0))), host_isa(), 1)
    assert native.pool is None
