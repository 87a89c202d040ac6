"""Batches whose rows follow one another lie inside the blocks of a sum."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import (
    FAR,
    assert_alike,
    assert_exact,
    choice_of,
    loops_of,
    planned,
    shares_loops,
)
from teir.dtypes import DataType
from teir.search.machine import Machine

NEAR = replace(FAR, l3_bytes=16 << 20)
TWO = replace(FAR, threads=2)
TEXT = "kca,kcb->cab"
EXTENTS = {"k": 290, "c": 89, "a": 5, "b": 100}


@pytest.mark.parametrize(
    ("text", "changed", "machine", "data_type", "is_inside"),
    [
        (TEXT, {}, FAR, DataType.FP64, True),
        (TEXT, {}, FAR, DataType.FP32, True),
        (TEXT, {}, FAR, DataType.C64, True),
        ("akc,kcb->cab", {}, FAR, DataType.FP32, True),
        ("kca,kcb->cab", {"k": 47}, FAR, DataType.FP32, False),
        (TEXT, {"c": 9}, FAR, DataType.FP32, False),
        (TEXT, {"b": 513, "a": 2}, FAR, DataType.FP32, False),
        (TEXT, {"b": 300, "a": 257, "k": 50, "c": 20}, FAR, DataType.FP32, False),
        ("kca,ckb->cab", {}, FAR, DataType.FP32, False),
        (TEXT, {"b": 20, "c": 103, "k": 60}, FAR, DataType.FP32, True),
        (TEXT, {"b": 8, "a": 3, "c": 300, "k": 50}, FAR, DataType.FP32, True),
        (TEXT, {"b": 8, "a": 3, "c": 256, "k": 15}, FAR, DataType.FP32, False),
        (TEXT, {}, NEAR, DataType.FP32, False),
        (TEXT, {}, FAR, DataType.BF16, False),
        (TEXT, {}, TWO, DataType.FP32, False),
        (TEXT, {"c": 189}, TWO, DataType.FP32, True),
    ],
    ids=[
        "double",
        "single",
        "complex",
        "the other operand lies otherwise",
        "short sums",
        "few batches",
        "long rows",
        "many columns",
        "batches outermost",
        "short rows",
        "rows of half a line",
        "what the first caches hold",
        "near third cache",
        "wider sums",
        "few batches for a thread",
        "batches for every thread",
    ],
)
def test_where_batches_lie_inside(
    text: str,
    changed: dict[str, int],
    machine: Machine,
    data_type: DataType,
    is_inside: bool,
) -> None:
    extents = EXTENTS | changed
    loops = loops_of(planned(text, extents, machine, data_type).program)
    assert ("kc" in "".join(loop[0] for loop in loops)) == is_inside
    if is_inside:
        assert choice_of(text, extents, machine, data_type).depth == 16


@pytest.mark.parametrize("machine", [FAR, TWO], ids=["one thread", "two threads"])
@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (TEXT, {}),
        (TEXT, {"c": 251, "b": 40, "k": 50}),
        ("kcda,kcdb->dcab", {"c": 17, "d": 7, "b": 20, "k": 70}),
        ("dkca,dkcb->dabc", {"d": 2, "b": 30, "k": 65}),
        ("kca,kcb->bca", {"k": 65}),
    ],
    ids=["batches", "blocks of batches", "two batches", "others outside", "between"],
)
def test_what_it_computes(text: str, changed: dict[str, int], machine: Machine) -> None:
    extents = EXTENTS | changed
    extents = {index: extents[index] for index in sorted(set(text) & set(extents))}
    for data_type in (DataType.FP64, DataType.C64):
        program = planned(text, extents, machine, data_type).program
        assert_exact(program, text, extents, data_type, 1)


def test_blocks_of_batches_keep_results_in_the_second_cache() -> None:
    extents = {"k": 50, "c": 251, "a": 60, "b": 40}
    program = planned(TEXT, extents, FAR, DataType.FP64).program
    assert [loop[0] for loop in loops_of(program)] == ["c", "k", "c", "k", "c"]
    shared = planned(TEXT, extents, TWO, DataType.FP64).program
    assert shares_loops(shared)
    assert_alike((program, shared), TEXT, extents, 3)
