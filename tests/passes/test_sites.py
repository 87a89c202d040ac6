"""Which axes of a product form sites, by numbers alone."""

from __future__ import annotations

from math import prod
from random import Random

import pytest

from teir.passes.sites import Part, Walk, may_have_sites, sites_of

LANES = 16


def gate(qubit: int, qubits: int, width: int = 4) -> tuple[list[Walk], list[Walk], list[Walk]]:
    """Rows, columns and sums of a gate on one of so many qubits."""
    inner = 2 ** (qubits - qubit - 1)
    rows = [Walk(2**qubit, 2 * inner * width, 2 * inner * width), Walk(inner, width, width)]
    columns, sums = [Walk(2, 0, inner * width)], [Walk(2, inner * width, 0)]
    return [axis for axis in rows if axis.extent > 1], columns, sums


@pytest.mark.parametrize(("from_last", "count"), [(0, 8), (1, 4), (2, 2), (3, 1)])
def test_one_of_the_last_qubits_makes_sites(from_last: int, count: int) -> None:
    sites = sites_of(*gate(15 - from_last, 16), 4, LANES)
    assert sites is not None
    assert sites.count == count
    assert sites.a_elements == sites.c_elements == 2 << from_last
    assert (sites.columns, sites.sums) == ((Part(0, 2),), (Part(0, 2),))
    assert sites.outer_columns == sites.outer_sums == ()


@pytest.mark.parametrize("from_last", [4, 5, 9])
def test_rows_of_whole_vectors_are_left_to_register_blocks(from_last: int) -> None:
    assert sites_of(*gate(15 - from_last, 16), 4, LANES) is None


def test_half_of_a_matrix_lies_in_other_vectors() -> None:
    rows = [Walk(1 << 12, 64 * 4, 64 * 4), Walk(4, 4, 4)]
    sites = sites_of(rows, [Walk(8, 0, 16)], [Walk(4, 16, 0)], 4, LANES)
    assert sites is not None
    assert (sites.count, sites.row) == (1, 0)
    assert (sites.columns, sites.outer_columns) == ((Part(0, 4),), (Part(0, 2, 4),))
    assert (sites.sums, sites.outer_sums) == ((Part(0, 4),), ())


def test_points_of_three_coordinates_make_sites() -> None:
    rows, columns, sums = [Walk(1000, 12, 12)], [Walk(3, 0, 4)], [Walk(3, 4, 0)]
    sites = sites_of(rows, columns, sums, 4, LANES)
    assert sites is not None
    assert (sites.count, sites.a_elements, sites.c_elements) == (5, 3, 3)


def test_rows_turned_inside_a_site_are_one() -> None:
    """A[s, i, j] B[a, i] -> C[s, j, a]."""
    rows = [Walk(1000, 36, 36), Walk(3, 4, 12)]
    sites = sites_of(rows, [Walk(3, 0, 4)], [Walk(3, 12, 0)], 4, LANES)
    assert sites is not None
    assert (sites.rows, sites.count) == ((1,), 1)


@pytest.mark.parametrize(
    ("rows", "columns", "sums"),
    [
        ([Walk(3, 12, 12)], [Walk(3, 0, 4)], [Walk(3, 4, 0)]),
        ([Walk(4, 16, 16)], [Walk(4, 0, 4), Walk(32, 0, 64)], [Walk(4, 4, 0)]),
        ([Walk(1000, 28, 28)], [Walk(7, 0, 4)], [Walk(7, 4, 0)]),
        ([Walk(1000, 16, 12)], [Walk(3, 0, 4)], [Walk(3, 4, 0)]),
        ([Walk(1000, 64, 4)], [Walk(16, 0, 4000)], [Walk(16, 4, 0)]),
    ],
    ids=["few", "the matrix itself", "many products", "a gap", "rows adjacent in C alone"],
)
def test_others_make_none(rows: list[Walk], columns: list[Walk], sums: list[Walk]) -> None:
    assert sites_of(rows, columns, sums, 4, LANES) is None


def drawn(draw: Random) -> tuple[list[Walk], list[Walk], list[Walk]]:
    """Rows, columns and sums of two tensors without gaps, their axes in drawn orders."""
    kinds = [kind for kind in ("row", "column", "sum") for _ in range(draw.randint(0, 2))]
    extents = [draw.choice((2, 3, 4, 8, 1000) if kind == "row" else (2, 3, 4)) for kind in kinds]
    places: list[dict[int, int]] = []
    for still in ("column", "sum"):
        moving = [number for number, kind in enumerate(kinds) if kind != still]
        draw.shuffle(moving)
        ends = [4 * prod(extents[one] for one in moving[:end]) for end in range(len(moving))]
        places.append(dict(zip(moving, ends, strict=True)))
    walks: dict[str, list[Walk]] = {"row": [], "column": [], "sum": []}
    for number, (kind, extent) in enumerate(zip(kinds, extents, strict=True)):
        walks[kind].append(Walk(extent, *(place.get(number, 0) for place in places)))
    return walks["row"], walks["column"], walks["sum"]


def test_numbers_of_indices_allow_all_sites_there_are() -> None:
    draw, found = Random(3), 0
    for _ in range(3000):
        walks = drawn(draw)
        if sites_of(*walks, 4, LANES) is not None:
            found += 1
            rows, columns, sums = (prod(axis.extent for axis in one) for one in walks)
            assert may_have_sites(rows, columns, sums, LANES)
    assert found > 50


@pytest.mark.parametrize(
    ("rows", "columns", "sums"), [(1 << 20, 129, 1), (1 << 20, 64, 16), (511, 128, 1)]
)
def test_many_columns_and_few_rows_allow_none(rows: int, columns: int, sums: int) -> None:
    assert not may_have_sites(rows, columns, sums, LANES)


@pytest.mark.parametrize(
    ("columns", "products", "count"), [(8, 8, 4), (3, 3, 10), (16, 16, 2), (3, 16, 2), (32, 5, 1)]
)
def test_rows_of_pairs_make_sites(columns: int, products: int, count: int) -> None:
    rows = [Walk(1000, 2 * products, 2 * columns)]
    sites = sites_of(rows, [Walk(columns, 0, 2)], [Walk(products, 2, 0)], 2, 32)
    assert sites is not None
    assert (sites.count, sites.a_elements, sites.c_elements) == (count, products, columns)


@pytest.mark.parametrize(("columns", "products"), [(8, 32), (1, 8), (3, 400), (64, 24)], ids=str)
def test_long_sums_and_single_columns_of_pairs_make_none(columns: int, products: int) -> None:
    rows = [Walk(1000, 2 * products, 2 * columns)]
    walks = [Walk(columns, 0, 2)] if columns > 1 else []
    assert sites_of(rows, walks, [Walk(products, 2, 0)], 2, 32) is None


def test_sums_of_pairs_that_lie_apart_make_none() -> None:
    """Every product would load a vector of its own for a few results: `bda,dc->abc`."""
    rows = [Walk(46, 512, 12), Walk(16, 2, 552)]
    assert sites_of(rows, [Walk(6, 0, 2)], [Walk(16, 32, 0)], 2, 32) is None
