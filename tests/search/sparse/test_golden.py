"""``rule="paper"`` reproduces the published table: counts of every stage, chosen schedules."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import pytest

from search.sparse.kernels import KERNELS
from teir.search.sparse.candidate import candidates_of
from teir.search.sparse.constraints import known_of
from teir.search.sparse.cost import Cost, costing_of, loop_depth, memory_depth
from teir.search.sparse.dominance import kept_by_printed_rule, not_dominated
from teir.search.sparse.generation import generated, space_of
from teir.search.sparse.loop_trees import LARGEST_RANK, LoopTrees
from teir.search.sparse.rebuild import Rebuilder
from teir.search.sparse.sampling import Samples
from teir.search.sparse.schedules import (
    Request,
    RuleSet,
    Schedules,
    find_schedules,
    lowest_depths,
)
from teir.search.sparse.shapes import Shapes
from teir.search.sparse.space import Identity

CACHE_BYTES = 2 * 2_621_440 * 8

NAMES = sorted(KERNELS)
SMALL = ("K1", "K3", "K4", "K6", "K7", "K8")


def both(text: str, *pairs: str) -> set[str]:
    """``text`` with X replaced by both orders of each pair of loops."""
    return {text.replace("X", ", ".join(order)) for pair in pairs for order in permutations(pair)}


CHOSEN = {
    "K1": {"(i, j, (k,), (l,))"},
    "K2": both("(i, (j, (k,), (l,)), (X))", "lm")
    | both("(i, j, (k,), (X))", "lm")
    | {f"({a}, ({b}), (m,))" for a in ("i, l", "l, i") for b in ("j, k", "k, j")},
    "K3": both("(X, (j,), (l,))", "ik"),
    "K4": both("(X, (j,), (l,))", "ik"),
    "K5": {
        f"({a}, (k,), ({b}))" for a in ("i, j, n", "i, n, j", "n, i, j") for b in ("l, m", "m, l")
    }
    | {f"({a}, (j, (k,), (m,)), ({b}))" for a in ("i, n", "n, i") for b in ("l, m", "m, l")}
    | {f"({', '.join(order)}, (j, k), (l,))" for order in permutations("imn")},
    "K6": {f"({a}, (k,), (l,))" for a in ("i, j, m", "i, m, j", "m, i, j")},
    "K7": {"(i, j, l, (k,), (m,))"},
    "K8": both("(X, (k, l), (m,))", "ij"),
}
"""The schedules that section 6 of the paper shows for each kernel, as loop trees."""


@cache
def scheduled(name: str) -> Schedules:
    kernel = KERNELS[name]
    request = Request(rule=RuleSet.PAPER, constraints=kernel.constraints, cache_bytes=CACHE_BYTES)
    return find_schedules(kernel.statement, request)


@pytest.mark.parametrize("name", NAMES)
def test_every_count_of_the_table(name: str) -> None:
    found = scheduled(name)
    counts = (found.generated, found.stage1, found.stage2, found.stage3)
    assert counts == KERNELS[name].counts
    assert found.classes == KERNELS[name].classes


@pytest.mark.parametrize("name", NAMES)
def test_the_schedules_left_are_the_published_ones(name: str) -> None:
    assert {candidate.graph.tree for candidate in scheduled(name).frontier} == CHOSEN[name]


@cache
def classes_of(name: str, *, skip_depth_poset: bool) -> dict[Cost, int]:
    """Complexity classes after stage 1 or 2, with the number of their schedules."""
    kernel = KERNELS[name]
    space = space_of(kernel.statement, Identity.NAMES, LARGEST_RANK)
    trees = LoopTrees(space, with_primes=False)
    found = list(trees.kept(pipelines=True))
    found = found if skip_depth_poset else lowest_depths(found)
    rebuilder = Rebuilder(space, trees)
    graphs = [rebuilder.graph(one) for one in found]
    for one, graph in zip(found, graphs, strict=True):
        assert (one.loop_depth, one.memory_depth) == (loop_depth(graph), memory_depth(graph))
    classes: dict[Cost, int] = {}
    for candidate in candidates_of(costing_of(kernel.statement), graphs, are_pipelines=False):
        classes[candidate.cost] = classes.get(candidate.cost, 0) + 1
    return classes


@pytest.mark.parametrize(("name", "expected"), [("K2", 34), ("K5", 26), ("K4", 1), ("K8", 2)])
def test_classes_after_stage_2(name: str, expected: int) -> None:
    assert len(classes_of(name, skip_depth_poset=False)) == expected


WITHOUT_STAGE_2 = {
    # name: (dense extents, fibre lengths), each (schedules, classes)
    "K1": ((1, 1), (1, 1)),
    "K3": ((2, 1), (14, 2)),
    "K4": ((2, 1), (14, 2)),
    "K6": ((3, 1), (23, 2)),
    "K7": ((1, 1), (7, 2)),
    "K8": ((2, 1), (22, 2)),
}


@pytest.mark.parametrize("name", SMALL)
def test_stage_3_without_stage_2(name: str) -> None:
    pytest.importorskip("z3")
    classes = classes_of(name, skip_depth_poset=True)
    known = known_of(KERNELS[name].statement, KERNELS[name].constraints)
    costs = list(classes)
    dense = kept_by_printed_rule([cost.dense() for cost in costs], known)
    fibres = kept_by_printed_rule(costs, known)
    assert (
        (sum(classes[costs[place]] for place in dense), len(dense)),
        (sum(classes[costs[place]] for place in fibres), len(fibres)),
    ) == WITHOUT_STAGE_2[name]


def test_skipping_stage_2_is_a_request() -> None:
    kernel = KERNELS["K6"]
    request = Request(
        rule=RuleSet.PAPER,
        constraints=kernel.constraints,
        cache_bytes=CACHE_BYTES,
        skip_depth_poset=True,
    )
    found = find_schedules(kernel.statement, request)
    assert (found.stage1, found.stage2, found.stage3) == (352, 352, 3)


@pytest.mark.parametrize(
    ("name", "printed", "dominance", "no_ranges"),
    [("K2", (6, 2), (8, 3), (6, 2)), ("K5", (12, 2), (18, 4), (12, 2))],
)
def test_other_rules_of_stage_3(
    name: str,
    printed: tuple[int, int],
    dominance: tuple[int, int],
    no_ranges: tuple[int, int],
) -> None:
    """Fibre lengths under both rules, and dense extents without the ranges."""
    classes = classes_of(name, skip_depth_poset=False)
    known = known_of(KERNELS[name].statement, KERNELS[name].constraints)
    free = known_of(KERNELS[name].statement, ())
    costs = list(classes)
    found = [
        kept_by_printed_rule(costs, known),
        not_dominated([(cost.time, cost.memory) for cost in costs], Samples(known)),
        kept_by_printed_rule([cost.dense() for cost in costs], free),
    ]
    assert [(sum(classes[costs[place]] for place in kept), len(kept)) for kept in found] == [
        printed,
        dominance,
        no_ranges,
    ]


@pytest.mark.parametrize("name", NAMES)
def test_whole_expressions_make_one_different_count(name: str) -> None:
    """By whole accesses instead of names only the product of five tensors counts differently."""
    count = generated(Shapes(KERNELS[name].statement), Identity.ACCESSES)
    expected = 226_121_906 if name == "K2" else KERNELS[name].counts[0]
    assert count == expected
