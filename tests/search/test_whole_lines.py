"""Operands that lie across are packed in whole lines, which several reduction blocks sum."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import Operation, Program

ACROSS = "dac,bcd->ba"
SIZES = {"a": 70, "b": 72, "c": 24, "d": 180}


def program_of(
    text: str, extents: dict[str, int], threads: int = 1, data_type: DataType = DataType.FP32
) -> Program:
    machine = replace(USUAL, threads=threads, threaded_work=2**10)
    return planned(text, extents, machine, data_type).program


def asked_extents(program: Program) -> set[int]:
    """Extents along `c` of the copies that ask for what comes next."""
    width = program.tensors[0].data_type.width
    extents = {axis.name: axis for axis in program.axes}
    return {
        extents[name].extent
        for one in program.primitives
        if one.operation is Operation.COPY and memory_hints(one).prefetched
        for name in one.axes
        if extents[name].strides["in0"] == width
    }


def test_lines_are_packed_whole_and_asked_for() -> None:
    assert asked_extents(program_of(ACROSS, SIZES | {"c": 20})) == {16, 4}


@pytest.mark.parametrize(
    ("data_type", "columns", "pieces"),
    [
        (DataType.FP32, 48, {12, 16, 4}),
        (DataType.FP32, 56, {4, 16}),
        (DataType.FP32, 52, {16, 4}),
        (DataType.FP64, 40, {6, 8, 2}),
        (DataType.FP64, 36, {2, 8}),
    ],
    ids=["lines", "half lines", "anywhere", "lines, FP64", "half lines, FP64"],
)
def test_the_first_piece_ends_with_a_line(
    data_type: DataType, columns: int, pieces: set[int]
) -> None:
    sizes = SIZES | {"c": columns, "d": 90 if data_type is DataType.FP64 else 180}
    program = program_of(ACROSS, sizes, 1, data_type)
    assert asked_extents(program) == pieces
    assert_exact(program, ACROSS, sizes, data_type, 5)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("dca,bcd->ba", {}),
        (ACROSS, {"a": 60}),
        (ACROSS, {"b": 60}),
        (ACROSS, {"d": 20}),
        (ACROSS, {"c": 8}),
    ],
    ids=["adjacent rows", "few rows", "few columns", "long pieces", "one line"],
)
def test_others_are_packed_block_by_block(text: str, changed: dict[str, int]) -> None:
    assert asked_extents(program_of(text, SIZES | changed)) == set()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("extents", [{}, {"c": 20}, {"c": 40}, {"a": 71, "b": 64, "c": 28}])
def test_blocks_of_what_is_packed_add_up(extents: dict[str, int], threads: int) -> None:
    sizes = SIZES | extents
    assert_exact(program_of(ACROSS, sizes, threads), ACROSS, sizes, DataType.FP32, 3)
