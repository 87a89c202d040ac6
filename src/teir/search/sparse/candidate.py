"""A schedule with its costs, and the comparison of many at concrete sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from teir.search.sparse.cost import Cost, Costing, Leaf, Sum, value
from teir.search.sparse.graph import IterationGraph
from teir.search.sparse.moves import is_linear
from teir.search.sparse.statement import Statement

LANES = 8
"""Iterations a vector unit does at once where the innermost access has stride one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A schedule, its complexity class, and the iterations that stride or gather innermost.

    ``is_permanent`` marks linear nests and unfused pipelines, which no comparison drops.
    """

    graph: IterationGraph
    cost: Cost
    strided: Sum
    is_permanent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Concrete extents and mean fibre lengths (``jpos``), and what the machine offers.

    ``memory_bytes`` is the budget of temporaries: half of the last-level cache (5.5).
    """

    symbols: Mapping[str, float]
    element_bytes: int
    memory_bytes: float

    def excess_bytes(self, cost: Cost) -> float:
        """Bytes of temporaries beyond the budget."""
        return max(0.0, value(cost.memory, self.symbols) * self.element_bytes - self.memory_bytes)

    def is_within(self, cost: Cost) -> bool:
        """The test of stage 4: temporaries below the budget."""
        return value(cost.memory, self.symbols) * self.element_bytes < self.memory_bytes


def candidates_of(
    costing: Costing, graphs: Iterable[IterationGraph], *, are_pipelines: bool
) -> list[Candidate]:
    """The graphs with their costs."""
    made = []
    for graph in graphs:
        leaves = costing.leaves(graph)
        made.append(
            Candidate(
                graph=graph,
                cost=costing.cost(graph, leaves),
                strided=costing.strided(leaves),
                is_permanent=are_pipelines or is_linear(graph),
            )
        )
    return made


def pareto(candidates: Sequence[Candidate], sizes: Sizes) -> list[Candidate]:
    """Those that no other beats at these sizes, permanent ones always, in the given order.

    Compared are time, strided iterations, and bytes beyond the budget.
    """
    points = [
        (
            value(candidate.cost.time, sizes.symbols),
            value(candidate.strided, sizes.symbols),
            sizes.excess_bytes(candidate.cost),
        )
        for candidate in candidates
    ]
    best: list[tuple[float, float, float]] = []
    for point in sorted(set(points)):
        if not any(all(a <= b for a, b in zip(one, point, strict=True)) for one in best):
            best.append(point)
    kept = set(best)
    return [
        candidate
        for candidate, point in zip(candidates, points, strict=True)
        if candidate.is_permanent or point in kept
    ]


def estimate(candidate: Candidate, sizes: Sizes) -> float:
    """Time with the vector unit: iterations with stride one innermost cost a lane each."""
    strided = value(candidate.strided, sizes.symbols)
    return strided + (value(candidate.cost.time, sizes.symbols) - strided) / LANES


def cache_cost(statement: Statement, leaves: Sequence[Leaf], sizes: Mapping[str, float]) -> float:
    """Stage 5 (5.6): elements between two neighbouring accesses, over all accesses.

    0 where the innermost loop is the last index of an access or no index of it, else the product
    of the extents behind it.
    """
    total = 0.0
    for leaf in leaves:
        for indices in _stored_indices(statement, leaf):
            if leaf.loops and leaf.loops[-1] in indices[:-1]:
                behind = indices[indices.index(leaf.loops[-1]) + 1 :]
                total += prod(sizes[index] for index in behind)
    return total


def in_loop_order(statement: Statement, leaves: Sequence[Leaf]) -> int:
    """The number of accesses whose indices, outermost level first, stand in loop order."""
    return sum(
        1
        for leaf in leaves
        for indices in _stored_indices(statement, leaf)
        if list(indices) == sorted(indices, key=leaf.loops.index)
    )


def _stored_indices(statement: Statement, leaf: Leaf) -> list[tuple[str, ...]]:
    return [
        access.indices
        if statement.format_of(access.tensor) is None
        else statement.level_indices(access.tensor)
        for access in (leaf.nest.output, *leaf.nest.inputs)
    ]
