"""Specialised code takes a table's place while it runs: the same bits, at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import teir
from backends.llvm.small_programs import add, loop, program, steps
from teir.backends.llvm import background
from teir.backends.llvm.background import (
    BackgroundSpecialiser,
    background_specialiser,
    runs_before_specialising,
)
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.native import NativeProgram, bind_native
from teir.lower.kernel_program import KernelProgram
from teir.runtime.runtime import Runtime, current

ROWS = program(
    "a b out",
    loop(1000, steps((0, 4), (1, 4), (2, 4)), add((0, 0), (1, 0), (2, 0), count=4)),
)
"""out[i, :] = a[i, :] + b[i, :], one call per row of four."""


@pytest.fixture
def specialiser() -> Iterator[BackgroundSpecialiser]:
    one = background_specialiser(current())
    one.wait()
    yield one
    one.wait()


def batch(size: int, batches: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    shape = (batches, size, size)
    return tuple(draw.standard_normal(shape).astype(np.float32) for _ in range(2))  # type: ignore[return-value]


def native_of(plan: teir.Plan) -> NativeProgram:
    assert plan.executable is not None
    return plan.executable.native


def test_specialised_code_pays_after_runs_that_cost_as_much_as_making_it() -> None:
    calls = 1000
    runs = runs_before_specialising(ROWS, 20e-6)
    assert runs is not None
    saved = runs * calls * background._SAVED_PER_CALL
    assert background._CODE_SECONDS <= saved < 2 * background._CODE_SECONDS


def test_specialised_code_never_pays_where_calls_are_long() -> None:
    assert runs_before_specialising(ROWS, 1.0) is None
    assert runs_before_specialising(program("a b"), 0.0) is None


def test_large_permutations_are_never_specialised() -> None:
    permuted = native_of(teir.plan("ab->ba", (1024, 1024), dtype="float32", threads=1))
    assert runs_before_specialising(permuted.program, 1e-9) is None


class Counting:
    """Asks for specialised code after three runs, and keeps who asked."""

    def __init__(self) -> None:
        self.asked: list[NativeProgram] = []
        self.fewest_runs = 1

    def runs_before(self, program: KernelProgram, seconds: float) -> int | None:
        del program, seconds
        return 3

    def ask(self, native: NativeProgram) -> None:
        self.asked.append(native)


def test_a_program_asks_once_when_its_runs_are_used_up() -> None:
    counting = Counting()
    native = bind_native(ROWS, host_isa(), 1, counting)
    a, b, out = (np.ones((1000, 4), np.float32) for _ in range(3))
    asked = []
    for _ in range(8):
        native.run((a.ctypes.data, b.ctypes.data, out.ctypes.data))
        asked.append(len(counting.asked))
    assert asked[:2] == [0, 0]
    assert asked[3:] == [asked[3]] * 5
    assert asked[3] >= 1
    assert set(map(id, counting.asked)) == {id(native)}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_plan_called_often_is_specialised_and_keeps_its_bits(
    threads: int, specialiser: BackgroundSpecialiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "runs_before_specialising", lambda *_: 200)
    a, b = batch(16 + threads, 100, seed=threads)
    plan = teir.plan("bij,bjk->bik", a, b, threads=threads)
    native = native_of(plan)
    out = np.empty_like(a)
    first = plan(a, b).tobytes()
    assert not native.is_specialised
    for _ in range(201):
        plan(a, b, out=out)
        assert out.tobytes() == first
    specialiser.wait()
    assert native.is_specialised
    assert plan.executable is not None
    assert plan.executable.form is teir.Form.SPECIALISED
    assert plan(a, b, out=out).tobytes() == first
    assert plan(a, b).tobytes() == first


@pytest.mark.parametrize(
    ("expression", "shapes", "threads"),
    [
        ("bij,bjk->bik", ((400, 5, 7), (400, 7, 3)), 1),
        ("bij,bjk->bik", ((400, 5, 7), (400, 7, 3)), 2),
        ("ij,jk->ik", ((70, 300), (300, 90)), 2),
        ("dabe,ec->dcba", ((5, 6, 7, 8), (8, 9)), 1),
        ("ijk->kji", ((20, 30, 40),), 2),
        ("ij,jk,kl->il", ((30, 40), (40, 50), (50, 6)), 1),
    ],
)
def test_the_root_is_swapped_under_concurrent_callers(
    expression: str,
    shapes: tuple[tuple[int, ...], ...],
    threads: int,
    specialiser: BackgroundSpecialiser,
) -> None:
    """Callers in four threads, through the entry point and beside it, while the swap happens."""
    draw = np.random.default_rng(5)
    arrays = [draw.standard_normal(shape) for shape in shapes]
    plan = teir.plan(expression, *arrays, threads=threads)
    native = native_of(plan)
    wanted = plan(*arrays).tobytes()
    swapped = threading.Event()
    wrong: list[int] = []
    runs = [0, 0]

    def caller(number: int) -> None:
        out = np.empty_like(plan(*arrays))
        after = 0
        while after < 50:
            result = plan(*arrays, out=out) if number % 2 else plan(*arrays)
            if result.tobytes() != wanted:
                wrong.append(number)
            after += swapped.is_set()
            runs[swapped.is_set()] += 1

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(4)]
    for thread in callers:
        thread.start()
    specialiser.ask(native)
    specialiser.wait()
    assert native.is_specialised
    swapped.set()
    for thread in callers:
        thread.join()
    assert not wrong
    assert runs[1] >= 200


def test_code_that_cannot_be_made_leaves_the_table(
    specialiser: BackgroundSpecialiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> tuple[int, object]:
        raise RuntimeError("no code")

    a, b = batch(3, 50, seed=8)
    plan = teir.plan("bij,bjk->bik", a, b, threads=1)
    monkeypatch.setattr(background, "load_specialised", refused)
    specialiser.ask(native_of(plan))
    specialiser.wait()
    assert not native_of(plan).is_specialised
    np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_a_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEIR_SPECIALISE", "off")
    assert not background_specialiser(Runtime()).is_on
    monkeypatch.delenv("TEIR_SPECIALISE")
    assert background_specialiser(Runtime()).is_on


def test_a_full_queue_refuses_more(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    made = []

    def slow(*arguments: object) -> tuple[int, object]:
        gate.wait()
        made.append(arguments)
        raise RuntimeError

    monkeypatch.setattr(background, "load_specialised", slow)
    one = BackgroundSpecialiser(is_on=True)
    a, b = batch(3, 50, seed=8)
    native = native_of(teir.plan("bij,bjk->bik", a, b, threads=1))
    for _ in range(background._MOST_WAITING + 20):
        one.ask(native)
    gate.set()
    one.wait()
    assert background._MOST_WAITING <= len(made) <= background._MOST_WAITING + 1


def test_a_program_asked_for_while_the_thread_starts_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a signal handler asks, on the thread that is in the middle of asking."""
    made: list[NativeProgram] = []
    started: list[threading.Thread] = []
    one = BackgroundSpecialiser(is_on=True)
    a, b = batch(3, 50, seed=8)
    native = native_of(teir.plan("bij,bjk->bik", a, b, threads=1))
    start = threading.Thread.start

    def starting(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) == 1:
            one.ask(native)
        start(thread)

    def refused(*_: object) -> tuple[int, object]:
        made.append(native)
        raise RuntimeError

    monkeypatch.setattr(background, "load_specialised", refused)
    monkeypatch.setattr(threading.Thread, "start", starting)
    one.ask(native)
    one.wait()
    assert len(made) == 2


def test_an_interrupt_while_the_thread_starts_leaves_it_to_who_asks_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[NativeProgram] = []
    one = BackgroundSpecialiser(is_on=True)
    a, b = batch(3, 50, seed=8)
    native = native_of(teir.plan("bij,bjk->bik", a, b, threads=1))
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        del thread
        monkeypatch.setattr(threading.Thread, "start", start)
        raise KeyboardInterrupt

    def refused(*_: object) -> tuple[int, object]:
        made.append(native)
        raise RuntimeError

    monkeypatch.setattr(background, "load_specialised", refused)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.ask(native)
    one.ask(native)
    one.wait()
    assert len(made) == 2


def test_a_child_forked_while_code_is_made_goes_on(specialiser: BackgroundSpecialiser) -> None:
    a, b = batch(6, 200, seed=3)
    plans = [teir.plan("bij,bjk->bik", a[: 100 + n], b[: 100 + n], threads=1) for n in range(6)]
    wanted = [plan(a[: 100 + n], b[: 100 + n]).tobytes() for n, plan in enumerate(plans)]
    for plan in plans:
        specialiser.ask(native_of(plan))
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = all(
                plan(a[: 100 + n], b[: 100 + n]).tobytes() == wanted[n]
                for n, plan in enumerate(plans)
            )
            specialiser.ask(native_of(plans[0]))
            specialiser.wait()
            good = good and native_of(plans[0]).is_specialised
            good = good and plans[0](a[:100], b[:100]).tobytes() == wanted[0]
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    specialiser.wait()
    assert all(native_of(plan).is_specialised for plan in plans)


EXITING = """
import numpy as np, teir
from teir.backends.llvm.background import background_specialiser
from teir.runtime.runtime import current
specialiser = background_specialiser(current())
for size in range(2, 40):
    a = np.ones((200, size, size))
    plan = teir.plan("bij,bjk->bik", a, a, threads=1)
    plan(a, a)
    specialiser.ask(plan.executable.native)
print("ready", flush=True)
"""


def test_a_process_ends_while_code_is_made() -> None:
    """It waits for the program in the works, not for all that are queued, and does not crash."""
    environment = {**os.environ, "TEIR_CACHE": "off", "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(
        [sys.executable, "-c", EXITING],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ready\n"
    assert done.stderr == ""
