"""Columns of B that lie side by side and are packed: turned where steps of k would be pages."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.search.choice import Packing

TEXT = "km,kn->nm"


def packed_step(columns: int, data_type: DataType) -> int:
    """How far a column lies from the next in a packed B of so many columns, in bytes."""
    program = of_columns(columns, data_type)
    (packed,) = [one for one in program.tensor_table() if one.startswith("in1_packed")]
    (contraction,) = [one for one in program.primitives if packed in one.inputs]
    axes = program.axis_table()
    (side,) = [axes[name] for name in contraction.n if axes[name].strides[packed]]
    return side.strides[packed]


def of_columns(columns: int, data_type: DataType) -> Program:
    extents = {"m": 40, "n": columns, "k": 3}
    choice = replace(
        choice_of(TEXT, extents, USUAL, data_type), packed_b=Packing.WHOLE, column_block=columns
    )
    return planned(TEXT, extents, USUAL, data_type, (choice,)).program


@pytest.mark.parametrize("data_type", [DataType.C64, DataType.C128])
def test_complex_columns_are_turned_where_steps_are_pages(data_type: DataType) -> None:
    width = data_type.width
    page = 4096 // width
    assert packed_step(page, data_type) > width
    assert packed_step(2 * page, data_type) > width
    assert packed_step(page + 1, data_type) == width
    assert packed_step(page // 2, data_type) == width


def test_other_columns_stay_side_by_side() -> None:
    assert packed_step(1024, DataType.FP32) == 4


@pytest.mark.parametrize("columns", [511, 512])
def test_programs_mean_what_numpy_computes(columns: int) -> None:
    program = of_columns(columns, DataType.C64)
    extents = {"m": 40, "n": columns, "k": 3}
    assert_exact(program, TEXT, extents, DataType.C64, 5)
