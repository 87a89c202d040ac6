"""Factors that multiply the sum over a fibre: the same value, and only where it pays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.sparse.drawn import Case
from search.sparse.kernels import KERNELS
from search.sparse.test_translate import expected, run
from teir.arrays.levels import Format, Level
from teir.expr.index_notation_parsing import parse_index_notation
from teir.search.sparse.deferred import deferred
from teir.search.sparse.graph import linear
from teir.search.sparse.predicted import Problem
from teir.search.sparse.ranked import ranked
from teir.search.sparse.statement import first_order, statement_of

_LEVELS = (Level.DENSE, Level.COMPRESSED, Level.COMPRESSED)
_MTTKRP = statement_of(
    parse_index_notation("A[i,j] = B[i,k,l] * C[l,j] * D[k,j]"),
    {"B": Format(levels=_LEVELS, mode_order=(0, 1, 2))},
)


@st.composite
def mttkrp(draw: st.DrawFn) -> Case:
    extents = {index: draw(st.integers(1, 6)) for index in _MTTKRP.indices}
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from((0.0, 0.2, 0.7, 1.0)))
    arrays, patterns = {}, {}
    for access in _MTTKRP.accesses:
        shape = tuple(extents[index] for index in access.indices)
        is_stored = random.random(shape) < (density if access.tensor == "B" else 1.0)
        patterns[access.tensor] = is_stored
        arrays[access.tensor] = random.standard_normal(shape) * is_stored
    return Case(_MTTKRP, extents, arrays, patterns)


@settings(max_examples=60, deadline=None)
@given(mttkrp())
def test_deferred_factors_keep_the_result(case: Case) -> None:
    graph = deferred(linear(case.statement, ("i", "k", "l", "j")))
    assert graph is not None
    np.testing.assert_allclose(run(graph, case), expected(case), rtol=1e-9, atol=1e-9)


def test_what_a_fibre_does_not_move_is_deferred() -> None:
    graph = deferred(linear(_MTTKRP, ("i", "k", "l", "j")))
    assert str(graph) == (
        "i, k' < T1[j]; l', j: T1[j] += B[i,k,l] C[l,j], j: A[i,j] += T1[j] D[k,j] >"
    )
    assert deferred(linear(_MTTKRP, ("i", "k", "j", "l"))) is None
    assert deferred(linear(_MTTKRP, ("j", "i", "k", "l"))) is None


@pytest.mark.parametrize("kernel", ["K1", "K4", "K7"])
def test_nothing_is_deferred_from_one_fibre_or_one_factor(kernel: str) -> None:
    statement = KERNELS[kernel].statement
    order = first_order(statement)
    assert order is not None
    assert deferred(linear(statement, order)) is None


@pytest.mark.parametrize(("length", "defers"), [(1.0, False), (60.0, True)])
def test_factors_of_long_fibres_are_deferred(length: float, defers: bool) -> None:
    statement = KERNELS["K8"].statement
    symbols = dict.fromkeys(statement.indices, 64.0) | {"i": 600.0, "k": 400.0, "l": 28_800.0}
    problem = Problem(
        statement=statement,
        symbols=symbols | {"kpos": 16.0, "lpos": length},
        element_bytes=8,
        cache_bytes=32 << 20,
    )
    chosen = str(ranked(problem)[0].candidate.graph)
    assert ("B[i,k,l] C[l,j] D[k,j]" not in chosen) is defers
