"""Factors summed before they are multiplied: the same value, within the bounds, where it pays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from hypothesis import given, settings

from search.sparse.drawn import Case, cases
from search.sparse.test_translate import expected, run
from teir.arrays.levels import parse_format
from teir.expr.index_notation_parsing import parse_index_notation
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.predicted import Problem
from teir.search.sparse.presummed import presummed
from teir.search.sparse.ranked import ranked
from teir.search.sparse.statement import Statement, first_order, statement_of


def one_nest(statement: Statement) -> Iterator[IterationGraph]:
    order = first_order(statement)
    if order is not None:
        yield linear(statement, order)


def statement(text: str, *rows: str) -> Statement:
    return statement_of(parse_index_notation(text), {name: parse_format("ds") for name in rows})


def texts(given_: Statement, most: float = 1e9) -> list[str]:
    sizes = dict.fromkeys(given_.indices, 8.0)
    return [str(graph) for graph in presummed(given_, sizes, most, one_nest, one_nest)]


@settings(max_examples=200, deadline=None)
@given(cases())
def test_a_sum_formed_first_keeps_the_result(case: Case) -> None:
    sizes = {index: float(extent) for index, extent in case.extents.items()}
    found = presummed(case.statement, sizes, 1e9, one_nest, one_nest)
    for graph in islice(found, 4):
        np.testing.assert_allclose(run(graph, case), expected(case), rtol=1e-9, atol=1e-9)


def test_each_factor_with_an_index_of_its_own_is_summed() -> None:
    assert texts(statement("y[i] = B[i,j] * C[j,k]", "B", "C")) == [
        "< V1[j]; j, k': V1[j] += C[j,k], i, j': y[i] += B[i,j] V1[j] >"
    ]
    assert texts(statement("y = B[i,j] * C[j,k]", "B")) == [
        "< V1[j]; i, j': V1[j] += B[i,j], j, k: y += C[j,k] V1[j] >",
        "< V1[j]; j, k: V1[j] += C[j,k], i, j': y += B[i,j] V1[j] >",
    ]


def test_indices_of_the_result_and_of_a_factor_alone_are_not_summed_first() -> None:
    assert not texts(statement("y[i,k] = B[i,j] * C[j,k]", "B", "C"))
    assert not texts(statement("y[i] = B[i,j]", "B"))


def test_no_sum_is_larger_than_asked_for() -> None:
    given_ = statement("y[i] = B[i,j] * C[j,k]", "B", "C")
    assert texts(given_, 8.0)
    assert not texts(given_, 7.0)


def test_the_sum_comes_first_where_it_takes_fewer_iterations() -> None:
    """Each of 1000 rows of B meets 20 rows of C; of 10 rows it is cheaper to add what is met."""
    given_ = statement("y[i] = B[i,j] * C[j,k]", "B", "C")
    symbols = {"i": 1000.0, "j": 1000.0, "k": 1000.0, "jpos": 20.0, "kpos": 20.0}
    assert _first(given_, symbols).startswith("< V1[j];")
    assert _first(given_, symbols | {"i": 10.0, "jpos": 1.0}).startswith("i, j', k':")


def _first(given_: Statement, symbols: dict[str, float]) -> str:
    problem = Problem(statement=given_, symbols=symbols, element_bytes=8, cache_bytes=1 << 25)
    return str(ranked(problem)[0].candidate.graph)
