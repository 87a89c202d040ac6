"""The auto-scheduler: all schedules of a product of sparse and dense tensors, and the one to run.

    stage 1   temporaries of at most two dimensions, one schedule per loop tree      (5.2)
    stage 2   depth poset, ``rule="paper"`` only                                     (5.3)
    stage 3   what another schedule makes superfluous for all admitted sizes         (5.4)
    stage 4   with sizes: least time among those whose temporaries fit in half the cache  (5.5)
    stage 5   ties: the least distance between accesses, then accesses in loop order (5.6)

``rule="paper"`` keeps the paper's formulas, to reproduce its table. ``rule="sound"`` drops only
what another schedule beats or equals in time, in strided iterations and in bytes beyond the cache;
never linear nests and unfused pipelines; it has no stage 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import inf
from typing import assert_never

from teir.errors import ArgumentPlace, Finding, TeirError
from teir.errors import Rule as ErrorRule
from teir.search.sparse.candidate import (
    Candidate,
    Sizes,
    cache_cost,
    candidates_of,
    estimate,
    in_loop_order,
    pareto,
)
from teir.search.sparse.composed import ComposedCosts, Costs
from teir.search.sparse.constraints import Known, known_of, symbols_of
from teir.search.sparse.cost import FIBRE, Sum, costing_of, value
from teir.search.sparse.dominance import kept_by_printed_rule, not_dominated
from teir.search.sparse.generation import generated, space_of, space_within
from teir.search.sparse.loop_trees import LARGEST_RANK, Found, LoopTrees
from teir.search.sparse.planned import Planner
from teir.search.sparse.rebuild import Rebuilder
from teir.search.sparse.sampling import Samples
from teir.search.sparse.shapes import Shapes
from teir.search.sparse.space import Identity, Space
from teir.search.sparse.statement import Pairs, Statement

SIZES = ErrorRule(
    code="TEIR669",
    sentence="Sizes give every index an extent and every compressed index a mean fibre length that "
    "is no longer, and nothing else: i=1000,j=1000,jpos=3.5.",
    source="docs/sparse-scheduling.md, sizes",
)

ELEMENT_BYTES = 8
CACHE_SHARE = 0.5

Advance = Callable[[int, int], None]
"""Told (done, all) while a long stage runs."""


class RuleSet(Enum):
    """Which schedules are dropped."""

    PAPER = "paper"
    SOUND = "sound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to schedule for: constraints on all sizes, or the sizes of one problem.

    ``cache_bytes`` is the last-level cache; temporaries may take half of it.
    """

    rule: RuleSet = RuleSet.SOUND
    constraints: tuple[str, ...] = ()
    sizes: Mapping[str, float] | None = None
    cache_bytes: int
    element_bytes: int = ELEMENT_BYTES
    skip_depth_poset: bool = False

    @property
    def memory_bytes(self) -> float:
        return self.cache_bytes * CACHE_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules:
    """How many schedules each stage left; those left at the end; the chosen one, with sizes."""

    statement: Statement
    generated: int
    stage1: int
    stage2: int
    stage3: int
    frontier: tuple[Candidate, ...]
    chosen: Candidate | None

    @property
    def classes(self) -> int:
        """The number of complexity classes left."""
        return len({candidate.cost for candidate in self.frontier})


def find_schedules(
    statement: Statement, request: Request, advance: Advance | None = None
) -> Schedules:
    """Generate, prune and choose. Raises TeirError for wrong constraints or sizes."""
    known = known_of(statement, request.constraints)
    sizes = _sizes(statement, request)
    tell = advance or _say_nothing
    match request.rule:
        case RuleSet.PAPER:
            found = _by_paper(statement, request, known, tell)
            chosen = None if sizes is None else _by_time_and_memory(found.frontier, sizes)
        case RuleSet.SOUND:
            found = _by_dominance(statement, request, known, sizes, tell)
            chosen = None if sizes is None else _by_estimate(found.frontier, sizes)
        case _:
            assert_never(request.rule)
    return replace(found, chosen=chosen)


def _say_nothing(done: int, of: int) -> None:
    del done, of


def _sizes(statement: Statement, request: Request) -> Sizes | None:
    if request.sizes is None:
        return None
    symbols = symbols_of(statement)
    findings = [
        *(
            _size_finding(f"a value above 0 for {symbol}", request.sizes.get(symbol, "none"))
            for symbol in symbols
            if not 0 < request.sizes.get(symbol, 0) < inf
        ),
        *(
            _size_finding(f"at most {request.sizes[index]:g} for {symbol}", request.sizes[symbol])
            for symbol in symbols
            if (index := symbol.removesuffix(FIBRE)) != symbol
            and request.sizes.get(symbol, 0) > request.sizes.get(index, inf)
        ),
        *(
            _size_finding(f"values for {', '.join(symbols)}", symbol)
            for symbol in request.sizes
            if symbol not in symbols
        ),
    ]
    if findings:
        raise TeirError(tuple(findings))
    return Sizes(
        symbols={symbol: float(request.sizes[symbol]) for symbol in symbols},
        element_bytes=request.element_bytes,
        memory_bytes=request.memory_bytes,
    )


def _size_finding(expected: str, found: object) -> Finding:
    place = ArgumentPlace(name="sizes")
    return Finding(rule=SIZES, place=place, expected=expected, found=str(found))


def _by_paper(statement: Statement, request: Request, known: Known, advance: Advance) -> Schedules:
    advance(0, 4)
    shapes = Shapes(statement)
    count = generated(shapes, Identity.NAMES)
    advance(1, 4)
    space = space_within(shapes, Identity.NAMES, LARGEST_RANK)
    advance(2, 4)
    trees = LoopTrees(space, with_primes=False)
    kept = list(trees.kept(pipelines=True))
    advance(3, 4)
    low = kept if request.skip_depth_poset else lowest_depths(kept)
    rebuilder = Rebuilder(space, trees)
    graphs = (rebuilder.graph(found) for found in low)
    candidates = candidates_of(costing_of(statement), graphs, are_pipelines=False)
    costs = list(dict.fromkeys(candidate.cost for candidate in candidates))
    left = kept_by_printed_rule([cost.dense() for cost in costs], known)
    classes = {costs[place] for place in left}
    frontier = tuple(candidate for candidate in candidates if candidate.cost in classes)
    return Schedules(
        statement=statement,
        generated=count,
        stage1=len(kept),
        stage2=len(low),
        stage3=len(frontier),
        frontier=frontier,
        chosen=None,
    )


def lowest_depths(kept: Sequence[Found]) -> list[Found]:
    """Stage 2: drop what has more loops or deeper temporaries than another, and no less of both."""
    depths = {(found.loop_depth, found.memory_depth) for found in kept}
    low = {
        (loops, memory)
        for loops, memory in depths
        if not any(
            one <= loops and other <= memory and (one, other) != (loops, memory)
            for one, other in depths
        )
    }
    return [found for found in kept if (found.loop_depth, found.memory_depth) in low]


def _by_dominance(
    statement: Statement,
    request: Request,
    known: Known,
    sizes: Sizes | None,
    advance: Advance,
) -> Schedules:
    advance(0, 4)
    shapes = Shapes(statement)
    count = generated(shapes, Identity.ACCESSES)
    advance(1, 4)
    space = space_within(shapes, Identity.ACCESSES, LARGEST_RANK)
    if sizes is None:
        stage1, frontier = _for_all_sizes(space, request, known, advance)
    else:
        stage1 = _stage1_count(space)
        advance(3, 4)
        frontier = _unbeaten(space, sizes)
    return Schedules(
        statement=statement,
        generated=count,
        stage1=stage1,
        stage2=stage1,
        stage3=len(frontier),
        frontier=tuple(frontier),
        chosen=None,
    )


def plan_frontier(
    statement: Statement, request: Request, in_turn: Pairs = ()
) -> tuple[Candidate, ...]:
    """The sound frontier at the request's sizes, nothing counted: what a planner ranks.

    Of every pair of ``in_turn`` the first loop stays outside. Raises TeirError for wrong or
    missing sizes.
    """
    sizes = _sizes(statement, replace(request, sizes=request.sizes or {}))
    assert sizes is not None
    space = space_of(statement, Identity.ACCESSES, LARGEST_RANK, in_turn)
    return tuple(_unbeaten(space, sizes))


def _unbeaten(space: Space, sizes: Sizes) -> list[Candidate]:
    """Schedules no other beats, all linear nests, all pipelines; one per loop tree and costs."""
    costing = costing_of(space.statement)
    graphs = Planner(space, sizes.symbols).graphs()
    found = candidates_of(costing, graphs, are_pipelines=False)
    unique = {(one.graph.tree, one.cost, one.strided): one for one in reversed(found)}
    pipelines = Rebuilder(space, LoopTrees(space, with_primes=True)).pipelines(space.orders[0])
    nested = [*reversed(unique.values())]
    return pareto([*nested, *candidates_of(costing, pipelines, are_pipelines=True)], sizes)


def _stage1_count(space: Space) -> int:
    trees = LoopTrees(space, with_primes=True)
    pipelines = sum(
        len(pipeline.orders)
        for pipeline in space.orders[0].pipelines
        if trees.first_halves(pipeline) is not None
    )
    return trees.count() + pipelines


def stage1_candidates(statement: Statement) -> list[Candidate]:
    """One schedule per loop tree with primes, and the unfused pipelines."""
    space = space_of(statement, Identity.ACCESSES, LARGEST_RANK)
    trees = LoopTrees(space, with_primes=True)
    rebuilder, costing = Rebuilder(space, trees), costing_of(statement)
    nested = map(rebuilder.graph, trees.kept(pipelines=False))
    pipelines = rebuilder.pipelines(space.orders[0])
    return [
        *candidates_of(costing, nested, are_pipelines=False),
        *candidates_of(costing, pipelines, are_pipelines=True),
    ]


def _for_all_sizes(
    space: Space, request: Request, known: Known, advance: Advance
) -> tuple[int, list[Candidate]]:
    """The number of `stage1_candidates`, and those of them that stay."""
    trees = LoopTrees(space, with_primes=True)
    rebuilder, costing = Rebuilder(space, trees), costing_of(space.statement)
    samples = Samples(known)
    composed = ComposedCosts(space, trees, samples)
    pipelines = candidates_of(costing, rebuilder.pipelines(space.orders[0]), are_pipelines=True)
    of_pipelines = [(one.cost.time, one.strided, one.cost.memory) for one in pipelines]
    costs = dict.fromkeys([*composed.all(), *of_pipelines])
    kept = _not_dominated(tuple(costs), samples, request, advance)
    wanted = composed.trees(kept) | trees.nests()
    graphs = map(rebuilder.graph, trees.kept_of(wanted))
    left = [*candidates_of(costing, graphs, are_pipelines=False), *pipelines]
    return trees.count() + len(pipelines), left


def _not_dominated(
    costs: Sequence[Costs], samples: Samples, request: Request, advance: Advance
) -> set[Costs]:
    """Memory counts as nothing where it is below the budget for all sizes."""
    memories = dict.fromkeys(memory for _, _, memory in costs)
    small = {memory for memory in memories if _always_within(memory, samples.known, request)}
    compared: dict[Costs, list[Costs]] = {}
    for cost in costs:
        time, strided, memory = cost
        compared.setdefault((time, strided, () if memory in small else memory), []).append(cost)
    points = list(compared)
    return {
        cost
        for place in not_dominated(points, samples, advance)
        for cost in compared[points[place]]
    }


def _always_within(memory: Sum, known: Known, request: Request) -> bool:
    symbols = {symbol for product in memory for symbol in product}
    bounded = ((symbol, known.bounds[symbol][1]) for symbol in symbols)
    most = {symbol: high for symbol, high in bounded if high is not None}
    if len(most) < len(symbols):
        return False
    return value(memory, most) * request.element_bytes < request.memory_bytes


def _by_time_and_memory(frontier: Sequence[Candidate], sizes: Sizes) -> Candidate | None:
    """Stages 4 and 5; None where no schedule's temporaries fit."""
    fitting = [candidate for candidate in frontier if sizes.is_within(candidate.cost)]
    if not fitting:
        return None

    def rank(candidate: Candidate) -> tuple[float, float]:
        cost = candidate.cost
        return value(cost.time, sizes.symbols), value(cost.memory, sizes.symbols)

    least = min(map(rank, fitting))
    return _closest([candidate for candidate in fitting if rank(candidate) == least], sizes)


def _by_estimate(frontier: Sequence[Candidate], sizes: Sizes) -> Candidate:
    """The least estimate among what fits, then least memory; among all where nothing fits."""
    fitting = [candidate for candidate in frontier if sizes.is_within(candidate.cost)] or frontier

    def rank(candidate: Candidate) -> tuple[float, float]:
        return estimate(candidate, sizes), value(candidate.cost.memory, sizes.symbols)

    least = min(map(rank, fitting))
    return _closest([candidate for candidate in fitting if rank(candidate) == least], sizes)


def _closest(candidates: Sequence[Candidate], sizes: Sizes) -> Candidate:
    """Stage 5; what is still equal is decided by the text."""
    costing = costing_of(candidates[0].graph.statement)

    def rank(candidate: Candidate) -> tuple[float, int, str]:
        statement = candidate.graph.statement
        leaves = costing.leaves(candidate.graph)
        distance = cache_cost(statement, leaves, sizes.symbols)
        return distance, -in_loop_order(statement, leaves), str(candidate.graph)

    return min(candidates, key=rank)
