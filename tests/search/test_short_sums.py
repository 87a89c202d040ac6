"""Rows of short sums that are large are packed a panel at a time where the third cache is far."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Order, Packing
from teir.search.machine import Machine

NEAR = replace(FAR, l3_bytes=16 << 20)
TWO = replace(FAR, threads=2)


def goes_in_panels(text: str, extents: dict[str, int], machine: Machine) -> bool:
    """A panel of rows is packed, and all columns meet it."""
    choice = choice_of(text, extents, machine, DataType.FP64)
    is_met_once = choice.row_block == choice.panel and choice.order is Order.ROWS
    return choice.packed_a is Packing.BLOCKS and is_met_once


@pytest.mark.parametrize(
    ("text", "rows", "columns", "depth", "machine", "expected"),
    [
        ("bak,kd->dba", 300, 100, 13, FAR, True),
        ("bak,kd->dba", 300, 100, 12, FAR, False),
        ("bak,kd->dba", 300, 100, 13, NEAR, False),
        ("bak,kd->dba", 200, 40, 4, FAR, False),
        ("bak,kd->dba", 600, 260, 13, FAR, False),
        ("kba,kd->dab", 300, 100, 13, FAR, False),
    ],
    ids=[
        "large",
        "few products",
        "near third cache",
        "small",
        "many columns",
        "lines of others",
    ],
)
def test_when_rows_go_in_panels(
    text: str, rows: int, columns: int, depth: int, machine: Machine, expected: bool
) -> None:
    extents = {"a": 60, "b": rows, "d": columns, "k": depth}
    assert goes_in_panels(text, extents, machine) == expected


def test_what_it_computes() -> None:
    text, extents = "bak,kd->dba", {"a": 57, "b": 150, "d": 90, "k": 13}
    assert goes_in_panels(text, extents, FAR)
    program = planned(text, extents, FAR, DataType.FP64).program
    assert_exact(program, text, extents, DataType.FP64, 1)


BATCHES, SIDES = "gka,gkc->gca", {"g": 3, "k": 10, "a": 1001, "c": 300}


@pytest.mark.parametrize(
    ("text", "changed", "machine", "expected"),
    [
        (BATCHES, {}, FAR, True),
        (BATCHES, {}, TWO, True),
        (BATCHES, {}, NEAR, False),
        (BATCHES, {"k": 49, "a": 500, "c": 700}, FAR, False),
        (BATCHES, {"a": 100, "c": 3000}, FAR, False),
        (BATCHES, {"a": 9000, "c": 31}, FAR, False),
        ("gkba,gkc->gbca", {"b": 20, "a": 100}, FAR, False),
    ],
    ids=[
        "large results",
        "two threads",
        "near third cache",
        "long sums",
        "short rows",
        "few columns",
        "rows in short runs",
    ],
)
def test_batches_of_large_results_are_packed(
    text: str, changed: dict[str, int], machine: Machine, expected: bool
) -> None:
    choice = choice_of(text, SIDES | changed, machine, DataType.FP64)
    assert (choice.packed_a is choice.packed_b is Packing.WHOLE) == expected


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize(
    "machine", [FAR, replace(FAR, threads=2)], ids=["one thread", "two threads"]
)
def test_what_batches_compute(machine: Machine, data_type: DataType) -> None:
    extents = SIDES | {"g": 2, "a": 1033, "c": 609}
    assert choice_of(BATCHES, extents, machine, data_type).order is Order.LINES
    assert_exact(
        planned(BATCHES, extents, machine, data_type).program, BATCHES, extents, data_type, 1
    )
