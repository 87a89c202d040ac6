"""Rows that lie together and come from memory: copies ask for the next ones ahead."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_alike, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Packing

TEXT = "cak,bk->cba"
EXTENTS = {"c": 7000, "a": 100, "b": 10, "k": 18}


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.C64])
def test_rows_from_memory_are_asked_for_in_blocks_that_stay_near(data_type: DataType) -> None:
    choice = choice_of(TEXT, EXTENTS, USUAL, data_type)
    assert choice.packed_a is Packing.BLOCKS
    assert choice.prefetches_packed
    row_bytes = EXTENTS["k"] * data_type.width
    assert USUAL.l2_bytes // 16 < choice.row_block * row_bytes <= USUAL.l2_bytes // 8


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (TEXT, {**EXTENTS, "c": 1000}),
        (TEXT, {**EXTENTS, "c": 90000, "a": 8}),
        ("cka,bk->cba", EXTENTS),
        ("ack,bk->cba", EXTENTS),
    ],
    ids=["near", "small tiles", "adjacent rows", "rows apart"],
)
def test_nobody_asks_for_others(text: str, extents: dict[str, int]) -> None:
    assert not choice_of(text, extents, USUAL, DataType.FP32).prefetches_packed


def test_blocks_that_many_columns_read_stay_large() -> None:
    many, few = (
        choice_of(TEXT, {**EXTENTS, "b": count, "k": 200}, USUAL, DataType.FP32)
        for count in (600, 60)
    )
    assert many.prefetches_packed
    assert few.prefetches_packed
    assert many.row_block > few.row_block


def test_results_are_those_of_larger_caches() -> None:
    small = replace(USUAL, l1_bytes=1 << 10, l2_bytes=3 << 10)
    extents = {"c": 9, "a": 30, "b": 3, "k": 18}
    asking, plain = (planned(TEXT, extents, machine, DataType.FP64) for machine in (small, USUAL))
    assert choice_of(TEXT, extents, small, DataType.FP64).prefetches_packed
    assert asking.program != plain.program
    assert_alike([asking.program, plain.program], TEXT, extents, seed=3)
