"""Operands that are read again stay near: rows of element-wise products, gathered rows packed."""

from __future__ import annotations

import pytest

from search.planned import USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.search.choice import Packing
from teir.search.machine import Machine

SMALL = Machine(vector_bytes=16, l1_bytes=256, l2_bytes=2048, threads=1, threaded_work=1 << 20)


def row_lengths(program: Program) -> list[int]:
    """The extents of the M axes of the leaves, in order."""
    extents = {axis.name: axis.extent for axis in program.axes}
    return [extents[primitive.m[-1]] for primitive in program.primitives]


@pytest.mark.parametrize("text", ["ij,j->ij", "j,ij->ij", "hij,hj->hij", "j,i->ij"])
@pytest.mark.parametrize("length", [7, 16, 37])
def test_rows_read_again_in_runs_mean_what_numpy_computes(text: str, length: int) -> None:
    extents = {"h": 2, "i": 3, "j": length}
    program = planned(text, extents, SMALL, DataType.FP64).program
    assert max(row_lengths(program)) == min(length, 8)
    assert_exact(program, text, extents, DataType.FP64, 3)


def test_a_row_is_cut_where_the_first_cache_does_not_hold_it_beside_the_others() -> None:
    long = {"i": 64, "j": 3937}
    assert row_lengths(planned("ij,j->ij", long, USUAL, DataType.FP64).program) == [992, 961]
    assert row_lengths(planned("ij,i->ij", long, USUAL, DataType.FP64).program) == [3937]
    assert row_lengths(planned("ij,ij->ij", long, USUAL, DataType.FP64).program) == [64 * 3937]
    short = long | {"j": 1009}
    assert row_lengths(planned("ij,j->ij", short, USUAL, DataType.FP64).program) == [1009]


def test_a_row_whose_results_go_to_memory_is_cut_for_the_second_cache() -> None:
    long = {"i": 64, "j": 65_537}
    near, rest = row_lengths(planned("ij,j->ij", long, USUAL, DataType.FP64).program)
    assert 2**18 <= 8 * near <= 2**19
    assert near + rest == 65_537
    extents = {"i": 5, "j": 700}
    tiny = Machine(vector_bytes=16, l1_bytes=256, l2_bytes=1024, threads=1, threaded_work=1 << 20)
    program = planned("ij,j->ij", extents, tiny, DataType.FP64).program
    assert 32 < max(row_lengths(program)) <= 64
    assert_exact(program, "ij,j->ij", extents, DataType.FP64, 3)


def test_a_few_rows_gathered_by_many_columns_are_packed_with_those_of_other_axes() -> None:
    text, many = "abk,ckd->adbc", {"a": 7, "b": 13, "c": 4, "d": 31, "k": 13}
    assert choice_of(text, many, USUAL, DataType.FP64).packed_a is not Packing.NONE
    few = many | {"a": 2, "b": 3}
    assert choice_of(text, few, USUAL, DataType.FP64).packed_a is Packing.NONE
    assert_exact(planned(text, many, USUAL).program, text, many, DataType.FP32, 5)


@pytest.mark.parametrize(
    ("data_type", "rows"), [(DataType.FP32, 64), (DataType.FP64, 32), (DataType.C128, 16)]
)
def test_a_turned_tile_leaves_room_in_the_first_cache(data_type: DataType, rows: int) -> None:
    program = planned("ij,ji->ij", {"i": 509, "j": 509}, USUAL, data_type).program
    extents = {axis.name: axis.extent for axis in program.axes}
    copy = program.primitives[0]
    assert [extents[name] for name in (*copy.m, *copy.n)] == [rows, 64]


@pytest.mark.parametrize("i", [5, 31, 70])
def test_products_with_a_turned_operand_mean_what_numpy_computes(i: int) -> None:
    extents = {"i": i, "j": 67}
    program = planned("ij,ji->ij", extents, SMALL, DataType.FP64).program
    assert_exact(program, "ij,ji->ij", extents, DataType.FP64, 7)


def test_a_few_rows_are_packed_with_those_behind_them_in_the_result_for_some_columns() -> None:
    text, extents = "eaf,ecbfd->facdb", {"a": 23, "b": 2, "c": 4, "d": 5, "e": 26, "f": 6}
    assert choice_of(text, extents, USUAL, DataType.FP32).packed_a is not Packing.NONE
    assert choice_of(text, extents | {"a": 11}, USUAL, DataType.FP32).packed_a is Packing.NONE
    apart = "eaf,ecbfd->cfadb"
    assert choice_of(apart, extents | {"d": 1}, USUAL, DataType.FP32).packed_a is Packing.NONE
    assert_exact(planned(text, extents, USUAL).program, text, extents, DataType.FP32, 5)


def test_rows_are_packed_whole_where_blocks_would_take_a_few_elements_of_every_line() -> None:
    text, extents = "ae,debc->cabd", {"a": 7, "b": 103, "c": 20, "d": 338, "e": 8}
    assert choice_of(text, extents, USUAL, DataType.FP32).packed_a is Packing.WHOLE
    together = "ae,cdeb->cabd"
    assert choice_of(together, extents, USUAL, DataType.FP32).packed_a is not Packing.WHOLE
    few = {"a": 7, "b": 9, "c": 5, "d": 11, "e": 8}
    near = Machine(vector_bytes=64, l1_bytes=1024, l2_bytes=4096, threads=1, threaded_work=1 << 20)
    assert_exact(planned(text, few, near).program, text, few, DataType.FP32, 5)
