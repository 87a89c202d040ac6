"""Blocks of long sums of both operands in place, each asked for while the one before is used."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import Operation
from teir.search.choice import Packing
from teir.search.machine import Machine

TEXT = "dca,cbd->ba"
LONG = {"a": 168, "b": 184, "c": 184, "d": 168}


def asks_for_both(
    extents: dict[str, int],
    machine: Machine = USUAL,
    text: str = TEXT,
    data_type: DataType = DataType.FP64,
) -> bool:
    choice = choice_of(text, extents, machine, data_type)
    is_in_place = choice.packed_a is choice.packed_b is Packing.NONE
    return is_in_place and choice.prefetches_a and choice.prefetches_b


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"a": 40}, True),
        ({"a": 24}, False),
        ({"b": 24}, False),
        ({"c": 8}, False),
        ({"a": 400}, False),
        ({"d": 5}, False),
    ],
    ids=["usual", "few rows", "fewer", "few columns", "near", "many results", "no block"],
)
def test_when_both_are_asked_for(changed: dict[str, int], expected: bool) -> None:
    assert asks_for_both(LONG | changed) == expected


@pytest.mark.parametrize(
    "machine",
    [FAR, replace(USUAL, forgets_requests=True), replace(USUAL, vector_bytes=32)],
    ids=["far third cache", "requests are forgotten", "short vectors"],
)
def test_only_where_it_was_measured(machine: Machine) -> None:
    assert not asks_for_both(LONG, machine)


def test_only_for_adjacent_rows() -> None:
    assert not asks_for_both(LONG, text="dac,bcd->ba")


def test_one_axis_of_sums_is_cut_too() -> None:
    extents = {"a": 61, "b": 239, "c": 8257}
    assert asks_for_both(extents, text="ca,cb->ba", data_type=DataType.FP32)


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_what_the_program_computes(data_type: DataType) -> None:
    text, extents = TEXT, {"a": 33, "b": 34, "c": 30, "d": 37}
    machine = replace(USUAL, l2_bytes=48 << 10)
    program = planned(text, extents, machine, data_type).program
    products = [one for one in program.primitives if one.operation is Operation.CONTRACTION]
    asked = [memory_hints(one).prefetched for one in products]
    assert all(names == {"in0", "in1"} for names in asked)
    assert_exact(program, text, extents, data_type, 3)
