"""Permutations of few elements in a row on both sides: which take two turns, and what they mean."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, planned, shares_loops, step_of
from teir.dtypes import DataType
from teir.search.step import normalise
from teir.search.two_turns import two_turns_of

JOINED = {
    "ced->dec": {"c": 3, "d": 5, "e": 300},
    "zkxy->zyxk": {"z": 40, "k": 2, "x": 9, "y": 2},
}
SPLIT = {
    "dec->ced": {"c": 3, "d": 5, "e": 300},
    "dabc->dcba": {"a": 5, "b": 60, "c": 3, "d": 3},
    "dcba->dabc": {"a": 3, "b": 60, "c": 5, "d": 3},
    "daecb->bceda": {"a": 1, "b": 2, "c": 3, "d": 3, "e": 500},
}
ONE_TURN = {
    "ab->ba": {"a": 3, "b": 900},
    "abc->acb": {"a": 100, "b": 3, "c": 5},
    "abc->cba": {"a": 6, "b": 50, "c": 9},
    "abc->cab": {"a": 5, "b": 7, "c": 3},
    "bac->abc": {"a": 30, "b": 50, "c": 3},
}
"""Of two axes, two that change places, squares that are full enough, small, rows that stay."""


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", JOINED | SPLIT)
def test_two_turns_mean_what_numpy_computes(text: str, threads: int) -> None:
    extents, machine = (JOINED | SPLIT)[text], replace(USUAL, threads=threads, threaded_work=64)
    for data_type in (DataType.FP32, DataType.FP64, DataType.C128, DataType.BF16):
        program = planned(text, extents, machine, data_type).program
        assert any("rows" in one.output for one in program.primitives)
        assert_exact(program, text, extents, data_type, 6)


@pytest.mark.parametrize("text", JOINED | SPLIT)
def test_the_side_with_the_longer_run_fills_the_vectors(text: str) -> None:
    turns = two_turns_of(normalise(step_of(text, (JOINED | SPLIT)[text])))
    assert turns is not None
    assert turns.is_joined == (text in JOINED)


@pytest.mark.parametrize("text", ONE_TURN)
def test_others_take_one_turn(text: str) -> None:
    assert two_turns_of(normalise(step_of(text, ONE_TURN[text]))) is None


def test_threads_share_the_tiles() -> None:
    extents = {"a": 5, "b": 60, "c": 3, "d": 90}
    machine = replace(USUAL, threads=3, threaded_work=64)
    program = planned("dabc->dcba", extents, machine).program
    assert shares_loops(program)
    assert_exact(program, "dabc->dcba", extents, DataType.FP32, 6)
