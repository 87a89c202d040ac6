"""Rows that few columns meet are read in place where results leave the second cache."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Order, Packing
from teir.search.few_columns import few_columns_choice
from teir.search.machine import Machine

NEAR = replace(USUAL, l3_bytes=32 << 20)
GATE, BETWEEN = "ab,cbd->cad", {"a": 2, "b": 2, "c": 256, "d": 512}
PLAIN = (DataType.FP32, DataType.FP64)


def reads_in_place(
    text: str, extents: dict[str, int], machine: Machine, data_type: DataType
) -> bool:
    """No operand is copied, and no scratch is taken."""
    choice = choice_of(text, extents, machine, data_type)
    is_read = choice.packed_a is choice.packed_b is Packing.NONE
    return is_read and not planned(text, extents, machine, data_type).program.scratch


@pytest.mark.parametrize("data_type", [*PLAIN, DataType.C64, DataType.C128])
@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (GATE, BETWEEN | {"d": 1024}),
        (GATE, {"a": 2, "b": 2, "c": 32_768, "d": 16}),
        (GATE, {"a": 4, "b": 4, "c": 4000, "d": 36}),
        ("ab,cbd->acd", {"a": 12, "b": 8, "c": 1500, "d": 32}),
        ("ab,bd->ad", {"a": 3, "b": 2, "d": 200_000}),
    ],
    ids=["gate", "short runs", "four columns", "many columns", "one run"],
)
def test_rows_of_short_sums_are_not_copied(
    text: str, extents: dict[str, int], data_type: DataType
) -> None:
    assert reads_in_place(text, extents, FAR, data_type)


@pytest.mark.parametrize(
    ("text", "changed", "machine", "expected"),
    [
        (GATE, {}, FAR, True),
        (GATE, {"c": 700}, FAR, True),
        (GATE, {"c": 1024}, FAR, False),
        (GATE, {"c": 255}, FAR, False),
        (GATE, {"a": 13}, FAR, False),
        (GATE, {"b": 17, "a": 12}, FAR, False),
        (GATE, {"b": 3, "c": 40_000, "d": 3}, FAR, False),
        (GATE, {"a": 5, "c": 20_000, "d": 7}, FAR, False),
        ("ab,cdb->cad", {"b": 3}, FAR, False),
        ("gab,gcbd->gcad", {"g": 2, "c": 128}, FAR, False),
        (GATE, {}, replace(FAR, threads=2), False),
    ],
    ids=[
        "gate",
        "larger rows",
        "as large as memory",
        "results that stay",
        "many columns",
        "long sums",
        "runs of parts of lines",
        "such runs beside some columns",
        "rows that lie along the sum",
        "batches",
        "two threads",
    ],
)
def test_when_runs_meet_all_columns(
    text: str, changed: dict[str, int], machine: Machine, expected: bool
) -> None:
    program = planned(text, BETWEEN | changed, machine, DataType.FP64)
    (step,) = program.matrix_steps
    few = few_columns_choice(step.shape, 512, step.machine)
    assert (few is not None) == expected


@pytest.mark.parametrize(
    ("data_type", "asks"), [(DataType.FP64, True), (DataType.C64, False)], ids=["plain", "complex"]
)
def test_results_go_through_the_caches(data_type: DataType, asks: bool) -> None:
    choice = choice_of(GATE, BETWEEN, FAR, data_type)
    assert (choice.streams, choice.prefetches_out) == (False, asks)


def test_a_larger_operand_of_complex_numbers_stays_as_it_was() -> None:
    (step,) = planned(GATE, BETWEEN | {"c": 700}, FAR, DataType.C64).matrix_steps
    assert few_columns_choice(step.shape, 512, FAR) is None


def test_long_rows_beside_columns_of_two_axes_meet_packed_ones() -> None:
    text, extents = "pqx,axb->paqb", {"p": 2, "q": 2, "x": 4, "b": 210, "a": 556}
    assert choice_of(text, extents, FAR, DataType.FP64).packed_b is Packing.WHOLE
    assert reads_in_place(text, extents | {"b": 64, "a": 1800}, FAR, DataType.FP64)


@pytest.mark.parametrize(("run", "expected"), [(128, True), (24, False)])
def test_near_third_caches_keep_the_order_of_the_output(run: int, expected: bool) -> None:
    extents = {"a": 4, "b": 2, "c": 70_000 // run, "d": run}
    choice = choice_of(GATE, extents, NEAR, DataType.FP64)
    assert (choice.order, choice.packed_b) == (Order.OUTPUT, Packing.WHOLE)
    assert (choice.packed_a is Packing.NONE) == expected


@pytest.mark.parametrize("data_type", [*PLAIN, DataType.C64])
@pytest.mark.parametrize("machine", [FAR, NEAR], ids=["far", "near"])
@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (GATE, {"a": 3, "b": 2, "c": 650, "d": 277}),
        ("abxy,cxdye->cadbe", {"a": 2, "b": 2, "x": 2, "y": 2, "c": 33, "d": 17, "e": 250}),
    ],
    ids=["gate", "gate of two"],
)
def test_rows_in_place_mean_what_numpy_computes(
    text: str, extents: dict[str, int], machine: Machine, data_type: DataType
) -> None:
    program = planned(text, extents, machine, data_type).program
    assert_exact(program, text, extents, data_type, 3)
