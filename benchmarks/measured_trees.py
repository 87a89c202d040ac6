"""Times of many schedules of one product, each run with a time limit: a child process that is
killed by its alarm, and begun anew with the next schedule.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_LEAST_LIMIT_SECONDS = 0.05
_CLOSE = 1.5
"""Times the best so far: what is run more often."""
_SAMPLED = 1_000_003
"""Elements of a result compared, at most."""

Array = np.ndarray[Any, Any]
Prepare = Callable[[str], Callable[[], object]]
"""The call of a schedule by its text."""


def shared_zeros(shape: Sequence[int], dtype: Any = np.float64) -> Array:
    """An array that child processes write for all; it begins 16 bytes into a line of 64."""
    count = int(np.prod(shape))
    memory = mmap.mmap(-1, 16 + max(1, count) * np.dtype(dtype).itemsize)
    return np.frombuffer(memory, dtype, count, 16).reshape(shape)


def sample(array: Array) -> Array:
    """Every so many elements, a stride that divides few extents."""
    flat = array.reshape(-1)
    step = -(-flat.size // _SAMPLED)
    return np.array(flat[:: step | 1])


def measure_all(
    names: Sequence[str],
    prepare: Prepare,
    output: Array,
    expected: Array,
    known: dict[str, float],
    times_best: float,
    deadline: float,
) -> dict[str, float]:
    """Seconds by schedule, inf beyond ``times_best`` times the least; stops at the deadline.

    ``known``: what was measured before; it is added to. Raises ValueError for a wrong result.
    """
    left = [name for name in names if name not in known]
    while left and time.monotonic() < deadline:
        for name, seconds in _in_child(
            left, prepare, output, expected, known, times_best, deadline
        ):
            if isinstance(seconds, str):
                raise ValueError(f"schedule {name}: {seconds}")
            known[name] = seconds
        left = [name for name in left if name not in known]
    return known


def _in_child(
    left: Sequence[str],
    prepare: Prepare,
    output: Array,
    expected: Array,
    known: dict[str, float],
    times_best: float,
    deadline: float,
) -> list[tuple[str, float | str]]:
    """What one child measured; inf for the schedule its alarm came in."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            best = min((one for one in known.values()), default=float("inf"))
            with os.fdopen(writer, "wb") as pipe:
                for name in left:
                    if time.monotonic() > deadline:
                        break
                    pickle.dump((name, None), pipe)
                    pipe.flush()
                    found = _measured(prepare(name), output, expected, best, times_best)
                    best = min(best, found) if isinstance(found, float) else best
                    pickle.dump((name, found), pipe)
                    pipe.flush()
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    found: list[tuple[str, float | str]] = []
    begun: str | None = None
    with os.fdopen(reader, "rb") as pipe:
        while True:
            try:
                name, seconds = pickle.load(pipe)
            except EOFError:
                break
            if seconds is None:
                begun = name
                continue
            begun = None
            found.append((name, seconds))
    _, status = os.waitpid(child, 0)
    if begun is not None:
        is_late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        found.append((begun, float("inf") if is_late else f"ended with status {status}"))
    return found


def _measured(
    call: Callable[[], object], output: Array, expected: Array, best: float, times_best: float
) -> float | str:
    """Median seconds of a call; what is wrong with it, in words."""
    limit = max(_LEAST_LIMIT_SECONDS, times_best * best) if best < float("inf") else 0.0
    signal.setitimer(signal.ITIMER_REAL, limit)
    seconds = [_seconds(call)]
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    error = np.abs(sample(output) - expected).max(initial=0.0)
    if not error <= 1e-9 * np.abs(expected).max(initial=1.0):
        return f"differs by {error}"
    seconds += [_seconds(call)]
    if min(seconds) < 3 * best:
        seconds = [seconds[1], _seconds(call), _seconds(call)]
    if min(seconds) < _CLOSE * best:
        seconds += [_seconds(call) for _ in range(4)]
    return statistics.median(seconds) if len(seconds) > 2 else min(seconds)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
