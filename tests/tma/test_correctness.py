"""Strong correctness: the theorem against brute force, predicates, and random schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teir.errors import Finding
from teir.tma.case_form import transfer_of
from teir.tma.correctness import (
    StrongCorrectness,
    classify,
    is_protected_throughout,
    predicate_values,
    predicates,
    require_strong,
)
from teir.tma.draw import draw_transfer
from teir.tma.emulate import whole_tile
from teir.tma.evaluate import tiles
from teir.tma.inference import Inferred, infer
from teir.tma.refusal import Refusal
from teir.tma.soundness import measure_soundness
from teir.tma.walk import sampled_tiles, tile_count, walk


def inferred(**fields: Any) -> Inferred:
    case = {"id": "case", "dtype": "f64", "parallel": {}, "schedule": [], **fields}
    found = infer(transfer_of(case, "$"))
    assert not isinstance(found, Refusal)
    return found


def strided(size: int, box: int, stride: int) -> Inferred:
    """The canonical schedule of one strided dimension: boxing split, then striding split."""
    schedule = [["split", 0, box], ["split", 1, stride]]
    return inferred(shape=[size, 2], schedule=schedule, parallel={"1": "Bulk", "3": "Bulk"})


def tile_straddles(found: Inferred) -> bool:
    """By brute force: has any tile both valid items and holes that hold data?"""
    every = walk(found, np.arange(tile_count(found), dtype=np.int64))
    valid, inside = whole_tile(every, every.valid), whole_tile(every, every.in_bounds)
    return bool((valid.any(axis=1) & (inside & ~valid).any(axis=1)).any())


@pytest.mark.parametrize("box", range(1, 14))
def test_theorem_against_brute_force(box: int) -> None:
    """Impossible iff e < B < S and e does not divide B; as ceil-div of the size may say less."""
    for size in range(1, 30):
        for stride in range(1, 9):
            found = strided(size, box, stride)
            impossible = classify(found) is StrongCorrectness.UNACHIEVABLE
            assert impossible == tile_straddles(found), (size, box, stride)
            assert impossible == (stride < box < size and box % stride != 0)


@pytest.mark.parametrize("seed", range(8))
def test_random_schedules(seed: int) -> None:
    """2,000 schedules in all, whose descriptor walk equals the schedule walk."""
    measured = measure_soundness(compared=250, seed=seed)
    assert measured.wrong == ()
    assert measured.compared == 250
    assert measured.elements > 100_000
    assert all(count > 0 for kind, count in measured.classes if kind.value != "unachievable")


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_walk_finds_the_items_of_the_evaluator(seed: int) -> None:
    """The valid items of every tile, by the definition in plain Python."""
    import random

    transfer = draw_transfer(random.Random(seed))
    found = infer(transfer)
    if isinstance(found, Refusal) or np.prod(transfer.shape) > 600:
        return
    count = tile_count(found)
    if count > 600:
        return
    walked = walk(found, np.arange(count, dtype=np.int64))
    defined = tiles(transfer)
    assert len(defined) == count
    counts = whole_tile(walked, walked.valid).sum(axis=1)
    assert [len(items) for items in defined] == counts.tolist()


def test_predicate_of_an_inner_coordinate() -> None:
    found = inferred(
        shape=[48],
        schedule=[["split", 0, 4], ["split", 0, 4], ["split", 1, 3]],
        parallel={"3": "Bulk"},
    )
    assert classify(found) is StrongCorrectness.NEEDS_PREDICATE
    (predicate,) = predicates(found)
    assert str(predicate) == "0 <= i6 * 3 + i7 < 4"
    assert require_strong(found) == (predicate,)
    every = walk(found, np.arange(tile_count(found), dtype=np.int64))
    assert predicate_values(every, (predicate,)).sum() == 12


def test_predicate_of_a_unit_that_is_split_further() -> None:
    found = inferred(
        shape=[32],
        schedule=[["split", 0, 16], ["split", 0, 1], ["split", 1, 2]],
        parallel={"3": "Bulk"},
    )
    assert not is_protected_throughout(found)
    assert classify(found) is StrongCorrectness.NEEDS_PREDICATE
    assert [str(one) for one in predicates(found)] == ["0 <= i6 * 2 + i7 < 1"]


def test_predicates_where_a_tile_overruns_an_unprotected_iter_domain() -> None:
    """Position -1 of a resized extent of 1 would read items by overrunning what lies inside it."""
    found = inferred(
        shape=[3],
        dtype="f32",
        schedule=[["split", 0, 3], ["resize", 0, 1, 1], ["split", 1, 16]],
        parallel={"2": "Bulk"},
    )
    every = walk(found, np.arange(tile_count(found), dtype=np.int64))
    issued = predicate_values(every, predicates(found))
    valid = whole_tile(every, every.valid)
    data_holes = whole_tile(every, every.in_bounds) & ~valid
    assert data_holes.any()
    assert not data_holes[issued].any()
    assert not valid[~issued].any()


def test_protected_needs_nothing() -> None:
    found = inferred(
        shape=[30], schedule=[["split", 0, 4], ["split", 0, 3]], parallel={"2": "Bulk"}
    )
    assert is_protected_throughout(found)
    assert require_strong(found) == ()


def test_asking_for_the_impossible_is_an_error() -> None:
    answer = require_strong(strided(20, 8, 3))
    assert isinstance(answer, Finding)
    assert answer.code == "TEIR960"
    assert "I1{20}" in str(answer)
    assert "e=3, B=8, S=20" in answer.found


def test_sampled_tiles_are_the_same_everywhere() -> None:
    assert sampled_tiles(5, 64).tolist() == [0, 1, 2, 3, 4]
    drawn = sampled_tiles(1000, 64)
    assert drawn[:4].tolist() == [0, 864, 394, 776]
    assert len(drawn) == 64
