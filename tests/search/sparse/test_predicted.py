"""The prediction ranks schedules as measured where rows are gathered from beyond the caches."""

from __future__ import annotations

import pytest

from search.sparse.kernels import KERNELS
from teir.arrays.levels import parse_format
from teir.expr.index_notation_parsing import parse_index_notation
from teir.search.sparse.predicted import Problem
from teir.search.sparse.ranked import ranked
from teir.search.sparse.statement import statement_of

FIBRES = {"i": 600.0, "j": 400.0, "k": 28_800.0, "jpos": 16.5, "kpos": 57.3}
"""Long fibres that gather scattered rows, 20 times each."""


def chosen(kernel: str, symbols: dict[str, float]) -> str:
    problem = Problem(
        statement=KERNELS[kernel].statement, symbols=symbols, element_bytes=8, cache_bytes=32 << 20
    )
    return str(ranked(problem)[0].candidate.graph)


@pytest.mark.parametrize(("extent", "is_first"), [(16, True), (32, True), (64, False)])
def test_dense_products_come_first_where_their_rows_are_short(extent: int, is_first: bool) -> None:
    """C D is a temporary whose rows begin with lines; those of C touch a line more.

    D first took 0.82, 0.91 and 1.10 of the time without, on a core whose third cache is far.
    """
    graph = chosen("K7", {**FIBRES, "l": float(extent), "m": float(extent)})
    assert graph.startswith("< H1[k,m]; k, m, l: H1[k,m] += C[k,l] D[l,m]") is is_first


def test_rows_that_neighbours_gather_too_count_no_line_more() -> None:
    """K4 on the pattern of fem_like, whose rows share what they gather: measured as fast fused."""
    sizes = {"i": 10_974.0, "j": 10_974.0, "jpos": 46.0, "k": 32.0, "l": 32.0}
    assert chosen("K4", sizes).startswith("i < T1[k]")


@pytest.mark.parametrize(
    ("rows", "length"), [(3000, 30.0), (3000, 3.0), (20_000, 6.0), (500, 50.0)]
)
def test_a_matrix_times_a_product_that_is_a_vector(rows: int, length: float) -> None:
    """Rows that are summed to numbers take 0.25 of the time of rows of eight numbers."""
    assignment = parse_index_notation("y[i] = B[i,j] * C[j,k] * v[k]")
    problem = Problem(
        statement=statement_of(assignment, {"B": parse_format("ds")}),
        symbols={"i": float(rows), "j": float(rows), "jpos": length, "k": 8.0},
        element_bytes=8,
        cache_bytes=32 << 20,
    )
    graph = str(ranked(problem)[0].candidate.graph)
    assert graph == "< H1[j]; j, k: H1[j] += C[j,k] v[k], i, j': y[i] += B[i,j] H1[j] >"


@pytest.mark.parametrize(
    ("rows", "length"), [(4884, 59.5), (13_436, 7.1), (15_606, 5.9), (10_974, 45.8)]
)
@pytest.mark.parametrize(("columns", "order"), [(1, "l, i, j'"), (2, "i, j', l"), (4, "i, j', l")])
def test_fibres_are_walked_once_for_a_few_columns(
    rows: int, length: float, columns: int, order: str
) -> None:
    """Each column by itself took 1.3 to 1.6 times as long of two columns, 2.4 to 2.8 of four."""
    assignment = parse_index_notation("A[i,l] = B[i,j] * C[j,l]")
    problem = Problem(
        statement=statement_of(assignment, {"B": parse_format("ds")}),
        symbols={"i": float(rows), "j": float(rows), "jpos": length, "l": float(columns)},
        element_bytes=8,
        cache_bytes=32 << 20,
    )
    assert str(ranked(problem)[0].candidate.graph).startswith(order)
