"""Products of FP16 in FP32 scratch, where elements that meet others are converted once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.search.machine import Machine

SPARE_PORTS = replace(USUAL, l2_bytes=1 << 20, l3_bytes=32 << 20)
TILES = replace(
    USUAL, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, multiplies_twice=True
)


def is_wide(
    text: str, extents: dict[str, int], machine: Machine, data_type: DataType = DataType.FP16
) -> bool:
    """True where all contractions read and write wide scratch."""
    program = planned(text, extents, machine, data_type).program
    found = {
        "_wide" in name
        for primitive in program.primitives
        if primitive.operation is Operation.CONTRACTION
        for name in primitive.operands
    }
    assert len(found) == 1
    return found == {True}


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        ("ij,jk->ik", {"i": 37, "j": 70, "k": 41}),
        ("ij,kj->ki", {"i": 37, "j": 70, "k": 41}),
        ("bij,bjk->bik", {"b": 3, "i": 16, "j": 18, "k": 24}),
        ("abcd,dcef->abef", {"a": 5, "b": 6, "c": 4, "d": 7, "e": 5, "f": 9}),
    ],
)
def test_products_in_wide_scratch_mean_what_numpy_computes(text, extents) -> None:
    assert is_wide(text, extents, TILES)
    assert is_wide(text, extents, SPARE_PORTS)
    for machine in (SPARE_PORTS, TILES, replace(TILES, threads=2, threaded_work=64)):
        assert_exact(
            planned(text, extents, machine, DataType.FP16).program, text, extents, DataType.FP16, 3
        )


@pytest.mark.parametrize(
    ("extents", "wide"),
    [
        ({"i": 500, "j": 500, "k": 2}, False),
        ({"i": 500, "j": 500, "k": 3}, True),
        ({"i": 2000, "j": 16, "k": 2000}, False),
        ({"i": 2000, "j": 32, "k": 2000}, True),
        ({"i": 500, "j": 16, "k": 500}, True),
    ],
)
def test_elements_that_meet_others_are_converted_once(extents, wide) -> None:
    assert is_wide("ij,jk->ik", extents, TILES) == wide


@pytest.mark.parametrize(
    ("extents", "wide"),
    [
        ({"i": 200, "j": 5, "k": 200}, False),
        ({"i": 200, "j": 6, "k": 200}, True),
        ({"i": 800, "j": 800, "k": 7}, False),
        ({"i": 800, "j": 800, "k": 8}, True),
        ({"i": 400, "j": 400, "k": 7}, True),
    ],
)
def test_results_count_twice_and_far_operands_meet_many(extents, wide) -> None:
    assert is_wide("ij,jk->ik", extents, SPARE_PORTS) == wide


def test_sums_of_single_precision_are_as_they_were() -> None:
    extents = {"i": 64, "j": 64, "k": 64}
    for data_type in (DataType.FP32, DataType.BF16):
        assert not is_wide("ij,jk->ik", extents, TILES, data_type)
