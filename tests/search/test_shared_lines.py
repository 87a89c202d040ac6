"""Rows share lines of a large output with columns or the next tile, and are written together."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, USUAL, assert_exact, choice_of, loops_of, planned
from teir.dtypes import DataType
from teir.search.choice import Choice, Order, Packing
from teir.search.machine import Machine

TEXT = "kba,kcd->cbda"
EXTENTS = {"k": 8, "a": 3, "b": 507, "c": 621, "d": 6}
TWO = replace(FAR, threads=2)


@pytest.mark.parametrize(
    ("text", "changed", "machine", "is_by_lines"),
    [
        (TEXT, {}, FAR, True),
        (TEXT, {}, USUAL, True),
        (TEXT, {}, TWO, True),
        (TEXT, {"a": 64, "b": 60}, FAR, True),
        (TEXT, {"a": 65, "b": 60}, FAR, False),
        ("kab,kcd->cdba", {}, FAR, True),
        ("kab,kcd->cdba", {}, USUAL, False),
        ("kab,kcd->cdba", {}, TWO, True),
        ("kab,kcd->cdba", {"b": 150, "c": 1863}, FAR, False),
        ("kab,kcd->cdba", {"k": 33}, FAR, False),
        ("ka,kcd->cda", {"a": 1521}, FAR, True),
        ("ka,kcd->cda", {"a": 511, "c": 1863}, FAR, False),
        (TEXT, {"c": 12, "d": 11, "b": 9000}, FAR, False),
        (TEXT, {"b": 4000}, FAR, False),
        (TEXT, {"c": 20, "b": 50}, FAR, False),
    ],
    ids=[
        "short rows",
        "another machine",
        "two threads",
        "longer rows",
        "long rows",
        "tiles share lines",
        "tiles share lines where the third cache is near",
        "tiles share lines on two threads",
        "few rows follow one another",
        "many products",
        "rows of one axis",
        "short rows of one axis",
        "one block of columns",
        "lines that leave the second cache",
        "a near output",
    ],
)
def test_where_lines_decide(
    text: str, changed: dict[str, int], machine: Machine, is_by_lines: bool
) -> None:
    choice = choice_of(text, EXTENTS | changed, machine, DataType.FP64)
    assert (choice.order is Order.LINES) == is_by_lines
    if is_by_lines:
        assert not choice.streams


def test_blocks_of_columns_are_outside() -> None:
    program = planned(TEXT, EXTENTS, FAR, DataType.FP64).program
    assert [loop[0] for loop in loops_of(program)] == ["c", "b", "d", "b", "d"]


def test_blocks_of_columns_are_outside_where_tiles_share_lines() -> None:
    program = planned("kab,kcd->cdba", EXTENTS, FAR, DataType.FP64).program
    assert [loop[0] for loop in loops_of(program)] == ["c", "b", "b"]


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.C64])
@pytest.mark.parametrize("machine", [FAR, TWO], ids=["one thread", "two threads"])
def test_what_it_computes(data_type: DataType, machine: Machine) -> None:
    extents = {"k": 5, "a": 3, "b": 37, "c": 101, "d": 7}
    near = replace(machine, l2_bytes=64 << 10)
    assert choice_of(TEXT, extents, near, data_type).order is Order.LINES
    assert_exact(planned(TEXT, extents, near, data_type).program, TEXT, extents, data_type, 1)


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.C64])
@pytest.mark.parametrize("machine", [FAR, TWO], ids=["one thread", "two threads"])
def test_what_it_computes_where_tiles_share_lines(data_type: DataType, machine: Machine) -> None:
    text, extents = "kab,kcd->dcba", {"k": 5, "a": 3, "b": 353, "c": 202, "d": 7}
    assert choice_of(text, extents, machine, data_type).order is Order.LINES
    assert_exact(planned(text, extents, machine, data_type).program, text, extents, data_type, 1)


def choice_for_runs(rows: int, machine: Machine = FAR, text: str = "ka,bk->ba") -> Choice:
    extents = {"a": rows, "b": (5 << 20) // (8 * rows), "k": 7}
    return choice_of(text, extents, machine, DataType.FP64)


@pytest.mark.parametrize(
    ("rows", "machine", "by_lines"),
    [
        (24, FAR, False),
        (52, FAR, True),
        (90, FAR, True),
        (91, FAR, False),
        (52, replace(FAR, l3_bytes=16 << 20), False),
    ],
    ids=["one tile", "two tiles", "four tiles", "long", "near third cache"],
)
def test_tiles_of_rows_that_columns_follow_are_inside(
    rows: int, machine: Machine, *, by_lines: bool
) -> None:
    assert (choice_for_runs(rows, machine).order is Order.LINES) == by_lines


@pytest.mark.parametrize("rows", [33, 37, 40])
def test_one_tall_tile_takes_rows_that_end_in_a_fifth_vector(rows: int) -> None:
    packed = choice_for_runs(rows, FAR, "ak,bk->ba")
    assert (packed.panel, packed.column_block, packed.order) == (rows, 5, Order.LINES)
    in_place = choice_for_runs(rows)
    assert in_place.packed_a is in_place.packed_b is Packing.NONE


@pytest.mark.parametrize(
    ("text", "rows", "in_one_call"),
    [("dak,bk->dba", 5, True), ("dak,kb->dba", 5, False), ("dak,bk->dba", 8, False)],
    ids=["sums together", "columns together", "whole vectors"],
)
def test_all_columns_of_parts_of_vectors_are_in_one_call(
    text: str, rows: int, *, in_one_call: bool
) -> None:
    extents = {"a": rows, "b": 700, "d": 130, "k": 6}
    choice = choice_of(text, extents, FAR, DataType.FP64)
    assert choice.packed_a is Packing.WHOLE
    assert (choice.column_block == 700) == in_one_call


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.C64])
@pytest.mark.parametrize("text", ["ka,bk->ba", "ak,kb->ba", "gka,bk->gba", "agk,bk->bga"])
@pytest.mark.parametrize("rows", [5, 35, 70])
def test_what_runs_compute(text: str, rows: int, data_type: DataType) -> None:
    near = replace(FAR, l2_bytes=64 << 10)
    extents = {"a": rows, "b": 451, "k": 3, "g": 3}
    extents = {name: extent for name, extent in extents.items() if name in text}
    assert_exact(planned(text, extents, near, data_type).program, text, extents, data_type, 1)
