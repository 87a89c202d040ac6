"""Sums of complex numbers in one block where results lie beyond the second cache, the third far."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.machine import Machine
from teir.search.one_block import one_block_depth

NEAR = replace(FAR, l3_bytes=64 << 20)
TEXT = "ij,jk->ik"
USUAL_DEPTH = 256


def _depth(
    extents: dict[str, int], machine: Machine, kind: DataType = DataType.C128, text: str = TEXT
) -> int:
    return choice_of(text, extents, machine, kind).depth


def test_far_results_are_written_once() -> None:
    assert _depth({"i": 500, "j": 500, "k": 500}, FAR) == 512


@pytest.mark.parametrize(
    ("extents", "machine"),
    [
        ({"i": 500, "j": 500, "k": 500}, NEAR),
        ({"i": 200, "j": 500, "k": 200}, FAR),
        ({"i": 500, "j": 1009, "k": 500}, FAR),
    ],
    ids=["near cache", "near results", "long sums"],
)
def test_other_sums_are_cut_as_before(extents: dict[str, int], machine: Machine) -> None:
    assert _depth(extents, machine) == USUAL_DEPTH


def test_adjacent_columns_other_types_and_threads_are_left_alone() -> None:
    extents = {"i": 500, "j": 500, "k": 500}
    assert _depth(extents, FAR, text="ji,jk->ik") == USUAL_DEPTH
    for kind in (DataType.C64, DataType.FP64):
        (step,) = planned(TEXT, extents, FAR, kind).matrix_steps
        assert one_block_depth(step.shape, FAR) == 0
    (step,) = planned(TEXT, extents, FAR, DataType.C128).matrix_steps
    assert one_block_depth(step.shape, replace(FAR, threads=2)) == 0


def test_a_vector_has_no_columns() -> None:
    (step,) = planned(TEXT, {"i": 500, "j": 500, "k": 500}, FAR, DataType.C128).matrix_steps
    assert one_block_depth(replace(step.shape, n=None), FAR) == 0


def test_sums_in_one_block_are_right() -> None:
    extents = {"i": 362, "j": 385, "k": 363}
    programs = [planned(TEXT, extents, one, DataType.C128).program for one in (FAR, NEAR)]
    assert programs[0] != programs[1]
    assert_exact(programs[0], TEXT, extents, DataType.C128, 3)
