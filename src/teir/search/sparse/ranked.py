"""The schedules worth running at concrete sizes, the fastest by prediction first."""

from __future__ import annotations

from dataclasses import dataclass

from teir.search.sparse.candidate import Candidate, Sizes
from teir.search.sparse.constraints import symbols_of
from teir.search.sparse.cost import value
from teir.search.sparse.predicted import Problem, predicted_seconds
from teir.search.sparse.schedules import Request, plan_frontier


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A schedule with its costs and the seconds that native code is expected to take."""

    candidate: Candidate
    seconds: float


def ranked(problem: Problem) -> tuple[Ranked, ...]:
    """The frontier, least predicted time first, then least memory, then by the text.

    What needs more temporaries than half of the last cache comes after everything else.
    """
    symbols = {symbol: problem.symbols[symbol] for symbol in symbols_of(problem.statement)}
    request = Request(
        sizes=symbols, cache_bytes=problem.cache_bytes, element_bytes=problem.element_bytes
    )
    sizes = Sizes(
        symbols=symbols, element_bytes=problem.element_bytes, memory_bytes=request.memory_bytes
    )
    found = [
        Ranked(candidate=one, seconds=predicted_seconds(one.graph, problem))
        for one in plan_frontier(problem.statement, request)
    ]

    def rank(one: Ranked) -> tuple[bool, float, float, str]:
        cost = one.candidate.cost
        is_large = not sizes.is_within(cost)
        return is_large, one.seconds, value(cost.memory, symbols), str(one.candidate.graph)

    return tuple(sorted(found, key=rank))
