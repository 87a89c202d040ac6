"""Rows of A that stay in the second cache where the third is far, met by few columns at a time."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from search.planned import FAR, assert_alike, choice_of, planned, stated
from teir.dtypes import DataType
from teir.pipeline.operand_types import OperandType
from teir.search.choice import Order, Packing
from teir.search.default_choice import default_choice
from teir.search.machine import Machine
from teir.search.near_rows import gains_near, near_rows_choice, rows_stay
from teir.search.reductions import reductions_of
from teir.search.shape import extent_of
from teir.search.tree import contraction_program

NEAR = replace(FAR, l3_bytes=64 << 20)
TEXT = "ij,jk->ik"
TURNED = "trus,tupq->pqrs"


def _square(side: int) -> dict[str, int]:
    return dict.fromkeys("ijk", side)


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize("side", [1024, 1280, 1536])
def test_half_of_the_second_cache_holds_the_rows(side: int, data_type: DataType) -> None:
    (step,) = planned(TEXT, _square(side), FAR, data_type).matrix_steps
    choice = choice_of(TEXT, _square(side), FAR, data_type)
    depth = extent_of(reductions_of(step.shape, choice.depth).block)
    half = FAR.l2_bytes // 2
    assert half // 2 < choice.row_block * depth * data_type.width <= half
    assert (choice.packed_a, choice.order, choice.streams) == (Packing.BLOCKS, Order.COLUMNS, False)
    assert choice.column_block == (6 if choice.panel == 4 * FAR.lanes(data_type.width) else 9)
    assert choice.prefetches_out


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize(("rows", "vectors"), [(960, 4), (1200, 3), (1536, 4), (1584, 3)])
def test_panels_have_four_vectors_where_these_divide_the_rows(
    rows: int, vectors: int, data_type: DataType
) -> None:
    rows = rows * DataType.FP32.width // data_type.width
    choice = choice_of(TEXT, _square(1024) | {"k": rows}, FAR, data_type)
    assert choice.panel == vectors * FAR.lanes(data_type.width)
    assert choice.column_block == (6 if vectors == 4 else 9)


def test_columns_stay_where_the_third_cache_is_near() -> None:
    assert choice_of(TEXT, _square(1024), NEAR, DataType.FP64).column_block == 128


@pytest.mark.parametrize(
    ("extents", "data_type"),
    [
        ({"i": 1024, "j": 64, "k": 1024}, DataType.FP64),
        ({"i": 180, "j": 1009, "k": 90}, DataType.FP64),
        (_square(1024), DataType.C128),
        (_square(1024), DataType.BF16),
    ],
    ids=["short sums", "few panels", "complex", "narrow"],
)
def test_others_stay_as_they_are(extents: dict[str, int], data_type: DataType) -> None:
    far, near = (choice_of(TEXT, extents, one, data_type) for one in (FAR, NEAR))
    assert far.column_block == near.column_block or far.column_block > 16
    assert far.order is near.order


@pytest.mark.parametrize(
    ("rows", "strides"), [(300, (12000, 40)), (3, (0, 8))], ids=["every fifth", "one row"]
)
def test_products_with_a_vector_have_no_columns(rows: int, strides: tuple[int, int]) -> None:
    kind = np.dtype(np.float64)
    matrix = OperandType(DataType.FP64, kind, (rows, 300), strides)
    vector = OperandType(DataType.FP64, kind, (300,), (8,))
    contraction = stated("ij,j->i", (matrix, vector))
    (step,) = contraction_program(contraction, ((0, 1),), FAR).matrix_steps
    assert step.shape.n is None
    assert not rows_stay(default_choice(step.shape, FAR), step.shape, FAR)


def test_high_panels_are_summed_in_more_blocks() -> None:
    extents = {"p": 12, "q": 92, "r": 8, "s": 92, "t": 56, "u": 20}
    (step,) = planned("trus,pqtu->pqrs", extents, FAR).matrix_steps
    choice = choice_of("trus,pqtu->pqrs", extents, FAR, DataType.FP32)
    depth = extent_of(reductions_of(step.shape, choice.depth).block)
    assert choice.panel * depth * 4 <= FAR.l2_bytes // 2 < choice.panel * 1120 * 4


@pytest.mark.parametrize(
    ("rows", "products"), [(736, 1120), (160, 280)], ids=["far results", "near results"]
)
def test_far_results_are_summed_in_fewer_blocks(rows: int, products: int) -> None:
    text, extents = TEXT, {"i": 1104, "j": 1120, "k": rows}
    (step,) = planned(text, extents, FAR, DataType.FP64).matrix_steps
    choice = replace(choice_of(text, extents, FAR, DataType.FP64), depth=512)
    near = near_rows_choice(choice, step.shape, FAR)
    assert extent_of(reductions_of(step.shape, near.depth).block) == products


LONG_RUNS = {"p": 8, "q": 12, "r": 40, "s": 92, "t": 16, "u": 32}


@pytest.mark.parametrize(
    ("changed", "packs"),
    [
        ({}, True),
        ({"s": 40}, False),
        ({"p": 7}, False),
        ({"u": 8}, False),
        ({"r": 1, "s": 64, "u": 31}, False),
    ],
    ids=["long runs", "short runs", "few columns", "short sums", "small"],
)
def test_long_runs_that_many_columns_meet_are_packed(changed: dict[str, int], packs: bool) -> None:
    extents = LONG_RUNS | changed
    far, near = (
        choice_of(TURNED, extents, machine, DataType.FP64).packed_a for machine in (FAR, NEAR)
    )
    assert (far is not Packing.NONE) is packs
    assert near is Packing.NONE


BLOCKED = "acfd,bcef->abed"
IN_BLOCKS = {"a": 32, "b": 32, "c": 8, "d": 32, "e": 32, "f": 32}


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_rows_in_blocks_are_packed_in_an_eighth_of_the_second_cache(data_type: DataType) -> None:
    """The products of section 5.3 as einsums."""
    choice = choice_of(BLOCKED, IN_BLOCKS, FAR, data_type)
    assert (choice.packed_a, choice.packed_b) == (Packing.BLOCKS, Packing.WHOLE)
    assert choice.row_block * 256 * data_type.width == FAR.l2_bytes // 8
    assert choice.column_block == (11 if data_type is DataType.FP32 else 6)
    assert choice_of(BLOCKED, IN_BLOCKS, NEAR, DataType.FP32).packed_a is Packing.NONE


@pytest.mark.parametrize(
    "changed",
    [{"d": 16}, {"d": 40}, {"e": 8, "b": 8}],
    ids=["one vector", "parts of vectors", "few columns"],
)
def test_other_rows_in_blocks_stay_in_place(changed: dict[str, int]) -> None:
    choice = choice_of(BLOCKED, IN_BLOCKS | changed, FAR, DataType.FP32)
    assert choice.packed_a is Packing.NONE


def test_several_threads_read_long_runs_in_place() -> None:
    two = replace(FAR, threads=2)
    (step,) = planned(TURNED, LONG_RUNS, two, DataType.FP64).matrix_steps
    assert not gains_near(step.shape, step.shape.k, two)
    assert gains_near(step.shape, step.shape.k, FAR)


@pytest.mark.parametrize(
    ("u", "data_type", "columns"),
    [(32, DataType.FP32, 6), (32, DataType.FP64, 6), (400, DataType.FP32, 48)],
    ids=["near", "near, FP64", "far"],
)
def test_columns_packed_beside_one_another_make_lines(
    u: int, data_type: DataType, columns: int
) -> None:
    """Where they are far."""
    extents = {"p": 32, "q": 32, "r": 32, "s": 32, "t": 8, "u": u}
    choice = choice_of(TURNED, extents, FAR, data_type)
    assert (choice.packed_b, choice.column_block) == (Packing.WHOLE, columns)


def test_columns_packed_when_they_are_met_stay_so_beside_rows_that_are_near() -> None:
    extents = {"p": 21, "q": 72, "r": 20, "s": 13, "t": 39, "u": 7}
    assert choice_of(TURNED, extents, FAR, DataType.FP64).packed_b is Packing.BLOCKS


def test_all_rows_that_fit_are_packed_at_once() -> None:
    (step,) = planned(TEXT, _square(1024), FAR, DataType.FP64).matrix_steps
    choice = choice_of(TEXT, _square(1024), FAR, DataType.FP64)
    large = replace(FAR, l2_bytes=16 << 20, l3_bytes=1 << 30)
    assert rows_stay(choice, step.shape, large)
    assert near_rows_choice(choice, step.shape, large).packed_a is Packing.WHOLE


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (TEXT, {"i": 130, "j": 1900, "k": 260}),
        (TURNED, {"p": 8, "q": 12, "r": 3, "s": 70, "t": 9, "u": 32}),
        (BLOCKED, {"a": 17, "b": 12, "c": 8, "d": 32, "e": 32, "f": 40}),
    ],
    ids=["plain", "long runs", "blocks"],
)
def test_both_give_the_same_bits(text: str, extents: dict[str, int]) -> None:
    programs = [planned(text, extents, machine, DataType.FP64).program for machine in (FAR, NEAR)]
    assert programs[0] != programs[1]
    assert_alike(programs, text, extents, 3)


@pytest.mark.parametrize(("machine", "expected"), [(FAR, Packing.NONE), (NEAR, Packing.NONE)])
def test_rows_that_follow_each_other_along_the_sum_stay_where_they_are_few(
    machine: Machine, expected: Packing
) -> None:
    extents = {"i": 96, "j": 600, "k": 96}
    assert choice_of("ij,jk->ik", extents, machine, DataType.FP32).packed_a is expected


@pytest.mark.parametrize(("machine", "is_packed"), [(FAR, True), (NEAR, False)])
def test_rows_that_lie_far_apart_along_the_sum_are_packed(
    machine: Machine, is_packed: bool
) -> None:
    extents = {"t": 20, "u": 40, "x": 96, "y": 96}
    choice = choice_of("tux,yut->yx", extents, machine, DataType.FP32)
    assert (choice.packed_a is not Packing.NONE) == is_packed
