"""Low panels are packed where they would leave the first cache, beside columns that stay in it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from search.planned import USUAL, assert_means_it, choice_of
from teir.dtypes import DataType
from teir.search.choice import Choice, Order, Packing

FEW = msgspec.structs.replace(
    USUAL, vector_bytes=32, vector_registers=16, l2_bytes=512 << 10, l3_bytes=32 << 20
)
ROWS = "ba,cb->ca"
"""Rows that are adjacent in the first operand and in the result."""


def chosen(text: str, extents: Mapping[str, int], data_type: DataType = DataType.FP64) -> Choice:
    return choice_of(text, extents, FEW, data_type)


@pytest.mark.parametrize(
    ("columns", "sums", "is_packed"),
    [
        # Of 200 sums a panel takes 200 x 2 lines, more than half of the first cache.
        (150, 200, True),
        (8, 200, False),
        (150, 64, False),
    ],
)
def test_rows_in_place_are_packed_where_their_panels_leave_the_first_cache(
    columns: int, sums: int, is_packed: bool
) -> None:
    extents = {"a": 120, "b": sums, "c": columns}
    assert (chosen(ROWS, extents).packed_a is not Packing.NONE) == is_packed
    wide = choice_of(ROWS, extents, USUAL, DataType.FP64)
    assert wide.packed_a is Packing.NONE


def test_columns_of_one_register_block_meet_a_block_of_rows() -> None:
    choice = chosen("fbea,ecfd->dcba", dict.fromkeys("abcdef", 40))
    assert (choice.order, choice.packed_a) == (Order.COLUMNS, Packing.BLOCKS)
    assert choice.column_block in (5, 6)
    assert choice.panel * 8 == 64
    assert choice.row_block % choice.panel == 0
    assert choice.row_block * choice.depth * 8 <= FEW.l2_bytes
    assert choice.packed_b is Packing.WHOLE


def test_few_rows_are_packed_whole_so_that_the_columns_are_walked_once() -> None:
    choice = chosen("ca,bc->ba", {"a": 168, "b": 400, "c": 9000})
    assert choice.packed_a is Packing.WHOLE
    assert choice.column_block > 6


def test_more_rows_meet_columns_from_beyond_the_second_cache() -> None:
    near = chosen("ca,bc->ba", {"a": 2000, "b": 200, "c": 500})
    far = chosen("ca,bc->ba", {"a": 2000, "b": 2000, "c": 2000})
    assert far.row_block > near.row_block
    assert far.column_block > 6


def test_nothing_is_asked_for_in_passing_of_a_low_panel() -> None:
    extents = {"a": 1000, "b": 800, "c": 150}
    assert choice_of(ROWS, extents, USUAL, DataType.FP64).prefetches_a
    assert not chosen(ROWS, extents).prefetches_a


def test_the_mask_of_part_of_a_vector_takes_the_place_of_a_column() -> None:
    text, extents = "trus,pqtu->pqrs", {"t": 31, "r": 40, "u": 20, "s": 13, "p": 12, "q": 60}
    choice = chosen(text, extents, DataType.FP32)
    assert choice.panel % 8 != 0
    assert choice.column_block % 5 == 0


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (ROWS, {"a": 40, "b": 210, "c": 50}),
        ("ca,bc->ba", {"a": 70, "b": 61, "c": 130}),
        ("trus,pqtu->pqrs", {"t": 9, "r": 6, "u": 20, "s": 13, "p": 5, "q": 11}),
        ("cda,db->cba", {"a": 24, "b": 24, "c": 30, "d": 24}),
        ("ce,deba->dcba", {"a": 8, "b": 12, "c": 14, "d": 10, "e": 8}),
    ],
)
def test_programs_mean_it(text: str, extents: dict[str, int]) -> None:
    small = msgspec.structs.replace(FEW, l1_bytes=1 << 12, l2_bytes=1 << 14)
    assert_means_it(text, extents, small, seed=3)
