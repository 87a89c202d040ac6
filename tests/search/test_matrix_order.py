"""Batches of matrices times vectors are read as the matrices lie."""

from __future__ import annotations

import pytest

from search.planned import SMALL, USUAL, assert_alike, loops_of, planned
from teir.dtypes import DataType
from teir.search.machine import Machine

TEXT = "bcak,kc->bca"
EXTENTS = {"b": 32, "c": 4, "a": 64, "k": 6}


def _outermost(text: str, extents: dict[str, int], machine: Machine) -> str:
    return loops_of(planned(text, extents, machine, DataType.FP64).program)[0]


def test_rows_outside_of_batches_are_the_outer_loop() -> None:
    assert _outermost(TEXT, EXTENTS, USUAL) == "c"
    assert _outermost(TEXT, EXTENTS, SMALL) == "b"


def test_batches_that_share_lines_are_inner_loops_of_short_leaves_too() -> None:
    extents = EXTENTS | {"a": 12, "b": 128}
    assert _outermost("back,kc->bca", extents | {"k": 3}, SMALL) == "b"
    assert _outermost("bcak,kc->bca", extents | {"k": 6}, SMALL) == "c"


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        ("bcak,knc->bcna", EXTENTS | {"n": 32}),
        (TEXT, EXTENTS | {"a": 32, "b": 64}),
        ("cbak,kc->cba", EXTENTS),
    ],
    ids=["columns", "small leaves", "batches outside"],
)
def test_others_stay(text: str, extents: dict[str, int]) -> None:
    assert _outermost(text, extents, SMALL) == _outermost(text, extents, USUAL)


def test_the_order_changes_no_bit() -> None:
    programs = [planned(TEXT, EXTENTS, one, DataType.FP64).program for one in (SMALL, USUAL)]
    assert loops_of(programs[0]) != loops_of(programs[1])
    assert_alike(programs, TEXT, EXTENTS, 3)
