"""The rules of blocks and packing, by example."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.passes.cache_blocks import (
    FEWEST_COLUMNS,
    USUAL,
    Walked,
    most_columns,
    most_rows,
    packs_columns,
    packs_lanes,
    panel_rows,
    reduction_depth,
    rows_fill_second_cache,
)

L1, L2 = 32 << 10, 1 << 20
FAR = Walked(side=640, depth=800, readers=1600, step=4096, farthest=4096, apart=4, width=4)


def test_sums_of_narrow_outputs_are_cut_less() -> None:
    assert reduction_depth(DataType.FP64) < reduction_depth(DataType.FP32)
    assert reduction_depth(DataType.FP32) < reduction_depth(DataType.BF16)


def test_a_panel_is_four_vectors() -> None:
    assert panel_rows(64, 32, 4) == 64
    assert panel_rows(64, 32, 8) == 32
    assert panel_rows(16, 32, 16) == 4


def test_a_panel_is_two_vectors_in_few_registers() -> None:
    assert panel_rows(32, 16, 4) == 16


def test_blocks_hold_at_least_a_panel_and_a_few_columns() -> None:
    assert most_rows(10 * L2, 64, L2) == 64
    assert most_rows(3200, 64, L2) == 655
    assert most_columns(100, 10 * L2, L2) == FEWEST_COLUMNS
    assert most_columns(1000, 1024, L2) == 256
    assert most_columns(513, 1024, L2) == 256
    assert most_columns(512, 1024, L2) == 512


@pytest.mark.parametrize("leading", [4096, 8192, 65536])
def test_columns_that_meet_in_one_cache_set_are_packed(leading: int) -> None:
    assert packs_lanes(replace(FAR, step=leading, farthest=leading), L1, USUAL)
    assert packs_columns(replace(FAR, step=leading), L1, USUAL)


def test_operands_that_lie_near_stay() -> None:
    near = replace(FAR, step=4, farthest=1600)
    assert not packs_lanes(near, L1, USUAL)
    assert not packs_columns(near, L1, USUAL)


def test_wide_lanes_are_packed_for_fewer_readers() -> None:
    wide = replace(FAR, readers=96, apart=8, width=8)
    assert packs_lanes(wide, L1, USUAL)
    assert not packs_lanes(replace(wide, readers=95), L1, USUAL)
    assert not packs_lanes(replace(wide, step=1024), L1, USUAL)
    assert not packs_lanes(replace(FAR, readers=96), L1, USUAL)


def test_very_many_readers_repay_a_copy_of_what_lies_less_far() -> None:
    many = replace(FAR, readers=4096, step=1536, farthest=1536)
    assert packs_lanes(many, L1, USUAL)
    assert not packs_lanes(replace(many, readers=4095), L1, USUAL)
    assert not packs_lanes(replace(many, step=1020, farthest=1020), L1, USUAL)


def test_few_lanes_that_lie_apart_are_packed_where_many_columns_read_them() -> None:
    few = replace(FAR, apart=8, side=2, depth=3, readers=64)
    assert packs_lanes(few, L1, USUAL)
    assert not packs_lanes(replace(few, readers=63), L1, USUAL)
    assert not packs_lanes(replace(few, depth=1), L1, USUAL)


def test_lanes_that_lie_apart_are_packed_whatever_reads_them() -> None:
    assert packs_lanes(replace(FAR, apart=8, step=4, farthest=4, readers=1), L1, USUAL)
    assert not packs_lanes(replace(FAR, apart=8, side=1), L1, USUAL)


def test_what_is_read_seldom_or_small_stays() -> None:
    for change in ({"readers": 20}, {"side": 2, "depth": 8}):
        assert not packs_lanes(replace(FAR, **change), L1, USUAL)
        assert not packs_columns(replace(FAR, **change), L1, USUAL)


def test_columns_that_whole_pages_separate_are_packed() -> None:
    meeting = replace(FAR, step=4, apart=8192)
    assert packs_columns(meeting, L1, USUAL)
    assert not packs_columns(replace(meeting, side=4), L1, USUAL)
    assert not packs_columns(replace(meeting, apart=8256), L1, USUAL)


def test_columns_that_whole_pages_separate_stay_where_a_set_has_many_ways() -> None:
    meeting = replace(FAR, step=4, apart=8192, readers=1024)
    assert not packs_columns(meeting, 48 << 10, USUAL)
    assert packs_columns(replace(meeting, readers=1536), 48 << 10, USUAL)
    assert packs_columns(meeting, 44 << 10, USUAL)
    assert packs_columns(replace(meeting, step=8192), 48 << 10, USUAL)


@pytest.mark.parametrize(
    ("size", "l2", "l3", "readers", "wants"),
    [
        (1 << 20, 2 << 20, 105 << 20, 1024, True),
        (1 << 20, 2 << 20, 64 << 20, 1024, False),
        (1 << 20, 1 << 20, 32 << 20, 1024, False),
        (1 << 17, 2 << 20, 105 << 20, 1024, False),
        (1 << 20, 2 << 20, 105 << 20, 127, False),
    ],
    ids=["server", "desktop", "near", "small", "few readers"],
)
def test_short_rows_are_packed_where_the_third_cache_is_far(
    size: int, l2: int, l3: int, readers: int, wants: bool
) -> None:
    rows = Walked(side=32, depth=256, readers=readers, step=128, farthest=4096, apart=4, width=4)
    assert not packs_lanes(rows, 48 << 10, USUAL)
    assert rows_fill_second_cache(rows, size, l2, l3, USUAL) is wants
