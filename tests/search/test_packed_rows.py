"""Short rows of several axes side by side in a packed panel."""

from __future__ import annotations

import pytest

from search.planned import USUAL, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program

TEXT = "chagb,gdefh->defcab"
EXTENTS = {"a": 2, "b": 2, "c": 16, "d": 2, "e": 8, "f": 8, "g": 4, "h": 64}


def rows_of(program: Program) -> set[int]:
    """How many rows the products take at once, which are one axis each."""
    extents = {axis.name: axis.extent for axis in program.axes}
    products = [one for one in program.primitives if one.operation is Operation.CONTRACTION]
    assert all(len(one.m) == 1 for one in products)
    return {extents[one.m[0]] for one in products}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, {16}),
        ({"a": 3}, {24}),
        ({"a": 12}, {24}),
        ({"c": 1}, {4}),
    ],
    ids=["three axes", "whole panels", "two axes", "one run"],
)
def test_rows_of_all_axes_that_follow_fill_a_panel(
    changed: dict[str, int], expected: set[int]
) -> None:
    program = planned(TEXT, EXTENTS | changed, USUAL, DataType.FP64).program
    assert rows_of(program) == expected


@pytest.mark.parametrize("text", [TEXT, "chagb,gdefh->decafb", "chagb,gdefh->fcabde"])
@pytest.mark.parametrize("sides", [(2, 2, 16), (3, 2, 5), (1, 4, 7), (2, 3, 2)])
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.C64])
def test_what_is_computed(text: str, sides: tuple[int, int, int], data_type: DataType) -> None:
    extents = dict(zip("abc", sides, strict=True)) | {"d": 2, "e": 3, "f": 4, "g": 3, "h": 17}
    program = planned(text, extents, USUAL, data_type).program
    assert_exact(program, text, extents, data_type, sum(sides))
