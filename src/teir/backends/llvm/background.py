"""Specialised code behind the back of programs that run often.

A program starts as a table, which is ready at once, and counts its runs. Once they have cost as
much more than specialised code as generating that code costs, it is generated in a thread of low
priority, and one word is swapped: the function of the table's root node. Runs that have begun end
in the table; every later one calls the new function. Both give the same bits, so nobody can tell.

The thread lives while there is something to compile. It is not a daemon: the interpreter waits
for it at its exit, at most for the program it is at, for LLVM must not run while its own data is
torn down.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil

from teir.backends.llvm.native import NativeProgram, bind_native
from teir.backends.llvm.specialise import load_specialised
from teir.lower.call_count import calls_below
from teir.lower.calls import kernels_of
from teir.lower.copy_kernels import (
    CellCopy,
    PermuteCopy,
    RunCopy,
    StreamCopy,
    StreamRows,
    StreamRuns,
)
from teir.lower.kernel_program import KernelProgram
from teir.runtime.runtime import Runtime, current
from teir.target import Isa

_SAVED_PER_CALL = 4.5e-9
"""Seconds by which a table's way to a kernel is longer than a direct call."""

_CODE_SECONDS = 0.03
"""Generating the code of one program, typically."""

_SMALLEST_SHARE = 0.01
"""Nobody notices less of a run."""

_FEWEST_RUNS = 16
_MOST_WAITING = 64
"""Programs beyond these find the queue full and stay tables."""

_LOOK_SECONDS = 1e-3
"""How often who waits for the thread looks."""
_NICENESS = 10
"""Low, but not so low that a busy machine stops the thread while it holds the interpreter."""


def runs_before_specialising(program: KernelProgram, seconds: float) -> int | None:
    """After how many runs specialised code pays; None where it never does.

    It never does for kernels of large permutations and of cells: they are long to generate and
    rarely called. A run takes ``seconds`` on one thread. The code is made when waiting any longer
    would cost more than making it: as with renting skis, at most twice what the best decision would
    have cost.
    """
    saved = _SAVED_PER_CALL * calls_below(program.roots)
    if saved <= _SMALLEST_SHARE * seconds:
        return None
    permutes = (PermuteCopy, RunCopy, StreamCopy, StreamRuns, StreamRows, CellCopy)
    if any(isinstance(one, permutes) for one in kernels_of(program.roots)):
        return None
    return max(_FEWEST_RUNS, ceil(_CODE_SECONDS / saved))


def bind_instant(program: KernelProgram, isa: Isa, threads: int) -> NativeProgram:
    """As `bind_native`, specialised in the background where and when that pays."""
    specialiser = background_specialiser(current())
    return bind_native(program, isa, threads, specialiser if specialiser.is_on else None)


@dataclass(slots=True)
class BackgroundSpecialiser:
    """The programs that wait for specialised code, and the thread that makes it.

    Who asks waits for nothing, for signal handlers ask too. The thread that works holds ``_claim``;
    one that is started beside it, between two looks at the claim, ends at once.
    """

    is_on: bool
    fewest_runs: int = _FEWEST_RUNS
    """Runs before which it is not looked at."""
    _waiting: deque[NativeProgram] = field(default_factory=deque)
    _claim: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def runs_before(self, program: KernelProgram, seconds: float) -> int | None:
        """See `runs_before_specialising`."""
        return runs_before_specialising(program, seconds)

    def ask(self, native: NativeProgram) -> None:
        """Specialise ``native`` soon. Returns at once."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(native)
        if not self._claim.locked():
            self._start()

    def wait(self) -> None:
        """Return once nothing is waiting any more."""
        while self._waiting or self._claim.locked():
            if self._thread is None or not self._thread.is_alive():
                self._start()
            time.sleep(_LOOK_SECONDS)

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing has changed."""

    def after_fork_in_child(self) -> None:
        """The parent's thread is not here; whoever asks next starts one for all that wait."""
        self._claim = threading.Lock()
        self._thread = None

    def _start(self) -> None:
        try:
            thread = threading.Thread(
                target=self._work, args=(self._claim,), name="teir specialiser", daemon=False
            )
            thread.start()
            self._thread = thread
        except RuntimeError:  # no thread to be had, or the interpreter is on its way out
            self._waiting.clear()

    def _work(self, claim: threading.Lock) -> None:
        _lower_priority()
        while claim.acquire(blocking=False):
            try:
                self._specialise_waiting()
            finally:
                claim.release()
            # Who asked just before the release found the claim held.
            if not self._waiting:
                return

    def _specialise_waiting(self) -> None:
        while self._waiting:
            if not threading.main_thread().is_alive():
                self._waiting.clear()
                return
            # Code that cannot be made leaves the table in place, which is as good.
            with suppress(Exception):
                native = self._waiting.popleft()
                native.swap_root(*load_specialised(native.program, native.isa, native.threads))


def background_specialiser(runtime: Runtime) -> BackgroundSpecialiser:
    """The process's one. ``TEIR_SPECIALISE=off`` turns it off."""
    return runtime.once("specialiser", lambda: BackgroundSpecialiser(_is_wanted(os.environ)))


def _is_wanted(environment: Mapping[str, str]) -> bool:
    return environment.get("TEIR_SPECIALISE", "").lower() not in ("off", "0", "no", "false")


def _lower_priority() -> None:
    """Of this thread alone: Linux gives every thread a priority of its own."""
    if hasattr(os, "setpriority") and os.uname().sysname == "Linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
