"""Rows in place whose panels leave the first cache."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_alike, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Packing
from teir.search.machine import Machine

TWICE = replace(
    USUAL, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, multiplies_twice=True
)
ONCE = replace(TWICE, multiplies_twice=False)
TEXT = "bij,bjk->bik"


def _packing(i: int, j: int, k: int, data_type: DataType, machine: Machine = TWICE) -> Packing:
    return choice_of(TEXT, {"b": 4, "i": i, "j": j, "k": k}, machine, data_type).packed_a


@pytest.mark.parametrize(
    ("i", "j", "k", "data_type"),
    [
        (128, 128, 128, DataType.FP64),
        (128, 128, 128, DataType.FP32),
        (64, 64, 128, DataType.FP64),
        (160, 160, 160, DataType.FP64),
        (256, 256, 64, DataType.FP32),
    ],
)
def test_rows_whose_steps_meet_in_few_sets_are_packed(
    i: int, j: int, k: int, data_type: DataType
) -> None:
    assert _packing(i, j, k, data_type) is not Packing.NONE
    assert _packing(i, j, k, data_type, ONCE) is Packing.NONE


@pytest.mark.parametrize(
    ("i", "j", "k", "data_type"),
    [
        (100, 100, 100, DataType.FP64),
        (32, 128, 128, DataType.FP64),
        (144, 144, 144, DataType.FP64),
        (160, 160, 160, DataType.FP32),
        (509, 509, 31, DataType.FP64),
        (128, 128, 128, DataType.BF16),
    ],
    ids=["stay", "few readers", "too few readers", "all sets alike", "part lines", "narrow"],
)
def test_others_are_read_where_they_lie(i: int, j: int, k: int, data_type: DataType) -> None:
    assert _packing(i, j, k, data_type) is _packing(i, j, k, data_type, ONCE)


def test_results_are_those_of_rows_in_place() -> None:
    extents = {"b": 2, "i": 64, "j": 64, "k": 128}
    plans = [planned(TEXT, extents, one, DataType.FP64) for one in (TWICE, ONCE)]
    assert plans[0].program != plans[1].program
    assert_alike([plan.program for plan in plans], TEXT, extents, 5)


def test_two_threads_pack_nothing_more() -> None:
    two = replace(TWICE, threads=2, threaded_work=1 << 30)
    assert _packing(128, 128, 128, DataType.FP64, two) is Packing.NONE
