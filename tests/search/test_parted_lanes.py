"""Batches along lanes of a matrix from memory: read as it lies, results part by part."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, USUAL, assert_alike, loops_of, program_of, shares_loops
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Primitive, Program

TEXT = "bac,bc->ca"
EXTENTS = {"a": 60, "b": 150, "c": 240}
"""17 MB of FP64."""
TWO = replace(USUAL, threads=2)


def sums_of(program: Program) -> list[Primitive]:
    return [one for one in program.primitives if one.operation is Operation.CONTRACTION]


def depths_of(program: Program) -> set[int]:
    """Products of a result in each part."""
    table = program.axis_table()
    return {table[one.k[0]].extent for one in sums_of(program)}


def test_some_places_at_a_time_where_nothing_is_summed_inside() -> None:
    program = program_of(TEXT, EXTENTS)
    assert depths_of(program) == {6}
    assert all(len(one.c) == 1 and not one.m for one in sums_of(program))
    assert_alike([program, program_of(TEXT, EXTENTS, TWO)], TEXT, EXTENTS, 3)


def test_vectors_are_laid_along_the_lanes_first() -> None:
    program = program_of("bac,cb->ca", EXTENTS)
    assert depths_of(program) == depths_of(program_of(TEXT, EXTENTS))
    assert program.scratch[0].name == "in1_laid"
    assert_alike([program], "bac,cb->ca", EXTENTS, 4)


def test_what_is_summed_inside_is_a_part() -> None:
    extents = {"a": 12, "b": 20, "c": 30, "d": 310}
    program = program_of("bacd,bcd->da", extents)
    assert depths_of(program) == {30}
    assert_alike([program, program_of("bacd,bcd->da", extents, TWO)], "bacd,bcd->da", extents, 5)


@pytest.mark.parametrize(
    ("text", "extents", "data_type"),
    [
        pytest.param(TEXT, EXTENTS | {"b": 100}, DataType.FP64, id="small"),
        pytest.param(TEXT, EXTENTS | {"b": 600}, DataType.BF16, id="rounded parts"),
        pytest.param(TEXT, {"a": 7000, "b": 50, "c": 7}, DataType.FP64, id="short rows"),
        pytest.param(TEXT, {"a": 1200, "b": 20, "c": 100}, DataType.FP64, id="many results"),
        pytest.param("abc,bac->bc", EXTENTS, DataType.FP64, id="two matrices"),
        pytest.param("bac,bc->ca", {"a": 1200, "b": 7, "c": 300}, DataType.FP64, id="few runs"),
    ],
)
def test_others_are_formed_at_once(text: str, extents: dict[str, int], data_type: DataType) -> None:
    program = program_of(text, extents, data_type=data_type)
    summed = next(index for index in extents if index not in text.split("->")[1])
    table = program.axis_table()
    assert all(extents[summed] == table[one.k[-1]].extent for one in sums_of(program))


def test_where_the_third_cache_is_far_they_are_formed_at_once_in_the_same_order() -> None:
    far = program_of(TEXT, EXTENTS, FAR)
    assert depths_of(far) == {EXTENTS["b"]}
    assert_alike([program_of(TEXT, EXTENTS), far], TEXT, EXTENTS, 6)


def test_threads_share_what_is_not_summed() -> None:
    assert not shares_loops(program_of(TEXT, EXTENTS))
    assert shares_loops(program_of(TEXT, EXTENTS, TWO))
    assert loops_of(program_of(TEXT, EXTENTS))[:2] != loops_of(program_of(TEXT, EXTENTS, TWO))[:2]
