"""``rule="sound"``: what it keeps, what it chooses, and that planning finds the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.sparse.drawn import statements
from search.sparse.kernels import KERNELS
from teir.errors import TeirError
from teir.search.sparse.candidate import Candidate, Sizes, pareto
from teir.search.sparse.constraints import known_of, symbols_of
from teir.search.sparse.cost import FIBRE, value
from teir.search.sparse.moves import is_linear
from teir.search.sparse.sampling import sample_points
from teir.search.sparse.schedules import (
    Request,
    RuleSet,
    find_schedules,
    plan_frontier,
    stage1_candidates,
)
from teir.search.sparse.statement import Statement

CACHE_BYTES = 2**22

SIZES = {
    "K1": {"i": 4000, "j": 4000, "jpos": 30, "k": 64, "l": 64},
    "K4": {"i": 4000, "j": 4000, "jpos": 30, "k": 64, "l": 64},
    "K6": {"i": 300, "j": 300, "k": 300, "jpos": 90, "kpos": 5, "l": 64, "m": 64},
    "K7": {"i": 300, "j": 300, "k": 300, "jpos": 90, "kpos": 5, "l": 64, "m": 64},
}


def request_for(name: str) -> Request:
    return Request(sizes=SIZES[name], cache_bytes=CACHE_BYTES)


def identities(candidates: list[Candidate] | tuple[Candidate, ...]) -> set[tuple[object, ...]]:
    return {(candidate.graph.tree, candidate.cost) for candidate in candidates}


def sizes_of(statement: Statement, request: Request) -> Sizes:
    assert request.sizes is not None
    return Sizes(
        symbols={symbol: request.sizes[symbol] for symbol in symbols_of(statement)},
        element_bytes=request.element_bytes,
        memory_bytes=request.memory_bytes,
    )


@pytest.mark.parametrize("name", sorted(SIZES))
def test_planning_finds_what_comparing_all_schedules_finds(name: str) -> None:
    statement, request = KERNELS[name].statement, request_for(name)
    expected = pareto(stage1_candidates(statement), sizes_of(statement, request))
    assert identities(plan_frontier(statement, request)) == identities(expected)
    assert identities(find_schedules(statement, request).frontier) == identities(expected)


@settings(max_examples=40, deadline=None)
@given(statements(), st.data())
def test_planning_any_statement_finds_the_same_costs(
    statement: Statement, data: st.DataObject
) -> None:
    sizes: dict[str, float] = {}
    for symbol in symbols_of(statement):
        most = sizes.get(symbol.removesuffix(FIBRE), 500)
        sizes[symbol] = data.draw(st.integers(1, int(most)), label=symbol)
    request = Request(sizes=sizes, cache_bytes=data.draw(st.sampled_from((64, 4096, 2**20))))
    budget = sizes_of(statement, request)

    def points(candidates: list[Candidate] | tuple[Candidate, ...]) -> set[tuple[float, ...]]:
        return {
            (
                value(candidate.cost.time, sizes),
                value(candidate.strided, sizes),
                budget.excess_bytes(candidate.cost),
            )
            for candidate in candidates
            if not candidate.is_permanent
        }

    expected = pareto(stage1_candidates(statement), budget)
    assert points(plan_frontier(statement, request)) == points(expected)


@pytest.mark.parametrize("name", ["K4", "K6", "K7"])
@pytest.mark.parametrize("is_constrained", [False, True])
def test_no_size_makes_a_dropped_schedule_best(name: str, is_constrained: bool) -> None:
    """At every sample point, the best of everything is as good as the best of what was kept."""
    kernel = KERNELS[name]
    texts = kernel.constraints if is_constrained else ()
    request = Request(constraints=texts, cache_bytes=CACHE_BYTES)
    frontier = find_schedules(kernel.statement, request).frontier
    everything = stage1_candidates(kernel.statement)
    points = sample_points(known_of(kernel.statement, texts))
    for number in range(0, next(iter(points.values())).size, 20):
        symbols = {symbol: float(values[number]) for symbol, values in points.items()}
        sizes = Sizes(symbols=symbols, element_bytes=8, memory_bytes=request.memory_bytes)
        best = {candidate.cost for candidate in pareto(everything, sizes)}
        kept = identities(frontier)
        for candidate in pareto(everything, sizes):
            if (candidate.graph.tree, candidate.cost) in kept:
                continue
            # Another one that was kept is as good here in every component.
            assert any(
                value(other.cost.time, symbols) <= value(candidate.cost.time, symbols)
                and value(other.strided, symbols) <= value(candidate.strided, symbols)
                and sizes.excess_bytes(other.cost) <= sizes.excess_bytes(candidate.cost)
                for other in frontier
            ), candidate.graph
        assert best


@pytest.mark.parametrize("name", ["K4", "K6", "K7"])
def test_linear_nests_and_pipelines_are_never_dropped(name: str) -> None:
    statement = KERNELS[name].statement
    everything = stage1_candidates(statement)
    permanent = [candidate for candidate in everything if candidate.is_permanent]
    assert any(is_linear(candidate.graph) for candidate in permanent)
    kept = identities(find_schedules(statement, request_for(name)).frontier)
    assert identities(permanent) <= kept
    assert identities(permanent) <= identities(
        find_schedules(statement, Request(cache_bytes=CACHE_BYTES)).frontier
    )


def test_a_row_workspace_is_chosen_where_the_scalar_would_stride() -> None:
    """The paper's choice for K4 and K6 is a scalar temporary; its inner loop gathers."""
    for name, tree in (
        ("K4", "(i, (j, k), (k, l))"),
        ("K6", "(i, j, (k, m), (l, m))"),
    ):
        chosen = find_schedules(KERNELS[name].statement, request_for(name)).chosen
        assert chosen is not None
        assert chosen.graph.tree == tree


def test_without_sizes_nothing_is_chosen() -> None:
    found = find_schedules(KERNELS["K4"].statement, Request(cache_bytes=CACHE_BYTES))
    assert found.chosen is None
    assert found.stage1 == found.stage2 > found.stage3


def test_the_paper_chooses_by_time_below_half_of_the_cache() -> None:
    """K5: the schedule with a row over m; with next to no cache the one with a scalar."""
    kernel = KERNELS["K5"]
    sizes = {"i": 300, "j": 3000, "k": 300, "jpos": 90, "kpos": 5, "l": 64, "m": 64, "n": 64}
    trees = []
    for cache_bytes in (2**22, 64):
        request = Request(
            rule=RuleSet.PAPER,
            constraints=kernel.constraints,
            sizes=sizes,
            cache_bytes=cache_bytes,
        )
        chosen = find_schedules(kernel.statement, request).chosen
        assert chosen is not None
        trees.append(chosen.graph.tree)
    assert trees == ["(i, n, (j, (k,), (m,)), (l, m))", "(i, m, n, (j, k), (l,))"]


def test_missing_sizes_are_all_named() -> None:
    with pytest.raises(TeirError) as caught:
        plan_frontier(KERNELS["K4"].statement, Request(sizes={"i": 3}, cache_bytes=1))
    assert [finding.code for finding in caught.value.findings] == ["TEIR669"] * 4
