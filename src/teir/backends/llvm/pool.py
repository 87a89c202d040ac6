"""The process's thread pool: grids share their points among its threads.

On Linux the pool is generated code (`pool_ir`) in threads that Python does not know. Elsewhere
the standard library's executor stands behind the same `fork` function. A caller that finds the
pool in use runs its grid alone, so callers never wait for each other. Results do not depend on
which thread does what: every point of a grid writes bytes of its own.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Protocol

from teir.backends.llvm import pool_ir
from teir.backends.llvm.library import CodeLibrary
from teir.backends.llvm.pool_limits import answer_threadpoolctl
from teir.runtime.runtime import Runtime

_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
_YIELD_NUMBERS = {"x86_64": 24, "aarch64": 124}
_SETAFFINITY_NUMBERS = {"x86_64": 203, "aarch64": 122}
_GETTID_NUMBERS = {"x86_64": 186, "aarch64": 178}
_ALIGNMENT = 64

ForkFunction = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2)
"""Pool, job, node, frame, chunks, threads: 1 where the pool did the job, 0 where it is in use."""
JobFunction = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
"""A share of a job: node, frame of the run, participant, chunk, chunks."""


class ThreadPool(Protocol):
    """What a run needs of a pool."""

    @property
    def address(self) -> int:
        """Where frames point: a word that holds the `fork` function, then the pool's own data."""
        ...

    def ensure_running(self, workers: int) -> None:
        """Start threads until ``workers`` of them stand by, or the system gives no more."""
        ...


def thread_pool(runtime: Runtime, library: CodeLibrary) -> ThreadPool:
    """The process's pool."""
    return runtime.once("thread pool", lambda: _new_pool(library))


def _new_pool(library: CodeLibrary) -> ThreadPool:
    if sys.platform == "linux" and platform.machine() in _FUTEX_NUMBERS:
        pool = NativePool(library)
        answer_threadpoolctl(pool)
        return pool
    return ExecutorPool()


_SIGNALS = signal.valid_signals()


class NativePool:
    """Threads that run generated code; they sleep on a futex when there is nothing to do."""

    __slots__ = ("_is_starting", "_library", "_lock", "_memory", "_starts", "address", "workers")

    def __init__(self, library: CodeLibrary) -> None:
        self._library = library
        self._lock = threading.RLock()
        self._is_starting = False
        self._memory = ctypes.create_string_buffer(pool_ir.POOL_STRUCT_BYTES + _ALIGNMENT)
        start = ctypes.addressof(self._memory)
        self.address = start + -start % _ALIGNMENT
        self._starts: list[Any] = []
        self.workers = 0
        self._reset()

    def ensure_running(self, workers: int) -> None:
        if self.workers >= workers:
            return
        with self._lock:
            if self._is_starting:
                return  # asked by a handler or finalizer in between: it runs with those there are
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
            try:
                self._is_starting = True
                signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
                self._start_until(workers)
            finally:
                self._is_starting = False
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _start_until(self, workers: int) -> None:
        """With all signals blocked: workers take none, for signals belong to Python's threads, and
        no handler forks or raises between the start of one and its being counted."""
        if not self._starts:
            # Sleeping threads use this memory and this code until the process ends, also
            # while the interpreter takes everything apart.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        self._allow(os.sched_getaffinity(0))
        while self.workers < workers and self._start(self.workers + 1):
            self.workers += 1
            self._word(pool_ir.WORKERS_BYTES).value = self.workers

    @property
    def most_threads(self) -> int:
        """The most threads that share a grid, 0 where nothing limits them."""
        return self._word(pool_ir.LIMIT_BYTES).value

    def limit_threads(self, most: int) -> None:
        """Let at most ``most`` threads share a grid, the caller's included; 0 lifts the limit."""
        self._word(pool_ir.LIMIT_BYTES).value = most

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing has changed."""

    def after_fork_in_child(self) -> None:
        """The parent's threads are not here: forget them, and whatever job they were at."""
        self._lock = threading.RLock()
        self._is_starting = False
        self.workers = 0
        most = self.most_threads
        self._reset()
        self.limit_threads(most)

    def _reset(self) -> None:
        ctypes.memset(self.address, 0, pool_ir.POOL_STRUCT_BYTES)
        libc = ctypes.CDLL(None)
        syscall = ctypes.cast(libc.syscall, ctypes.c_void_p).value or 0
        self._word(pool_ir.FORK_BYTES).value = self._library.control()[pool_ir.FORK]
        self._word(pool_ir.SYSCALL_BYTES).value = syscall
        self._word(pool_ir.FUTEX_NUMBER_BYTES).value = _FUTEX_NUMBERS[platform.machine()]
        self._word(pool_ir.YIELD_NUMBER_BYTES).value = _YIELD_NUMBERS[platform.machine()]
        getcpu = ctypes.cast(libc.sched_getcpu, ctypes.c_void_p).value or 0
        self._word(pool_ir.GETCPU_BYTES).value = getcpu
        self._word(pool_ir.AFFINITY_NUMBER_BYTES).value = _SETAFFINITY_NUMBERS[platform.machine()]
        self._word(pool_ir.GETTID_NUMBER_BYTES).value = _GETTID_NUMBERS[platform.machine()]

    def _allow(self, processors: Iterable[int]) -> None:
        """Where workers may run, unless that is where their caller does."""
        bits = 0
        for processor in processors:
            if processor < pool_ir.MOST_PROCESSORS:
                bits |= 1 << processor
        room = pool_ir.MOST_PROCESSORS // 8
        ctypes.memmove(self.address + pool_ir.PROCESSORS_BYTES, bits.to_bytes(room, "little"), room)

    def _word(self, at: int) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.address + at)

    def _start(self, participant: int) -> bool:
        """Start one worker.

        False where the system gives no thread: the caller and those there are do its share.
        """
        start = (ctypes.c_int64 * 3)(self.address, participant, self._generation())
        self._starts.append(start)
        thread = ctypes.c_ulong()
        libc = ctypes.CDLL(None)
        failed = libc.pthread_create(
            ctypes.byref(thread),
            None,
            ctypes.c_void_p(self._library.control()[pool_ir.WORKER]),
            ctypes.c_void_p(ctypes.addressof(start)),
        )
        if failed:
            self._starts.pop()
            return False
        libc.pthread_detach(thread)
        return True

    def _generation(self) -> int:
        return (self._word(pool_ir.TICKET_BYTES).value >> 32) & 0xFFFFFFFF


class ExecutorPool:
    """The standard library's threads behind the pool's interface."""

    __slots__ = ("_busy", "_executor", "_fork", "_word", "address", "workers")

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._fork = ForkFunction(self._share)
        self._word = ctypes.c_void_p(ctypes.cast(self._fork, ctypes.c_void_p).value)
        self.address = ctypes.addressof(self._word)
        self._executor: ThreadPoolExecutor | None = None
        self.workers = 0

    def ensure_running(self, workers: int) -> None:
        busy = self._busy
        if self.workers >= workers or not busy.acquire(blocking=False):
            return  # in use, maybe by who is asking: a handler in the middle of a run
        try:
            if self.workers < workers:
                self._executor = ThreadPoolExecutor(workers, "teir")
                self.workers = workers
        finally:
            busy.release()

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing has changed."""

    def after_fork_in_child(self) -> None:
        self._busy = threading.Lock()
        self._executor = None
        self.workers = 0

    def _share(self, pool: int, job: int, node: int, frame: int, chunks: int, threads: int) -> int:
        del pool
        executor, busy = self._executor, self._busy
        if executor is None or not busy.acquire(blocking=False):
            return 0
        try:
            shares = _shares(JobFunction(job), node, frame, chunks)
            others = min(threads, self.workers + 1)
            futures = [executor.submit(shares, number) for number in range(1, others)]
            shares(0)
            wait(futures)
        finally:
            busy.release()
        return 1


def _shares(job: Any, node: int, frame: int, chunks: int) -> Callable[[int], None]:
    """A function of the participant's number that runs chunks until none is left."""
    left = iter(range(chunks))
    lock = threading.Lock()

    def take(participant: int) -> None:
        while True:
            with lock:
                chunk = next(left, None)
            if chunk is None:
                return
            job(node, frame, participant, chunk, chunks)

    return take
