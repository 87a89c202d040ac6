"""How long a call takes, and what share of the machine's peak that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from teir.lower.work import Work
from teir.target import Peaks

ROUND_SECONDS = 0.002
"""Long enough for the clock, short enough to fall between two interruptions."""


def seconds_per_call(call: Callable[[], object], total_seconds: float = 0.3) -> float:
    """The time of one call in the best of many short rounds, after two calls to warm up.

    The best, because the peaks it stands beside are the best of several rounds too: what else
    runs on the machine then disturbs neither.
    """
    call()
    start = perf_counter()
    call()
    repeats = max(1, int(ROUND_SECONDS / max(perf_counter() - start, 1e-7)))
    best, end = float("inf"), perf_counter() + total_seconds
    while perf_counter() < end:
        start = perf_counter()
        for _ in range(repeats):
            call()
        best = min(best, (perf_counter() - start) / repeats)
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What a program reached: arithmetic where it multiplies, bytes where it only moves."""

    seconds: float
    amount_per_second: float
    unit: str
    peak_per_second: float

    @property
    def share(self) -> float:
        return self.amount_per_second / self.peak_per_second

    def __str__(self) -> str:
        return (
            f"{in_time_unit(self.seconds)}, {self.amount_per_second / 1e9:.1f} {self.unit}, "
            f"{100 * self.share:.0f} % of {self.peak_per_second / 1e9:.1f} {self.unit}"
        )


def speed(work: Work, seconds: float, flops_peak: float, peaks: Peaks) -> Speed:
    """The speed of ``work`` done in ``seconds`` beside the peak that bounds it."""
    if work.flops > 0:
        return Speed(
            seconds=seconds,
            amount_per_second=work.flops / seconds,
            unit="GFLOP/s",
            peak_per_second=flops_peak,
        )
    return Speed(
        seconds=seconds,
        amount_per_second=work.bytes_moved / seconds,
        unit="GB/s",
        peak_per_second=peaks.copy_bytes_per_second,
    )


def in_time_unit(seconds: float) -> str:
    """Three digits with the unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1.0:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
