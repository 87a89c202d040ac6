"""Sums over axes on both sides of those that stay: far ones first, in scratch."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, assert_means_it, planned, shares_loops
from teir.dtypes import DataType

TWICE = {
    "bca->c": {"a": 7, "b": 20, "c": 9},
    "badc->d": {"a": 5, "b": 6, "c": 8, "d": 11},
    "kxlyr->yx": {"k": 4, "x": 3, "l": 5, "y": 6, "r": 3},
    "kxyqr->xy": {"k": 12, "x": 4, "y": 3, "q": 2, "r": 5},
}
ONCE = {
    "bca->c": {"a": 7, "b": 5, "c": 9},
    "bca->ca": {"a": 7, "b": 20, "c": 9},
    "cba->c": {"a": 7, "b": 20, "c": 9},
    "bca->": {"a": 7, "b": 20, "c": 9},
}


def has_sums(text: str, extents: dict[str, int], data_type: DataType = DataType.FP32) -> bool:
    program = planned(text, extents, USUAL, data_type).program
    return any("sums" in one.output for one in program.primitives)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", TWICE)
def test_far_axes_are_summed_first(text: str, threads: int) -> None:
    assert has_sums(text, TWICE[text])
    machine = replace(USUAL, threads=threads, threaded_work=64)
    assert_means_it(text, TWICE[text], machine, 3)
    assert shares_loops(planned(text, TWICE[text], machine).program) == (threads > 1)


@pytest.mark.parametrize("data_type", [DataType.BF16, DataType.FP16])
@pytest.mark.parametrize("text", TWICE)
def test_sums_of_narrow_types_wait_in_the_wider_one(text: str, data_type: DataType) -> None:
    program = planned(text, TWICE[text], USUAL, data_type).program
    (kind,) = {one.data_type for one in program.scratch if "sums" in one.name}
    assert kind is DataType.FP32
    assert_exact(program, text, TWICE[text], data_type, 5)


@pytest.mark.parametrize("text", ONCE)
def test_others_are_summed_at_once(text: str) -> None:
    assert not has_sums(text, ONCE[text])
    assert_means_it(text, ONCE[text], USUAL, 3)


@pytest.mark.parametrize(
    ("piece", "rows", "data_type", "expected"),
    [
        (1024, 100, DataType.FP64, True),
        (1025, 100, DataType.FP64, False),
        (128, 1024, DataType.FP64, True),
        (128, 1025, DataType.FP64, False),
        (2048, 100, DataType.BF16, True),
        (2049, 100, DataType.BF16, False),
        (128, 2048, DataType.BF16, True),
        (128, 2049, DataType.BF16, False),
    ],
)
def test_short_pieces_whose_sums_stay_near(
    piece: int, rows: int, data_type: DataType, expected: bool
) -> None:
    assert has_sums("kxr->x", {"k": 8, "x": rows, "r": piece}, data_type) == expected


WEIGHTED = {
    "bca,b->c": {"a": 7, "b": 20, "c": 9},
    "bca,a->c": {"a": 7, "b": 20, "c": 9},
    "e,dabec->db": {"a": 9, "b": 4, "c": 2, "d": 6, "e": 4},
    "dabec,ac->db": {"a": 9, "b": 4, "c": 3, "d": 6, "e": 4},
}


@pytest.mark.parametrize("text", WEIGHTED)
def test_weights_of_one_side_are_used_there_in_large_operands(text: str) -> None:
    small = replace(USUAL, l1_bytes=512, l2_bytes=1024)
    extents = WEIGHTED[text]
    program = planned(text, extents, small).program
    is_twice = any("sums" in one.output for one in program.primitives)
    assert is_twice == (text != "dabec,ac->db")
    assert_means_it(text, extents, small, 4)
    assert_exact(
        planned(text, extents, small, DataType.FP16).program, text, extents, DataType.FP16, 6
    )
    assert not any("sums" in one.output for one in planned(text, extents, USUAL).program.primitives)
