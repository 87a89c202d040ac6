"""Rows of lanes that meet in the same few lines of a cache are taken one at a time."""

from __future__ import annotations

import pytest

from search.planned import USUAL, assert_alike, loops_of, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program

EXTENTS = {"a": 16, "b": 8, "e": 64, "c": 16}
"""Of FP64: a step of the first axis is a multiple of 4096 bytes."""


def _program(text: str, extents: dict[str, int]) -> Program:
    return planned(text, extents, USUAL, DataType.FP64).program


def test_such_rows_are_loops_around_the_others() -> None:
    assert loops_of(_program("aebc,ec->abc", EXTENTS)) == ["a"]


def test_the_smaller_operand_is_copied_once_for_all_of_them() -> None:
    program = _program("aebc,ce->abc", EXTENTS)
    (copy,) = (one.name for one in program.primitives if one.operation is Operation.COPY)
    outside = [getattr(node, "primitive", None) for node in program.roots]
    assert loops_of(program) == ["a"]
    assert copy in outside


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        ("aebc,ec->abc", EXTENTS | {"b": 7, "e": 63}),
        ("aebc,ec->abc", EXTENTS | {"a": 8}),
        ("aec,ec->ac", EXTENTS | {"c": 24, "e": 128}),
        ("abec,ec->abc", EXTENTS | {"c": 4}),
        ("aebc,enc->abnc", EXTENTS | {"n": 3}),
    ],
    ids=["apart", "few", "one vector of the rest", "sums within lines", "columns"],
)
def test_others_stay_together(text: str, extents: dict[str, int]) -> None:
    assert "a" not in loops_of(_program(text, extents))


@pytest.mark.parametrize("text", ["aebc,ec->abc", "aebc,ce->abc"])
def test_products_are_right(text: str) -> None:
    extents = EXTENTS | {"a": 9, "e": 4}
    program = _program(text, extents)
    assert loops_of(program) == ["a"]
    assert_alike([program], text, extents, 3)
