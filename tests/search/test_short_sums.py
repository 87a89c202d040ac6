"""Rows of short sums that are large are packed a panel at a time where the third cache is far."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Order, Packing
from teir.search.machine import Machine

NEAR = replace(FAR, l3_bytes=16 << 20)


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
