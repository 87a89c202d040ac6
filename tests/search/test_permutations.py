"""Which permutations are one tile, which the lowering cuts, and which are squares."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, planned, step_of
from teir.dtypes import DataType
from teir.ir.nodes import Axis, IterationNode, Policy, Program
from teir.search.shared_permutations import shared_parts

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


@pytest.mark.parametrize(
    ("text", "extents", "shared"),
    [
        ("cbad->cdab", {"a": 265, "b": 408, "c": 6, "d": 23}, "c"),
        ("bca->cba", {"a": 17, "b": 646, "c": 274}, "b"),
        ("badc->dacb", {"a": 27, "b": 246, "c": 7, "d": 93}, "a"),
        ("bcaed->eabdc", {"a": 49, "b": 92, "c": 4, "d": 4, "e": 77}, "a"),
        ("cdbae->ebcda", {"a": 58, "b": 7, "c": 4, "d": 464, "e": 19}, "cd"),
        ("abc->cba", {"a": 9, "b": 400, "c": 300}, "b"),
        ("ij->ji", {"i": 4096, "j": 256}, "i"),
    ],
    ids=[
        "batches",
        "equal parts",
        "long pieces of both",
        "long pieces of the input",
        "joined rows",
        "a third axis",
        "long parts",
    ],
)
def test_threads_share_what_lies_in_long_pieces(
    text: str, extents: dict[str, int], shared: str
) -> None:
    program = planned(text, extents, replace(USUAL, threads=2)).program
    loops = [node for node in program.nodes() if isinstance(node, IterationNode)]
    assert [loop.axis for loop in loops if loop.policy is Policy.PARALLEL] == [shared]


def test_parts_of_a_permutation_make_all_of_it() -> None:
    extents = {"a": 9, "b": 40, "c": 6, "d": 23}
    machine = replace(USUAL, threads=2, threaded_work=1000)
    for text in ("cbad->cdab", "dcba->bcad", "abcd->dcba", "acdb->cdba"):
        program = planned(text, extents, machine).program
        assert_exact(program, text, extents, DataType.FP32, 4)


def test_many_threads_share_an_axis_of_fewer_indices() -> None:
    shared = shared_parts(step_of("cbad->cdab", {"a": 9, "b": 13, "c": 15, "d": 11}), 16)
    assert (shared.axis.extent, shared.part) == (15, 1)
