"""Which permutations are one tile, which the lowering cuts, and which are squares."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.nodes import Axis, Program

SQUARES = {
    "cba->acb": {"a": 100, "b": 300, "c": 30},
    "ij->ji": {"i": 1500, "j": 700},
}
ONE_TILE = {
    "abc->cba": {"a": 9, "b": 400, "c": 300},
    "ij->ji": {"i": 4096, "j": 256},
    "kji->ijk": {"i": 150, "j": 180, "k": 100},
}
"""Of few elements in a row, of rows in the same place of a cache, and far."""


def tile_axes(program: Program) -> list[Axis]:
    """The axes that the copies take."""
    table = program.axis_table()
    return [table[name] for one in program.primitives for name in (*one.m, *one.n)]


@pytest.mark.parametrize("text", SQUARES)
def test_full_squares_of_what_a_third_cache_holds(text: str) -> None:
    extents = SQUARES[text]
    program = planned(text, extents, USUAL).program
    assert all(axis.extent <= 64 for axis in tile_axes(program))
    assert_exact(program, text, extents, DataType.FP32, 2)


@pytest.mark.parametrize("text", ONE_TILE)
def test_others_are_one_tile(text: str) -> None:
    program = planned(text, ONE_TILE[text], USUAL).program
    assert {axis.name for axis in tile_axes(program)} == {axis.name for axis in program.axes}


def test_where_few_rows_are_followed_more_are_squares() -> None:
    machine = replace(USUAL, follows_few_rows=True, l2_bytes=2**24)
    program = planned("kji->ijk", ONE_TILE["kji->ijk"], machine).program
    assert all(axis.extent <= 128 for axis in tile_axes(program))
    for text, changed in (("kji->ijk", {"k": 160}), ("abc->cba", {})):
        program = planned(text, ONE_TILE[text] | changed, machine).program
        assert {axis.name for axis in tile_axes(program)} == {axis.name for axis in program.axes}
