"""Short rows that follow one another in the result along several axes are laid as one."""

from __future__ import annotations

import pytest

from search.planned import USUAL, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program

TEXT = "xkyz,kn->nzyx"
EXTENTS = {"x": 5, "y": 3, "z": 20, "k": 4, "n": 40}


def program_of(text: str, changed: dict[str, int]) -> Program:
    return planned(text, EXTENTS | changed, USUAL, DataType.FP64).program


def joins(program: Program) -> bool:
    return any(
        one.operation is Operation.COPY and "joined" in one.output for one in program.primitives
    )


@pytest.mark.parametrize(
    ("text", "changed", "expected"),
    [
        (TEXT, {}, True),
        ("kn,xkyz->nzyx", {}, True),
        ("cxkyz,ckn->cnzyx", {"c": 2}, True),
        ("xkyz,kn->znyx", {}, False),
        ("xkz,kn->nzx", {}, False),
        (TEXT, {"x": 16, "y": 16}, False),
        (TEXT, {"n": 15}, False),
    ],
    ids=["one row", "the other first", "batches", "apart", "two axes", "long", "few results"],
)
def test_rows_of_several_axes_are_one(text: str, changed: dict[str, int], expected: bool) -> None:
    program = program_of(text, changed)
    assert joins(program) == expected
    if expected:
        assert_exact(program, text, EXTENTS | changed, DataType.FP64, 5)


@pytest.mark.parametrize("data_type", [DataType.C64, DataType.C128])
def test_complex_rows_are_one_too(data_type: DataType) -> None:
    program = planned(TEXT, EXTENTS, USUAL, data_type).program
    assert joins(program)
    assert_exact(program, TEXT, EXTENTS, data_type, 5)


def test_the_fused_rows_are_one_axis_of_the_product() -> None:
    program = program_of(TEXT, {})
    extents = {axis.name: axis.extent for axis in program.axes}
    (product,) = {one.m for one in program.primitives if one.operation is Operation.CONTRACTION}
    assert [extents[axis] for axis in product] == [300]
