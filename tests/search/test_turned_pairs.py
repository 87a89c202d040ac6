"""Batches of dots whose inputs lie turned to each other: what is turned, and what it means."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import (
    USUAL,
    assert_alike,
    assert_exact,
    assert_means_it,
    planned,
    shares_loops,
    step_of,
)
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program
from teir.search.turned_pairs import turned_pair_of

RESULTS_SIDE_BY_SIDE = {
    "acb,abc->cb": {"a": 23, "b": 130, "c": 6},
    "aecbd,adecb->cde": {"a": 7, "b": 3, "c": 22, "d": 16, "e": 7},
    "adbec,edacb->dce": {"a": 5, "b": 6, "c": 40, "d": 11, "e": 4},
    "bcda,dcab->dcb": {"a": 29, "b": 37, "c": 16, "d": 3},
    "zkx,kxz->xz": {"z": 40, "k": 17, "x": 41},
}
LONG_SUMS = {
    "dabc,cdab->dc": {"a": 28, "b": 24, "c": 6, "d": 9},
    "cabd,abdc->c": {"a": 9, "b": 5, "c": 17, "d": 29},
    "cdab,cdba->dc": {"a": 40, "b": 51, "c": 3, "d": 4},
}
OTHERS = {
    "zka,kza->za": {"z": 20, "k": 20, "a": 60},
    "acb,abc->cb": {"a": 3, "b": 30, "c": 6},
    "acb,abc->a": {"a": 9000, "b": 2, "c": 2},
    "acb,bc->cb": {"a": 30, "b": 300, "c": 6},
    "acb,abc->acb": {"a": 30, "b": 300, "c": 6},
    "acb,abc->": {"a": 30, "b": 300, "c": 6},
}
"""Adjacent along one axis, small, of short rows, with an input that repeats; no sum, one result."""
PAIRS = RESULTS_SIDE_BY_SIDE | LONG_SUMS


def turned_of(program: Program) -> set[str]:
    """The inputs that are copied into tiles, one after the other, before they are multiplied."""
    copies = [one for one in program.primitives if one.operation is Operation.COPY]
    return {name for one in copies if one.output != "out" for name in one.inputs}


def lanes_of(program: Program) -> set[str | None]:
    sums = [one for one in program.primitives if one.operation is Operation.CONTRACTION]
    return {dict(one.metadata).get("lanes") for one in sums}


@pytest.mark.parametrize("text", RESULTS_SIDE_BY_SIDE)
def test_lanes_run_along_results_that_one_input_has_side_by_side(text: str) -> None:
    program = planned(text, RESULTS_SIDE_BY_SIDE[text], USUAL).program
    assert len(turned_of(program)) == 1
    assert lanes_of(program) == {None}


@pytest.mark.parametrize("text", LONG_SUMS)
def test_lanes_run_along_long_sums(text: str) -> None:
    program = planned(text, LONG_SUMS[text], USUAL).program
    assert len(turned_of(program)) == 1
    assert None not in lanes_of(program)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", PAIRS)
def test_turned_pairs_mean_what_numpy_computes(text: str, threads: int) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    assert_means_it(text, PAIRS[text], machine, 11)


@pytest.mark.parametrize("data_type", [DataType.BF16, DataType.FP16])
@pytest.mark.parametrize("text", PAIRS)
def test_results_of_narrow_types_are_rounded_once(text: str, data_type: DataType) -> None:
    extents = PAIRS[text]
    for threads in (1, 3):
        machine = replace(USUAL, threads=threads, threaded_work=64)
        program = planned(text, extents, machine, data_type).program
        assert len(turned_of(program)) == 1
        assert_exact(program, text, extents, data_type, 13)


def test_long_sums_are_worth_more_than_a_few_results_side_by_side() -> None:
    for columns, of_results in ((7, False), (8, True)):
        extents = {"a": 40, "b": 300, "c": columns}
        program = planned("bac,acb->c", extents, USUAL).program
        assert (lanes_of(program) == {None}) is of_results


@pytest.mark.parametrize("text", PAIRS)
def test_sums_do_not_depend_on_the_machine_or_the_threads(text: str) -> None:
    machines = [
        replace(USUAL, threads=threads, threaded_work=64, l1_bytes=l1, l2_bytes=l2)
        for threads, l1, l2 in ((1, 2**15, 2**20), (2, 2**15, 2**20), (1, 48 << 10, 2**17))
    ]
    programs = [planned(text, PAIRS[text], one, DataType.FP64).program for one in machines]
    assert_alike(programs, text, PAIRS[text], 12)


@pytest.mark.parametrize("text", PAIRS)
def test_threads_share_tiles_of_results(text: str) -> None:
    program = planned(text, PAIRS[text], replace(USUAL, threads=3, threaded_work=64)).program
    assert shares_loops(program)


@pytest.mark.parametrize("text", OTHERS)
def test_others_are_none(text: str) -> None:
    assert turned_pair_of(step_of(text, OTHERS[text])) is None


@pytest.mark.parametrize("text", PAIRS)
def test_pairs_are_told(text: str) -> None:
    assert turned_pair_of(step_of(text, PAIRS[text])) is not None
