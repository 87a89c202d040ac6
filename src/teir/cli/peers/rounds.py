"""Interleaved measurement: every round times the peaks and every contender, one after the other.

What copying leaves in the third cache gives way to a contender's operands only after some calls,
whoever makes them: each follows calls of its own, and every round begins with another contender.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from teir.cli.peers.case import Case
from teir.cli.peers.peaks import make_copier, measure_peak
from teir.dtypes import DataType

_BLOCK_SECONDS = 1e-3
_BLOCKS = 3
_MEDIUM_CALL_SECONDS, _MEDIUM_BLOCKS = 0.008, 2
_LONG_CALL_SECONDS = 0.05
_SLOW_CALL_SECONDS, _SLOW_RATIO = 0.05, 1.5
_WARM_SECONDS = 0.006
_LARGE_COPY_BYTES = 64 << 20

Call = Callable[[], object]


@dataclass(slots=True, kw_only=True)
class Rounds:
    """What the rounds of one case brought; the n-th entry of a list is that of the n-th round."""

    flops_peaks: list[float] = field(default_factory=list)
    copy_peaks: list[float] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def median_seconds(self, contender: str) -> float:
        return statistics.median(self.seconds[contender])

    def share(self, case: Case, data_type: DataType, contender: str) -> float:
        """The median of `shares`."""
        return statistics.median(self.shares(case, data_type, contender))

    def shares(self, case: Case, data_type: DataType, contender: str) -> list[float]:
        """The least possible time over the time taken, by the peaks of the same round."""
        return [
            case.bound_seconds(data_type, flops_peak, copy_peak) / taken
            for flops_peak, copy_peak, taken in zip(
                self.flops_peaks, self.copy_peaks, self.seconds[contender], strict=False
            )
        ]


def measure(
    case: Case,
    data_type: DataType,
    calls: Mapping[str, Call],
    rounds: int,
    threads: int,
    offset_bytes: int,
) -> Rounds:
    """Time all ``calls``. A permutation's copy has its own size, others' copies 64 MiB.

    A contender that takes more than 0.05 s and 1.5 times the first one's time is timed in the first
    round only.
    """
    size = case.size_bytes(data_type) // 2 if case.is_copy else _LARGE_COPY_BYTES
    copy_bandwidth = make_copier(size, offset_bytes)
    copy_bandwidth()
    counts = {name: _calls_per_block(call) for name, call in calls.items()}
    found = Rounds(seconds={name: [] for name in calls})
    names = tuple(calls)
    for number in range(rounds):
        before = measure_peak(data_type, threads)
        found.copy_peaks.append(copy_bandwidth())
        begun = number % max(1, len(names))
        for name in (*names[begun:], *names[:begun]):
            if not _is_settled(found, name):
                found.seconds[name].append(_best_seconds(calls[name], *counts[name]))
        found.flops_peaks.append(max(before, measure_peak(data_type, threads)))
    return found


def _is_settled(found: Rounds, name: str) -> bool:
    first, times = next(iter(found.seconds.values())), found.seconds[name]
    return bool(times) and times[0] > max(_SLOW_CALL_SECONDS, _SLOW_RATIO * first[0])


def _calls_per_block(call: Call) -> tuple[int, int]:
    """Calls per block and blocks per round, so that short calls are timed together."""
    if _block_seconds(call, 1) > _LONG_CALL_SECONDS:
        return 1, 1
    _warm(call)
    once, count = _block_seconds(call, 1), 1
    while _block_seconds(call, count) < _BLOCK_SECONDS:
        count *= 2
    return count, _MEDIUM_BLOCKS if once > _MEDIUM_CALL_SECONDS else _BLOCKS


def _warm(call: Call) -> None:
    """Untimed calls that take a few milliseconds together."""
    taken = 0.0
    while taken < _WARM_SECONDS:
        taken += _block_seconds(call, 1)


def _best_seconds(call: Call, count: int, blocks: int) -> float:
    if blocks > 1:
        _warm(call)
    return min(_block_seconds(call, count) for _ in range(blocks)) / count


def rough_seconds(call: Call) -> float:
    """One call's time, to choose by: the first where it is long, else the better of two."""
    first = _block_seconds(call, 1)
    if first > _LONG_CALL_SECONDS:
        return first
    count = 1
    while (taken := _block_seconds(call, count)) < _BLOCK_SECONDS / 4:
        count *= 4
    return min(taken, _block_seconds(call, count)) / count


def _block_seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in repeat(None, count):
        call()
    return time.perf_counter() - start


def geometric_mean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if values else float("nan")
