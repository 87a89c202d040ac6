"""Costs composed of those of the halves, and what is left without the dominated halves."""

from __future__ import annotations

import pytest
from tests.search.sparse.kernels import KERNELS

from teir.search.sparse.composed import ComposedCosts
from teir.search.sparse.constraints import known_of
from teir.search.sparse.cost import costing_of
from teir.search.sparse.dominance import not_dominated
from teir.search.sparse.generation import space_of
from teir.search.sparse.loop_trees import LARGEST_RANK, LoopTrees
from teir.search.sparse.rebuild import Rebuilder
from teir.search.sparse.sampling import Samples
from teir.search.sparse.schedules import Request, RuleSet, find_schedules, stage1_candidates
from teir.search.sparse.space import Identity

NAMES = ("K1", "K3", "K4", "K6", "K7", "K8")


@pytest.mark.parametrize("name", NAMES)
def test_composed_costs_are_those_of_the_graphs(name: str) -> None:
    statement = KERNELS[name].statement
    space = space_of(statement, Identity.ACCESSES, LARGEST_RANK)
    trees = LoopTrees(space, with_primes=True)
    composed = ComposedCosts(space, trees, Samples(known_of(statement, ())))
    rebuilder, costing = Rebuilder(space, trees), costing_of(statement)
    different = composed.all()
    assert different
    for costs in different:
        wanted = composed.trees([costs])
        graphs = [rebuilder.graph(found) for found in trees.kept_of(wanted)]
        assert len(graphs) == len(wanted) > 0
        for graph in graphs:
            leaves = costing.leaves(graph)
            cost = costing.cost(graph, leaves)
            assert costs == (cost.time, costing.strided(leaves), cost.memory), str(graph)


@pytest.mark.parametrize("name", NAMES)
def test_schedules_of_dominated_halves_are_dominated(name: str) -> None:
    kernel = KERNELS[name]
    known = known_of(kernel.statement, kernel.constraints)
    everything = stage1_candidates(kernel.statement)
    points = [(one.cost.time, one.strided, one.cost.memory) for one in everything]
    unique = list(dict.fromkeys(points))
    kept = {unique[place] for place in not_dominated(unique, Samples(known))}
    expected = [
        (one.graph, one.cost)
        for one, point in zip(everything, points, strict=True)
        if one.is_permanent or point in kept
    ]
    # A cache without room, so that all memory counts.
    request = Request(rule=RuleSet.SOUND, constraints=kernel.constraints, cache_bytes=0)
    found = find_schedules(kernel.statement, request)
    assert [(one.graph, one.cost) for one in found.frontier] == expected
    assert found.stage1 == len(everything)
