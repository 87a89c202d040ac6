"""Very few rows become dots, whose lanes depend on nothing but the extents."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import teir
from search.test_small_products import program_of
from teir.dtypes import DataType
from teir.ir.lanes import lanes_of
from teir.lower.explanation import count_calls
from teir.lower.kernels import DotRows
from teir.lower.lower import lower
from teir.target import Isa

FEW = (
    ("ik,kj->ij", (97, 300), (300, 4)),
    ("ik,kj->ij", (97, 300), (300, 2)),
    ("ik,jk->ij", (97, 300), (3, 300)),
    ("kj,ik->ij", (300, 3), (97, 300)),
    ("ik,kj->ij", (97, 64), (64, 4)),
    ("bik,bjk->ijb", (3, 97, 70), (3, 2, 70)),
    ("bimk,kj->mbij", (3, 5, 97, 66), (66, 3)),
    ("bilk,jlbk->bij", (3, 97, 8, 9), (2, 8, 3, 9)),
    ("ilk,klj->ij", (97, 8, 9), (9, 8, 2)),
)
OTHERS = (
    ("ik,kj->ij", (97, 300), (300, 5)),
    ("ik,kj->ij", (97, 63), (63, 4)),
    ("ik,kj->ij", (97, 31), (31, 2)),
    ("ik,kj->ij", (50, 300), (300, 4)),
    ("ki,kj->ij", (300, 97), (300, 4)),
    ("bilk,jlbk->bij", (3, 97, 8, 9), (3, 8, 3, 9)),
    ("bilk,jlbk->bij", (3, 97, 3, 9), (2, 3, 3, 9)),
)


def has_dots(text: str, shapes: tuple[tuple[int, ...], ...], threads: int, of: DataType) -> bool:
    program = program_of(text, shapes, threads, of)
    called = count_calls(lower(program, Isa.AVX512).roots)
    return any(isinstance(kernel, DotRows) for kernel in called)


@pytest.mark.parametrize(("text", "first", "second"), FEW)
@pytest.mark.parametrize("threads", [1, 2])
def test_few_rows_are_dots_of_the_same_lanes(
    text: str, first: tuple[int, ...], second: tuple[int, ...], threads: int
) -> None:
    for data_type in (DataType.BF16, DataType.FP32):
        assert has_dots(text, (first, second), threads, data_type)
        program = program_of(text, (first, second), threads, data_type)
        assert {lanes_of(one) for one in program.primitives if one.k} == {32}
    few = min(*first, *second)
    assert has_dots(text, (first, second), threads, DataType.FP64) == (few <= 2)


@pytest.mark.parametrize(("text", "first", "second"), OTHERS)
def test_other_products_keep_their_register_blocks(
    text: str, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    assert not has_dots(text, (first, second), 1, DataType.BF16)
    assert not has_dots(text, (first, second), 1, DataType.FP32)


@pytest.mark.parametrize(
    ("text", "few", "k", "dots_of"),
    [
        ("ik,kj->ij", 4, 2000, (DataType.BF16, DataType.FP32)),
        ("ik,kj->ij", 3, 2000, (DataType.BF16, DataType.FP32)),
        ("ik,kj->ji", 3, 2000, (DataType.BF16, DataType.FP32)),
        ("ik,kj->ij", 4, 20_000, (DataType.BF16,)),
        ("ik,kj->ij", 2, 20_000, (DataType.BF16, DataType.FP32, DataType.FP64)),
        ("ik,kj->ij", 2, 200_000, (DataType.BF16,)),
    ],
)
def test_rows_that_caches_do_not_hold_keep_their_register_blocks(
    text: str, few: int, k: int, dots_of: tuple[DataType, ...]
) -> None:
    for data_type in (DataType.BF16, DataType.FP32, DataType.FP64):
        found = has_dots(text, ((97, k), (k, few)), 1, data_type)
        assert found == (data_type in dots_of)


def test_rows_of_types_that_blocks_convert_may_be_a_few_more() -> None:
    for few in (5, 6, 7):
        found = [
            has_dots("ik,jk->ij", ((97, 300), (few, 300)), 1, data_type)
            for data_type in (DataType.BF16, DataType.FP16, DataType.FP32)
        ]
        assert found == [False, few < 7, False]


def test_short_rows_of_a_matrix_from_memory_are_dots() -> None:
    for data_type in (DataType.FP32, DataType.FP64):
        assert has_dots("ik,kj->ij", ((100_000, 40), (40, 4)), 1, data_type)
        assert not has_dots("ik,kj->ij", ((20_000, 40), (40, 4)), 1, data_type)


def test_two_rows_stand_beside_many_rows_of_the_matrix_and_three_beside_one() -> None:
    for few, rows in ((2, 97), (3, 3)):
        program = program_of("ik,jk->ij", ((97, 300), (few, 300)), 1, DataType.FP32)
        extents = {axis.name: axis.extent for axis in program.axes}
        (sums,) = (one for one in program.primitives if one.k)
        assert [extents[axis] for axis in sums.m] == [rows]


@pytest.mark.parametrize(("text", "first", "second"), FEW)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32, np.float64])
def test_results_are_right(
    text: str, first: tuple[int, ...], second: tuple[int, ...], threads: int, dtype: type[Any]
) -> None:
    random = np.random.default_rng(3)
    a, b = (random.integers(-2, 3, shape).astype(np.dtype(dtype)) for shape in (first, second))
    wanted = np.einsum(text, a.astype(np.float64), b.astype(np.float64)).astype(np.dtype(dtype))
    np.testing.assert_array_equal(teir.einsum(text, a, b, threads=threads), wanted)
    np.testing.assert_array_equal(teir.einsum(text, a, b[::-1][::-1], threads=threads), wanted)


def test_sums_in_pieces_are_taken_once_where_few_rows_are_copied() -> None:
    """Both pieces of a sum that is cut have its name."""
    random = np.random.default_rng(4)
    a, b = (random.integers(-2, 3, shape) for shape in ((192, 2, 4, 4), (4, 129, 192, 2)))
    a, b = a.astype(np.float32), b.astype(np.float32)
    wanted = np.einsum("ecad,dbec->ba", a, b)
    np.testing.assert_array_equal(teir.einsum("ecad,dbec->ba", a, b), wanted)
