"""The frontier of a sparse product as a table, and why its winner won.

Iterations and elements of temporaries are those of the cost model (section 5.1 and 5.2 of the
SparseAuto paper), predicted times those of `teir.search.sparse.predicted`, measured ones of native
code on operands at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from teir.pipeline.explain_choice import in_time
from teir.search.sparse.cost import print_memory, print_time, value
from teir.search.sparse.moves import is_linear
from teir.search.sparse.predicted import Problem
from teir.search.sparse.ranked import Ranked, ranked

MOST_SHOWN = 12
"""Schedules in the table, the fastest by prediction; the fused default comes besides."""
HOPELESS = 20.0
"""Times the least prediction, from which on a schedule is not measured."""
_NOTABLY = 0.95
"""The share of another's cost below which a cost is told as the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRow:
    """A schedule with its costs at the sizes at hand; ``strided`` counts iterations."""

    schedule: str
    time: str
    memory: str
    iterations: float
    strided: float
    memory_bytes: float
    seconds: float
    is_fused: bool
    alike: int = 1
    """How many schedules have these costs and this prediction; the first by text stands for all."""

    @property
    def costs(self) -> tuple[float, float, float]:
        return self.iterations, self.strided, self.memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The rows to show, the fastest by prediction first, and how many there are in all."""

    rows: tuple[FrontierRow, ...]
    count: int


def frontier_of(problem: Problem, chosen: str) -> Frontier:
    """The best of the frontier, the schedule called ``chosen`` and the fused default among them."""
    found = [_row(problem, one) for one in ranked(problem)]
    rows = _grouped(found, chosen)
    shown = [row for place, row in enumerate(rows) if place < MOST_SHOWN or row.schedule == chosen]
    if not any(row.is_fused for row in shown):
        shown += [row for row in rows if row.is_fused][:1]
    return Frontier(rows=tuple(shown), count=len(found))


def _grouped(found: Sequence[FrontierRow], chosen: str) -> list[FrontierRow]:
    """One row for all of the same costs and prediction."""
    groups: dict[tuple[float, ...], list[FrontierRow]] = {}
    for row in found:
        groups.setdefault((*row.costs, row.seconds, row.is_fused), []).append(row)
    rows = []
    for group in groups.values():
        first = next((row for row in group if row.schedule == chosen), group[0])
        rows.append(replace(first, alike=len(group)))
    return rows


def _row(problem: Problem, one: Ranked) -> FrontierRow:
    candidate, cost = one.candidate, one.candidate.cost
    return FrontierRow(
        schedule=str(candidate.graph),
        time=print_time(problem.statement, cost.time),
        memory=print_memory(cost.memory),
        iterations=value(cost.time, problem.symbols),
        strided=value(candidate.strided, problem.symbols),
        memory_bytes=value(cost.memory, problem.symbols) * problem.element_bytes,
        seconds=one.seconds,
        is_fused=is_linear(candidate.graph),
    )


def is_worth_measuring(row: FrontierRow, rows: Sequence[FrontierRow]) -> bool:
    """False for what the model expects to be far from the best."""
    return row.seconds <= HOPELESS * min(one.seconds for one in rows)


def frontier_table(
    rows: Sequence[FrontierRow], chosen: str, measured: Mapping[str, float]
) -> list[str]:
    """Lines of columns, the schedule last; a star marks the chosen one."""
    times = ["predicted", *(["measured"] if measured else [])]
    cells = [["", "time", "memory", *times, "alike", "schedule"]]
    for row in rows:
        times = [in_time(row.seconds)]
        if measured:
            seconds = measured.get(row.schedule)
            times.append("-" if seconds is None else in_time(seconds))
        star = "*" if row.schedule == chosen else ""
        cells.append([star, row.time, row.memory, *times, str(row.alike), row.schedule])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def why(rows: Sequence[FrontierRow], chosen: str) -> str:
    """One sentence: what sets the chosen schedule apart from the best of another kind."""
    mine = next((row for row in rows if row.schedule == chosen), None)
    if mine is None:
        return "tuning remembers it"
    other = next((row for row in rows if row.costs != mine.costs), None)
    if other is None:
        return "all schedules take as many iterations and temporaries; the order of loops decided"
    return f"{_reason(mine, other)}{_against_fused(rows, mine)}"


def _reason(mine: FrontierRow, other: FrontierRow) -> str:
    name = "the best of another kind"
    if mine.seconds > other.seconds:
        ahead = f"{in_time(mine.seconds)} against {in_time(other.seconds)} of {name}"
        return f"measured fastest when it was tuned, though predicted to take {ahead}"
    if mine.iterations < _NOTABLY * other.iterations:
        return f"it takes {_count(mine.iterations)} iterations, {name} {_count(other.iterations)}"
    if mine.strided < _NOTABLY * other.strided:
        return (
            f"its innermost loops run along the operands in {_along(mine)} of its iterations, "
            f"those of {name} in {_along(other)}"
        )
    if mine.memory_bytes < _NOTABLY * other.memory_bytes:
        ours, theirs = f"{mine.memory_bytes:,.0f}", f"{other.memory_bytes:,.0f}"
        return f"its temporaries take {ours} bytes, those of {name} {theirs}"
    if mine.seconds < _NOTABLY * other.seconds:
        return (
            f"its loops suit the kernels better: {in_time(mine.seconds)} predicted, "
            f"{in_time(other.seconds)} for {name}, of {_count(other.iterations)} iterations"
        )
    return (
        f"it takes {_count(mine.iterations)} iterations at the speed of the kernels, {name} "
        f"{_count(other.iterations)}: about as fast by prediction"
    )


def _against_fused(rows: Sequence[FrontierRow], mine: FrontierRow) -> str:
    fused = next((row for row in rows if row.is_fused), None)
    if fused is None or mine.is_fused:
        return ""
    return f"; the fused default would take {_count(fused.iterations)} iterations"


def _along(row: FrontierRow) -> str:
    return f"{100 - 100 * row.strided / max(row.iterations, 1):.0f} %"


def _count(iterations: float) -> str:
    for unit, scale in ((" G", 1e9), (" M", 1e6), (" k", 1e3)):
        if iterations >= scale:
            return f"{iterations / scale:.3g}{unit}"
    return f"{iterations:.3g}"
