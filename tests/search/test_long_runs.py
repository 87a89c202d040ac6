"""A large operand that few columns meet: packed in long runs where the third cache is far."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_alike, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Order, Packing

FAR = replace(USUAL, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20)
NEAR = replace(FAR, l3_bytes=64 << 20)
TEXT = "km,nk->nm"


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_rows_are_packed_in_runs_that_half_of_the_second_cache_holds(data_type: DataType) -> None:
    extents = {"k": 512, "m": 24000, "n": 60}
    far = choice_of(TEXT, extents, FAR, data_type)
    assert (far.packed_a, far.order, far.column_block) == (Packing.BLOCKS, Order.ROWS, 60)
    assert far.panel * data_type.width == 4 * FAR.vector_bytes
    run_bytes = far.row_block * 512 * data_type.width
    assert FAR.l2_bytes // 4 < run_bytes <= FAR.l2_bytes // 2
    assert choice_of(TEXT, extents, NEAR, data_type).packed_a is Packing.NONE


@pytest.mark.parametrize(
    ("extents", "data_type"),
    [
        ({"k": 128, "m": 96000, "n": 60}, DataType.FP32),
        ({"k": 65536, "m": 48, "n": 60}, DataType.FP32),
        ({"k": 512, "m": 24000, "n": 60}, DataType.C64),
    ],
    ids=["short sums", "one panel", "complex"],
)
def test_other_rows_stay_in_place(extents: dict[str, int], data_type: DataType) -> None:
    assert choice_of(TEXT, extents, FAR, data_type).packed_a is Packing.NONE


def test_both_give_the_same_bits() -> None:
    extents = {"k": 300, "m": 7100, "n": 9}
    programs = [planned(TEXT, extents, machine, DataType.FP64).program for machine in (FAR, NEAR)]
    assert programs[0] != programs[1]
    assert_alike(programs, TEXT, extents, 3)
