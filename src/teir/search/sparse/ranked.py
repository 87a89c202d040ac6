"""The schedules worth running at concrete sizes, the fastest by prediction first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from teir.expr.index_notation import Access
from teir.search.sparse.candidate import Candidate, candidates_of
from teir.search.sparse.constraints import symbols_of
from teir.search.sparse.cost import FIBRE, costing_of, value
from teir.search.sparse.deferred import deferred
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.hoisting import hoisted
from teir.search.sparse.parted import MOST_FACTORS, parted
from teir.search.sparse.predicted import Problem, predicted_seconds
from teir.search.sparse.presummed import presummed
from teir.search.sparse.schedules import Request, plan_frontier
from teir.search.sparse.statement import Statement, first_order

_DEFERRED = 8
"""Schedules that are tried with deferred factors, the fastest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A schedule with its costs and the seconds that native code is expected to take."""

    candidate: Candidate
    seconds: float


def ranked(problem: Problem) -> tuple[Ranked, ...]:
    """The frontier, least predicted time first, then least memory, then by the text.

    With it come the schedules that multiply dense operands first, those that sum a factor first
    along an index that nothing else has (`teir.search.sparse.presummed`), and those that defer
    factors of the fastest ones (`teir.search.sparse.deferred`). Products of more than
    `MOST_FACTORS` factors are scheduled in parts (`teir.search.sparse.parted`). What needs more
    temporaries than half of the last cache, and more than all operands and the result, comes after
    everything else.
    """
    most_bytes = max(problem.cache_bytes / 2, _data_bytes(problem))
    most_elements = most_bytes / problem.element_bytes
    candidates = (
        _in_parts(problem, most_elements)
        if len(problem.statement.inputs) > MOST_FACTORS
        else [
            *_frontier(problem, problem.statement),
            *_hoisted(problem, most_elements),
            *_presummed(problem, most_elements),
        ]
    )

    def rank(one: Ranked) -> tuple[bool, float, float, str]:
        elements = value(one.candidate.cost.memory, problem.symbols)
        is_large = elements * problem.element_bytes > most_bytes
        return is_large, one.seconds, elements, str(one.candidate.graph)

    found = sorted(_timed(problem, candidates), key=rank)
    graphs = (deferred(one.candidate.graph) for one in found[:_DEFERRED])
    more = [graph for graph in graphs if graph is not None]
    if not more:
        return tuple(found)
    found += _timed(problem, candidates_of(costing_of(problem.statement), more, are_pipelines=True))
    return tuple(sorted(found, key=rank))


def _timed(problem: Problem, candidates: Sequence[Candidate]) -> list[Ranked]:
    return [
        Ranked(candidate=one, seconds=predicted_seconds(one.graph, problem)) for one in candidates
    ]


def _frontier(problem: Problem, statement: Statement) -> tuple[Candidate, ...]:
    symbols = {symbol: problem.symbols[symbol] for symbol in symbols_of(statement)}
    request = Request(
        sizes=symbols, cache_bytes=problem.cache_bytes, element_bytes=problem.element_bytes
    )
    return plan_frontier(statement, request)


def _in_parts(problem: Problem, most_elements: float) -> list[Candidate]:
    """The best schedules of a product that is stored and of the rest; else one nest of loops."""
    statement = problem.statement

    def search(part: Statement) -> IterationGraph:
        return ranked(replace(problem, statement=part))[0].candidate.graph

    graphs = [*parted(statement, problem.symbols, most_elements, search)]
    if not graphs:
        order = first_order(statement)
        assert order is not None
        graphs = [linear(statement, order)]
    return candidates_of(costing_of(statement), graphs, are_pipelines=True)


def _hoisted(problem: Problem, most_elements: float) -> list[Candidate]:
    def frontier(left: Statement) -> Iterator[IterationGraph]:
        return (one.graph for one in _frontier(problem, left))

    graphs = hoisted(problem.statement, problem.symbols, most_elements, frontier)
    return candidates_of(costing_of(problem.statement), graphs, are_pipelines=True)


def _presummed(problem: Problem, most_elements: float) -> list[Candidate]:
    def schedules(left: Statement) -> Iterator[IterationGraph]:
        return (one.candidate.graph for one in ranked(replace(problem, statement=left)))

    def frontier(left: Statement) -> Iterator[IterationGraph]:
        return (one.graph for one in _frontier(problem, left))

    graphs = presummed(problem.statement, problem.symbols, most_elements, schedules, frontier)
    return candidates_of(costing_of(problem.statement), graphs, are_pipelines=True)


def _data_bytes(problem: Problem) -> float:
    """Bytes of the operands' values and of the result."""
    return problem.element_bytes * sum(
        prod(_length(problem, access, index) for index in access.indices)
        for access in problem.statement.accesses
    )


def _length(problem: Problem, access: Access, index: str) -> float:
    is_walked = index in problem.statement.compressed_indices(access.tensor)
    length = problem.symbols[index]
    return problem.symbols.get(f"{index}{FIBRE}", length) if is_walked else length
