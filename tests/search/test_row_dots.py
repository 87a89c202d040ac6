"""Some long rows times some long rows are dots, a piece that stays near at a time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_alike, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.nodes import Policy, Program
from teir.lower.explanation import count_calls
from teir.lower.kernels import DotRows
from teir.lower.lower import lower
from teir.target import Isa

TEXT = "ik,jk->ij"


def kinds(program: Program) -> set[type]:
    return {type(kernel) for kernel in count_calls(lower(program, Isa.AVX512).roots)}


def of(rows: int, columns: int, depth: int, data_type: DataType) -> Program:
    return planned(TEXT, {"i": rows, "j": columns, "k": depth}, USUAL, data_type).program


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 7), (13, 2), (6, 6)])
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize("depth", [256, 1000, 10_007])
def test_few_long_rows_are_dots(rows: int, columns: int, data_type: DataType, depth: int) -> None:
    program = of(rows, columns, depth, data_type)
    assert DotRows in kinds(program)
    extents = {"i": rows, "j": columns, "k": depth}
    assert_exact(program, TEXT, extents, data_type, depth)


def test_pieces_stay_in_the_first_cache() -> None:
    program = of(4, 4, 100_000, DataType.FP64)
    axes = program.axis_table()
    for one in program.primitives:
        if one.k:
            (rows,), (piece,) = one.m, one.k
            assert axes[rows].extent * axes[piece].extent * 8 <= 1 << 14


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "data_type"),
    [(8, 8, 1000, DataType.FP32), (7, 7, 1000, DataType.FP64), (3, 3, 255, DataType.FP32)],
)
def test_more_or_shorter_rows_make_blocks(rows, columns, depth, data_type) -> None:
    assert DotRows not in kinds(of(rows, columns, depth, data_type))


def test_bits_do_not_depend_on_the_caches() -> None:
    extents = {"i": 3, "j": 4, "k": 9000}
    machines = (USUAL, replace(USUAL, l1_bytes=49152, l2_bytes=2 << 20, l3_bytes=105 << 20))
    programs = [planned(TEXT, extents, one, DataType.FP64).program for one in machines]
    assert_alike(programs, TEXT, extents, 5)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "are_dots"),
    [(3, 6, 689, True), (6, 3, 96, True), (3, 6, 95, False), (8, 8, 689, False)],
)
def test_batches_of_few_long_rows_are_dots(
    rows: int, columns: int, depth: int, are_dots: bool
) -> None:
    text, extents = "dac,bdc->dab", {"d": 38, "a": rows, "b": columns, "c": depth}
    program = planned(text, extents, USUAL, DataType.FP32).program
    assert (DotRows in kinds(program)) == are_dots
    if are_dots:
        assert_exact(program, text, extents, DataType.FP32, depth)


def test_threads_share_batches_of_dots() -> None:
    text, extents = "gdak,dbgk->abgd", {"g": 5, "d": 8, "a": 3, "b": 5, "k": 400}
    two = replace(USUAL, threads=2, threaded_work=1)
    programs = [planned(text, extents, one, DataType.FP64).program for one in (USUAL, two)]
    assert any(
        node.policy is Policy.PARALLEL for path, _ in programs[1].invocations() for node in path
    )
    assert_alike(programs, text, extents, 5)
