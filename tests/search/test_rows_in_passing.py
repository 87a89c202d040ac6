"""Rows in place whose blocks ask for the next panel, where only the first cache's requests come."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import Operation
from teir.search.choice import Packing
from teir.search.machine import Machine

FORGETFUL = replace(USUAL, forgets_requests=True)
TEXT = "trus,tupq->pqrs"
NINE = {"p": 8, "q": 12, "r": 40, "s": 92, "t": 16, "u": 32}


def asks_in_passing(
    extents: dict[str, int], machine: Machine, data_type: DataType = DataType.FP64
) -> bool:
    """Tiles of three lines of rows, all columns in each."""
    choice = choice_of(TEXT, extents, machine, data_type)
    is_panel = choice.row_block == choice.panel == 3 * 64 // data_type.width
    has_all = choice.column_block == extents["p"] * extents["q"]
    return choice.packed_a is Packing.NONE and choice.prefetches_a and is_panel and has_all


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"s": 24}, False),
        ({"s": 40}, True),
        ({"s": 104}, False),
        ({"r": 4}, False),
        ({"p": 16}, False),
        ({"t": 26}, False),
    ],
    ids=[
        "three panels and most of one",
        "one panel",
        "one panel and most of one",
        "a short end",
        "few rows",
        "many columns",
        "cut sums",
    ],
)
def test_when_panels_are_asked_for(changed: dict[str, int], expected: bool) -> None:
    assert asks_in_passing(NINE | changed, FORGETFUL) == expected


def test_only_where_requests_are_forgotten() -> None:
    assert not asks_in_passing(NINE, USUAL)


def test_rows_that_would_be_packed_need_not_fit_well() -> None:
    extents = {"p": 38, "q": 4, "r": 13, "s": 27, "t": 120, "u": 39}
    assert asks_in_passing(extents, FORGETFUL)
    assert choice_of(TEXT, extents, USUAL, DataType.FP64).packed_a is not Packing.NONE


def test_panels_mean_what_numpy_computes() -> None:
    machine = replace(FORGETFUL, l1_bytes=1024, l2_bytes=8192)
    extents = {"p": 3, "q": 3, "r": 7, "s": 40, "t": 3, "u": 4}
    assert asks_in_passing(extents, machine)
    program = planned(TEXT, extents, machine, DataType.FP64).program
    products = [one for one in program.primitives if one.operation is Operation.CONTRACTION]
    assert len(products) == 2
    assert all("in0" in memory_hints(one).prefetched for one in products)
    assert_exact(program, TEXT, extents, DataType.FP64, 3)
