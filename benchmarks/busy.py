"""Two threads beside one foreign busy process on the same two cores.

    python benchmarks/busy.py [rounds]

Square products of several sizes, single precision. A process that only counts runs all the while;
one and two threads are timed in turn under it, and a round is long enough for the scheduler to
move everybody about. The figure is the time of one thread divided by that of two, medians of the
rounds: two threads that lose a core to the other process must not be slower than 0.8 of one. Run
it without real-time priority, which would keep the other process away. Writes
``results/busy.json``; exits 1 where a result is wrong.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from record import write

import teir

SIZES = (64, 128, 256, 512, 1024)
DUE = 0.8
_CORES = 2
_ROUND_SECONDS = 0.1


def count_forever() -> None:
    number = 0
    while True:
        number += 1


def product(size: int, threads: int) -> tuple[Callable[[], object], bool]:
    """A planned product, and whether its result is right."""
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-2, 3, (size, size)).astype(np.float32) for _ in range(2))
    out = np.zeros((size, size), np.float32)
    plan = teir.plan("mk,kn->mn", a, b, threads=threads)
    plan(a, b, out=out)
    return partial(plan, a, b, out=out), np.array_equal(out, a @ b)


def seconds_per_call(call: Callable[[], object]) -> float:
    """The mean over a round: calls that lost their core count as all others do."""
    calls, start = 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < _ROUND_SECONDS or not calls:
        call()
        calls += 1
    return taken / calls


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
    other = multiprocessing.get_context("spawn").Process(target=count_forever, daemon=True)
    cases = {size: [product(size, threads) for threads in (1, 2)] for size in SIZES}
    idle = {size: [seconds_per_call(call) for call, _ in both] for size, both in cases.items()}
    other.start()
    try:
        time.sleep(0.5)
        times: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
        for _ in range(rounds):
            for size, ((one, _), (two, _)) in cases.items():
                times[size].append((seconds_per_call(one), seconds_per_call(two)))
    finally:
        other.kill()
        other.join()
    figures = []
    for size, pairs in times.items():
        ratio = statistics.median(one / two for one, two in pairs)
        one, two = (statistics.median(column) for column in zip(*pairs, strict=True))
        note = "" if ratio >= DUE else f"  (due {DUE})"
        print(
            f"{size:5}: idle {1e6 * idle[size][0]:8.0f} and {1e6 * idle[size][1]:8.0f} us, beside "
            f"a busy process {1e6 * one:8.0f} and {1e6 * two:8.0f}: {ratio:.2f} times as fast{note}"
        )
        figures.append(
            {
                "size": size,
                "idle_seconds": idle[size],
                "busy_seconds": [one, two],
                "two_threads_over_one": ratio,
            }
        )
    is_right = all(right for both in cases.values() for _, right in both)
    print("written:", write("busy", figures), "" if is_right else "WRONG RESULT")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
