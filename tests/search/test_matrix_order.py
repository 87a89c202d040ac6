"""Batches of matrices times vectors are read as the matrices lie."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_alike, planned
from teir.dtypes import DataType
from teir.ir.nodes import IterationNode, Program
from teir.search.machine import Machine

SMALL = replace(USUAL, l2_bytes=1 << 15)
"""A second cache smaller than the matrices."""
TEXT = "bcak,kc->bca"
EXTENTS = {"b": 32, "c": 4, "a": 64, "k": 6}


def _outermost(text: str, extents: dict[str, int], machine: Machine) -> str:
    return _walk(planned(text, extents, machine, DataType.FP64).program)[0]


def _walk(program: Program) -> list[str]:
    """The axes of the loops, outermost first."""
    return [node.axis for node in program.nodes() if isinstance(node, IterationNode)]


def test_rows_outside_of_batches_are_the_outer_loop() -> None:
    assert _outermost(TEXT, EXTENTS, USUAL) == "c"
    assert _outermost(TEXT, EXTENTS, SMALL) == "b"


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
    assert _walk(programs[0]) != _walk(programs[1])
    assert_alike(programs, TEXT, EXTENTS, 3)
