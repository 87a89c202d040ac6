"""Columns that lie in lines are packed a block at a time, just before the rows that meet them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_alike, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Order, Packing, Sharing

LINES = "trus,tupq->pqrs"
SHORT = "fcea,debf->dcba"
MANY = {"a": 48, "b": 40, "c": 40, "d": 40, "e": 40, "f": 48}
FAR = {"p": 21, "q": 72, "r": 20, "s": 13, "t": 39, "u": 7}


@pytest.mark.parametrize("threads", [1, 2])
def test_lines_are_packed_when_they_are_met(threads: int) -> None:
    choice = choice_of(LINES, FAR, replace(USUAL, threads=threads), DataType.FP64)
    assert (choice.packed_a, choice.packed_b) == (Packing.WHOLE, Packing.BLOCKS)
    assert choice.sharing in (Sharing.NONE, Sharing.PARTS)


@pytest.mark.parametrize(
    ("text", "changed"),
    [("rstu,tuqp->pqrs", {"q": 144}), (LINES, {"q": 8}), (LINES, {"r": 200})],
    ids=["turned", "few columns", "many rows"],
)
def test_other_columns_are_packed_together(text: str, changed: dict[str, int]) -> None:
    assert choice_of(text, FAR | changed, USUAL, DataType.FP64).packed_b is not Packing.BLOCKS


@pytest.mark.parametrize(
    ("text", "changed", "expected"),
    [
        (SHORT, {}, Packing.WHOLE),
        (SHORT, {"b": 12}, Packing.NONE),
        (SHORT, {"c": 8}, Packing.NONE),
        (SHORT, {"f": 72}, Packing.NONE),
        ("cefa,dbef->dcba", {}, Packing.NONE),
    ],
    ids=["short runs", "few columns", "few rows", "long runs", "one run"],
)
def test_short_runs_are_packed_for_many_rows(
    text: str, changed: dict[str, int], expected: Packing
) -> None:
    assert choice_of(text, MANY | changed, USUAL, DataType.FP64).packed_b is expected


@pytest.mark.parametrize(
    ("text", "changed", "columns"),
    [
        (SHORT, {}, 40),
        (SHORT, {"b": 120}, 24),
        ("fcea,edfb->dcba", {"b": 48, "f": 40}, 16),
        (SHORT, {"c": 8, "d": 8}, 40),
    ],
    ids=["all", "many", "adjacent", "near output"],
)
def test_far_outputs_are_summed_in_long_blocks(
    text: str, changed: dict[str, int], columns: int
) -> None:
    choice = choice_of(text, MANY | changed, USUAL, DataType.FP64)
    is_far = "c" not in changed
    assert (choice.depth, choice.streams) == ((1536, True) if is_far else (512, False))
    assert choice.column_block == columns


def test_longer_sums_of_far_outputs_are_cut() -> None:
    program = planned(SHORT, MANY | {"e": 100}, USUAL, DataType.FP64).program
    lengths = {axis.extent for axis in program.axes if axis.strides.get("in0") == 384}
    assert 25 in lengths


@pytest.mark.parametrize("packed_a", list(Packing))
@pytest.mark.parametrize("text", [LINES, "rstu,tuqp->pqrs", "srut,qptu->pqrs"])
@pytest.mark.parametrize(
    "extents", [(4, 6, 6, 8, 3, 5), (13, 2, 24, 1, 2, 9), (3, 35, 3, 16, 4, 4), (2, 50, 5, 2, 7, 3)]
)
def test_blocks_are_the_whole_and_sum_alike(
    text: str, extents: tuple[int, ...], packed_a: Packing
) -> None:
    sizes = dict(zip("pqrstu", extents, strict=True))
    usual = choice_of(text, sizes, USUAL, DataType.FP64)
    programs = []
    for packed_b in (Packing.NONE, Packing.BLOCKS):
        choice = replace(
            usual, packed_a=packed_a, packed_b=packed_b, order=Order.COLUMNS, column_block=12
        )
        programs.append(planned(text, sizes, USUAL, DataType.FP64, (choice,)).program)
    assert_alike(programs, text, sizes, sum(extents))
