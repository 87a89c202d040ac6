"""The schedules worth running at concrete sizes, the fastest by prediction first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from teir.expr.index_notation import Access
from teir.search.sparse.candidate import Candidate, candidates_of
from teir.search.sparse.constraints import symbols_of
from teir.search.sparse.cost import FIBRE, costing_of, value
from teir.search.sparse.deferred import deferred
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.hoisting import hoisted
from teir.search.sparse.interchangeable import has_more_orders, in_turn
from teir.search.sparse.parted import MOST_FACTORS, parted
from teir.search.sparse.predicted import Problem, predicted_seconds
from teir.search.sparse.presummed import presummed
from teir.search.sparse.schedules import Request, plan_frontier
from teir.search.sparse.statement import Pairs, Statement, first_order, sorted_loops

_DEFERRED = 8
"""Schedules that are tried with deferred factors, the fastest ones."""

_MOST_ORDERS = 2520
"""Orders of the loops of a product that is searched: four factors take up to 2 s on Golden Cove."""
_MOST_OF_A_PART = 840
"""The same of a part of `MOST_FACTORS` factors: products of eight have several of them.

Of 14 drawn products of five factors and eight indices 11 keep their predicted time, two have less
(0.97 and 0.08 of it), one has more (1.41); they are planned in up to 2.0 s instead of 3.8.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A schedule with its costs and the seconds that native code is expected to take."""

    candidate: Candidate
    seconds: float


def ranked(problem: Problem, *, is_part: bool = False) -> tuple[Ranked, ...]:
    """The frontier, least predicted time first, then least memory, then by the text.

    With it come the schedules that multiply dense operands first, those that sum a factor first
    along an index that nothing else has (`teir.search.sparse.presummed`), and those that defer
    factors of the fastest ones (`teir.search.sparse.deferred`). What needs more temporaries than
    half of the last cache, and more than all operands and the result, comes after everything else.

    The work grows with the factors and with the orders of the loops, which are 362,880 of nine free
    ones. Products of more than `MOST_FACTORS` factors are scheduled in parts
    (`teir.search.sparse.parted`). Beyond `_MOST_ORDERS` loops that may change places keep one order
    (`teir.search.sparse.interchangeable`); where the orders are still too many, products of three
    and four are scheduled in parts too, and those of two have a nest for every innermost loop. On
    one core of Golden Cove a tensor of order 6, 7 or 8 times a matrix along every axis takes 0.7 to
    0.8 s, drawn networks of five to nine factors up to 1.9 s. ``is_part``: such a part.
    """
    most_bytes = max(problem.cache_bytes / 2, _data_bytes(problem))
    most_elements = most_bytes / problem.element_bytes
    candidates = _Search(problem, most_elements, is_part).candidates()

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


@dataclass(frozen=True, slots=True)
class _Search:
    """The schedules of a problem with temporaries of ``most_elements``; fewer of a part of one."""

    problem: Problem
    most_elements: float
    is_part: bool

    def candidates(self) -> list[Candidate]:
        """What is ranked."""
        statement = self.problem.statement
        if len(statement.inputs) > MOST_FACTORS:
            return self._in_parts()
        if self._in_turn(statement) is not None:
            return [*self._frontier(statement), *self._hoisted(), *self._presummed()]
        return self._in_parts() if len(statement.inputs) > 2 else self._nests()

    def _in_turn(self, statement: Statement) -> Pairs | None:
        """Loops that keep their order so that the orders are few; None where they are not then."""
        is_large_part = self.is_part and len(statement.inputs) == MOST_FACTORS
        most = _MOST_OF_A_PART if is_large_part else _MOST_ORDERS
        if not has_more_orders(statement, (), most):
            return ()
        pairs = in_turn(statement, self.problem.symbols)
        return None if has_more_orders(statement, pairs, most) else pairs

    def _frontier(self, statement: Statement) -> tuple[Candidate, ...]:
        problem, pairs = self.problem, self._in_turn(statement)
        if pairs is None:
            return tuple(one.candidate for one in self._ranked(statement))
        symbols = {symbol: problem.symbols[symbol] for symbol in symbols_of(statement)}
        request = Request(
            sizes=symbols, cache_bytes=problem.cache_bytes, element_bytes=problem.element_bytes
        )
        return plan_frontier(statement, request, pairs)

    def _ranked(self, statement: Statement) -> tuple[Ranked, ...]:
        return ranked(replace(self.problem, statement=statement), is_part=self.is_part)

    def _in_parts(self) -> list[Candidate]:
        """The best schedules of a product that is stored and of the rest; else nests."""

        def search(part: Statement) -> IterationGraph:
            best, *_ = ranked(replace(self.problem, statement=part), is_part=True)
            return best.candidate.graph

        statement = self.problem.statement
        graphs = [*parted(statement, self.problem.symbols, self.most_elements, search)]
        return self._made(graphs) if graphs else self._nests()

    def _nests(self) -> list[Candidate]:
        """The first nest, and one for every loop that may be the innermost one, loops in turn."""
        statement = self.problem.statement
        pairs = statement.order_pairs(access.tensor for access in statement.accesses)
        kept = (*pairs, *in_turn(statement, self.problem.symbols))
        orders = [first_order(statement)]
        for last in statement.indices:
            others = (index for index in statement.indices if index != last)
            orders.append(sorted_loops((*others, last), kept))
        found = dict.fromkeys(order for order in orders if order is not None)
        return self._made(linear(statement, order) for order in found)

    def _hoisted(self) -> list[Candidate]:
        def frontier(left: Statement) -> Iterator[IterationGraph]:
            return (one.graph for one in self._frontier(left))

        problem = self.problem
        return self._made(hoisted(problem.statement, problem.symbols, self.most_elements, frontier))

    def _presummed(self) -> list[Candidate]:
        def schedules(left: Statement) -> Iterator[IterationGraph]:
            return (one.candidate.graph for one in self._ranked(left))

        def frontier(left: Statement) -> Iterator[IterationGraph]:
            return (one.graph for one in self._frontier(left))

        problem = self.problem
        sizes = (problem.symbols, self.most_elements)
        return self._made(presummed(problem.statement, *sizes, schedules, frontier))

    def _made(self, graphs: Iterable[IterationGraph]) -> list[Candidate]:
        return candidates_of(costing_of(self.problem.statement), graphs, are_pipelines=True)


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
