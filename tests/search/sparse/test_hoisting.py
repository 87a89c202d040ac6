"""Products of dense operands before a sparse one is walked: the same value, within the bounds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings

from search.sparse.drawn import Case, cases
from search.sparse.kernels import KERNELS
from search.sparse.test_translate import expected, run
from teir.search.sparse.cost import cost_of, value
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.hoisting import hoisted
from teir.search.sparse.predicted import Problem
from teir.search.sparse.ranked import ranked
from teir.search.sparse.statement import Statement, first_order


def one_nest(statement: Statement) -> Iterator[IterationGraph]:
    order = first_order(statement)
    assert order is not None
    yield linear(statement, order)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_a_hoisted_product_keeps_the_result(case: Case) -> None:
    sizes = {index: float(extent) for index, extent in case.extents.items()}
    for graph in islice(hoisted(case.statement, sizes, 1e9, one_nest), 4):
        np.testing.assert_allclose(run(graph, case), expected(case), rtol=1e-9, atol=1e-9)


def test_products_of_at_most_two_dimensions_are_hoisted_and_hoisted_again() -> None:
    """A[i,l] = B[i,j] C[j,k] D[j,k] E[k,l]: C E and D E would keep three dimensions."""
    statement = KERNELS["K3"].statement
    sizes = dict.fromkeys(statement.indices, 8.0)
    found = [str(graph) for graph in hoisted(statement, sizes, 1e9, one_nest)]
    assert found == [
        "< H1[j,k]; j, k: H1[j,k] += C[j,k] D[j,k], i, l, j', k: A[i,l] += B[i,j] E[k,l] H1[j,k] >",
        "< H1[j,k]; j, k: H1[j,k] += C[j,k] D[j,k], "
        "< H2[j,l]; j, l, k: H2[j,l] += E[k,l] H1[j,k], i, l, j': A[i,l] += B[i,j] H2[j,l] > >",
        "< H1[j,l]; j, l, k: H1[j,l] += C[j,k] D[j,k] E[k,l], i, l, j': A[i,l] += B[i,j] H1[j,l] >",
    ]


def test_nothing_larger_than_asked_for_is_hoisted() -> None:
    statement = KERNELS["K4"].statement
    sizes = dict.fromkeys(statement.indices, 8.0)
    assert [*hoisted(statement, sizes, 64.0, one_nest)]
    assert not [*hoisted(statement, sizes, 63.0, one_nest)]


@pytest.mark.parametrize("stored", [3.0, 30.0])
def test_temporaries_larger_than_all_data_come_last(stored: float) -> None:
    statement = KERNELS["K4"].statement
    symbols = dict.fromkeys(statement.indices, 1000.0) | {"jpos": stored}
    problem = Problem(statement=statement, symbols=symbols, element_bytes=8, cache_bytes=1 << 14)
    found = ranked(problem)
    data_elements = 1000 * stored + 3 * 1000.0**2
    large = [value(cost_of(one.candidate.graph).memory, symbols) > data_elements for one in found]
    assert large == sorted(large)
    fitting = [one.seconds for one, is_large in zip(found, large, strict=True) if not is_large]
    assert fitting == sorted(fitting)
