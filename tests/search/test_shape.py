"""Which axes of a product become rows and columns."""

from __future__ import annotations

from search.planned import USUAL, planned
from teir.search.shape import ProductShape


def shape_of(text: str, extents: dict[str, int]) -> ProductShape:
    return planned(text, extents, USUAL).matrix_steps[0].shape


def test_columns_are_adjacent_in_b_where_the_output_is_small() -> None:
    extents = {"p": 12, "q": 24, "r": 12, "s": 5, "t": 106, "u": 4}
    n = shape_of("rstu,tuqp->pqrs", extents).n
    assert n is not None
    assert n.extent == extents["p"]


def test_columns_are_adjacent_in_b_where_long_sums_make_a_larger_output() -> None:
    extents = {"p": 21, "q": 72, "r": 20, "s": 13, "t": 39, "u": 7}
    for reduced, expected in ((39, "p"), (4, "q")):
        n = shape_of("rstu,tuqp->pqrs", extents | {"t": reduced}).n
        assert n is not None
        assert n.extent == extents[expected]


def test_columns_are_close_in_a_large_output() -> None:
    extents = {"p": 32, "q": 40, "r": 32, "s": 32, "t": 8, "u": 32}
    n = shape_of("rstu,tuqp->pqrs", extents).n
    assert n is not None
    assert n.extent == extents["q"]


def test_columns_of_short_sums_are_close_in_a_large_output_from_six_on() -> None:
    extents = {"p": 20, "q": 8, "r": 64, "s": 64, "t": 8, "u": 2}
    for changed, expected in (({}, 8), ({"t": 32}, 20), ({"p": 64}, 64)):
        n = shape_of("rstu,tupq->prqs", extents | changed).n
        assert n is not None
        assert n.extent == expected
