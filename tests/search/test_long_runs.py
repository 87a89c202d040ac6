"""A large operand that few columns meet: packed in long runs where the third cache is far."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, assert_alike, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Order, Packing

NEAR = replace(FAR, l3_bytes=64 << 20)
TEXT = "km,nk->nm"


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize(
    ("extents", "packed_a"),
    [
        ({"k": 32, "m": 1 << 16, "n": 10}, Packing.BLOCKS),
        ({"k": 32, "m": (1 << 16) + 4096, "n": 10}, Packing.NONE),
        ({"k": 16, "m": 1 << 17, "n": 10}, Packing.NONE),
    ],
    ids=["whole ways", "parts of ways", "as many as a set holds"],
)
def test_short_sums_are_packed_where_rows_meet_in_the_same_sets(
    extents: dict[str, int], packed_a: Packing, data_type: DataType
) -> None:
    far = choice_of(TEXT, extents, FAR, data_type)
    assert far.packed_a is packed_a
    if packed_a is Packing.BLOCKS:
        run_bytes = far.row_block * extents["k"] * data_type.width
        assert (far.order, far.column_block) == (Order.ROWS, extents["n"])
        assert far.panel * data_type.width == 4 * FAR.vector_bytes
        assert FAR.l2_bytes // 16 < run_bytes <= FAR.l2_bytes // 8
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


def test_short_sums_have_the_same_bits() -> None:
    extents = {"k": 20, "m": 1 << 16, "n": 3}
    programs = [planned(TEXT, extents, machine, DataType.FP64).program for machine in (FAR, NEAR)]
    assert programs[0] != programs[1]
    assert_alike(programs, TEXT, extents, 3)
