"""Short sums of few rows are formed where their operands lie: packed columns are read seldom."""

from __future__ import annotations

import pytest

from search.planned import FAR, USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Packing
from teir.search.machine import Machine


def packs(columns: int, depth: int, rows: int, machine: Machine) -> bool:
    extents = {"n": columns, "i": depth, "j": rows}
    choice = choice_of("ni,ij->nj", extents, machine, DataType.FP32)
    return choice.packed_b is not Packing.NONE


@pytest.mark.parametrize("rows", [5, 7, 13, 16, 31, 63])
def test_columns_of_one_panel_stay_where_they_are(rows: int) -> None:
    columns = (4 << 20) // (4 * rows)
    assert packs(columns, 2, rows, FAR) is False


def test_columns_of_few_panels_stay_where_their_sums_lie_together() -> None:
    assert not packs(20_000, 3, 64, FAR)
    assert not packs(10_000, 3, 200, FAR)
    assert packs(4_000, 3, 600, FAR)
    turned = choice_of("in,ij->nj", {"n": 10_000, "i": 3, "j": 200}, FAR, DataType.FP32)
    assert turned.packed_b is Packing.WHOLE


def test_elsewhere_columns_of_more_panels_are_packed() -> None:
    assert packs(40_000, 3, 64, USUAL)


@pytest.mark.parametrize(("rows", "packed"), [(13, False), (15, False), (16, True), (48, True)])
def test_elsewhere_those_of_part_of_a_vector_stay(rows: int, *, packed: bool) -> None:
    columns = (3 << 20) // (4 * rows)
    assert packs(columns, 2, rows, USUAL) is packed


@pytest.mark.parametrize(("depth", "rows"), [(3, 7), (4, 4), (2, 31)])
def test_programs_are_exact(depth: int, rows: int) -> None:
    extents = {"n": 40_000, "i": depth, "j": rows}
    program = planned("ni,ij->nj", extents, FAR).program
    assert_exact(program, "ni,ij->nj", extents, DataType.FP32, 1)
