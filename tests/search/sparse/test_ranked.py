"""The work of ranking, counted in schedules whose time is predicted."""

from __future__ import annotations

from math import factorial
from string import ascii_lowercase

import numpy as np
import pytest

import teir
from search.sparse.written import statement
from teir.search.sparse import ranked as ranking
from teir.search.sparse.cost import FIBRE
from teir.search.sparse.graph import IterationGraph, Nest
from teir.search.sparse.predicted import Problem, predicted_seconds
from teir.search.sparse.ranked import Ranked, ranked

MTTKRP = "stuvwxyz,ta,ua,va,wa,xa,ya,za->sa"
CHAIN = "ab,bc,cd,de,ef,fg,gh,hi->ai"
NETWORK = "ab,bcd,cef,agh,hdij,jfk,gl,lim->emk"
WIDE_PAIR = "x,abcdefgh,efghijkl->xabcdijkl"


def tucker(order: int, *, is_turned: bool = False) -> str:
    """A tensor with a matrix along each of its axes."""
    inner, outer = ascii_lowercase[-order:], ascii_lowercase[:order]
    matrices = map("".join, zip(inner, outer, strict=True))
    return f"{','.join((inner, *matrices))}->{outer[::-1] if is_turned else outer}"


def problem(text: str, extent: float = 6.0) -> Problem:
    """The first tensor compressed."""
    product = statement(text, "s" * text.index(","))
    symbols = dict.fromkeys(product.indices, extent)
    symbols |= {f"{index}{FIBRE}": 2.0 for index in product.inputs[0].indices}
    return Problem(statement=product, symbols=symbols, element_bytes=8, cache_bytes=32 << 20)


def counted(
    text: str, monkeypatch: pytest.MonkeyPatch, extent: float = 6.0
) -> tuple[tuple[Ranked, ...], int]:
    """What is ranked, and how many predictions that took."""
    asked: list[IterationGraph] = []

    def predicted(graph: IterationGraph, of: Problem) -> float:
        asked.append(graph)
        return predicted_seconds(graph, of)

    monkeypatch.setattr(ranking, "predicted_seconds", predicted)
    return ranked(problem(text, extent)), len(asked)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        # 5619, 20160 and 5148 without loops in turn.
        (tucker(5), 1500),
        ("ij,jklmnop->iklmnop", 28),
        ("i,ijkl,lmno->jkmno", 500),
    ],
)
def test_interchangeable_loops_have_one_order(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, count = counted(text, monkeypatch)
    assert count <= most


@pytest.mark.parametrize("text", [*map(tucker, (6, 7, 8)), MTTKRP, CHAIN, NETWORK, WIDE_PAIR])
def test_many_factors_take_few_predictions(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = counted(text, monkeypatch, 3.0)
    assert found
    assert count < 15_000


def test_two_tensors_with_many_indices_have_a_nest_for_every_innermost_loop() -> None:
    product = statement("abcdefgh,efghijkl->abcdijkl")
    symbols = dict.fromkeys(product.indices, 2.0)
    found = ranked(
        Problem(statement=product, symbols=symbols, element_bytes=8, cache_bytes=1 << 25)
    )
    nests = [one.candidate.graph.root for one in found]
    assert all(isinstance(nest, Nest) for nest in nests)
    # d, h and l are the adjacent ones; a, b, c and the like are in turn.
    assert {nest.loops[-1] for nest in nests} >= {"d", "h", "l"}
    assert len(nests) <= len(product.indices) + 1


def test_small_products_keep_all_orders() -> None:
    found = ranked(problem("i,ijklmn->jklmn"))
    nests = {one.candidate.graph.root.loops for one in found}
    assert len(nests) == factorial(6)
    assert all(isinstance(one.candidate.graph.root, Nest) for one in found)


@pytest.mark.parametrize("text", [*map(tucker, (6, 7, 8)), tucker(6, is_turned=True)])
def test_results_are_those_of_numpy(text: str) -> None:
    random = np.random.default_rng(len(text))
    terms = text.split("->")[0].split(",")
    shapes = [(3,) * len(terms[0]), *((3, 2),) * (len(terms) - 1)]
    dense = [random.integers(-2, 3, shape).astype(float) for shape in shapes]
    dense[0] *= random.random(shapes[0]) < 0.05
    nonzero = np.nonzero(dense[0])
    sparse = teir.Sparse.from_coo(nonzero, dense[0][nonzero], shapes[0], "s" * len(terms[0]))
    expected = np.einsum(text, *dense, optimize="greedy")
    np.testing.assert_array_equal(teir.einsum(text, sparse, *dense[1:]), expected)
