"""Interleaved measurement: every round times the peaks and every contender, one after the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from peaks import make_copier, measure_peak

from cases import Case
from teir.dtypes import DataType

_BLOCK_SECONDS = 1e-3
_LONG_CALL_SECONDS = 0.05
_BLOCKS = 3
_LARGE_COPY_BYTES = 64 << 20

Call = Callable[[], object]


@dataclass(slots=True, kw_only=True)
class Rounds:
    """What the rounds of one case brought; one entry per round in every list."""

    flops_peaks: list[float] = field(default_factory=list)
    copy_peaks: list[float] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def median_seconds(self, contender: str) -> float:
        return statistics.median(self.seconds[contender])

    def shares(self, case: Case, data_type: DataType, contender: str) -> list[float]:
        """The least possible time over the time taken, by the peaks of the same round."""
        return [
            case.bound_seconds(data_type, flops_peak, copy_peak) / taken
            for flops_peak, copy_peak, taken in zip(
                self.flops_peaks, self.copy_peaks, self.seconds[contender], strict=True
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
    """Time all ``calls``. A permutation's copy has its own size, others' copies 64 MiB."""
    size = case.size_bytes(data_type) // 2 if case.is_copy else _LARGE_COPY_BYTES
    copy_bandwidth = make_copier(size, offset_bytes)
    copy_bandwidth()
    counts = {name: _calls_per_block(call) for name, call in calls.items()}
    found = Rounds(seconds={name: [] for name in calls})
    for _ in range(rounds):
        before = measure_peak(data_type, threads)
        found.copy_peaks.append(copy_bandwidth())
        for name, call in calls.items():
            found.seconds[name].append(_best_seconds(call, *counts[name]))
        found.flops_peaks.append(max(before, measure_peak(data_type, threads)))
    return found


def _calls_per_block(call: Call) -> tuple[int, int]:
    """Calls per block and blocks per round, so that short calls are timed together."""
    call()
    once = _block_seconds(call, 1)
    if once > _LONG_CALL_SECONDS:
        return 1, 1
    count = 1
    while _block_seconds(call, count) < _BLOCK_SECONDS:
        count *= 2
    return count, _BLOCKS


def _best_seconds(call: Call, count: int, blocks: int) -> float:
    return min(_block_seconds(call, count) for _ in range(blocks)) / count


def seconds_per_call(call: Call) -> float:
    """One measurement, long enough for the clock."""
    count = 1
    while (taken := _block_seconds(call, count)) < _BLOCK_SECONDS / 4:
        count *= 4
    return taken / count


def _block_seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in repeat(None, count):
        call()
    return time.perf_counter() - start


def geometric_mean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if values else float("nan")
