"""A large operand of adjacent rows stays in place; its next rows are asked for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, choice_of
from teir.dtypes import DataType
from teir.search.choice import Packing, Sharing

FAR = {"p": 8, "q": 12, "r": 40, "s": 92, "t": 32, "u": 32}


@pytest.mark.parametrize(("data_type", "rows"), [(DataType.FP64, 24), (DataType.FP32, 32)])
def test_far_rows_are_asked_for(data_type: DataType, rows: int) -> None:
    choice = choice_of("turs,pqut->pqrs", FAR, USUAL, data_type)
    assert choice.packed_a is Packing.NONE
    assert choice.prefetches_a
    assert choice.column_block == 24
    assert choice.row_block == rows


@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_they_are_lines_where_vectors_are_shorter(vector_bytes: int) -> None:
    machine = replace(USUAL, vector_bytes=vector_bytes)
    choice = choice_of("turs,pqut->pqrs", FAR, machine, DataType.FP64)
    assert (choice.prefetches_a, choice.row_block) == (True, 24)


@pytest.mark.parametrize(("extents", "depth"), [({}, 384), ({"t": 16}, 512)], ids=["cut", "whole"])
def test_sums_that_are_cut_are_cut_short(extents: dict[str, int], depth: int) -> None:
    choice = choice_of("turs,pqut->pqrs", FAR | extents, USUAL, DataType.FP64)
    assert (choice.prefetches_a, choice.depth) == (True, depth)


@pytest.mark.parametrize(("data_type", "rows"), [(DataType.FP64, 24), (DataType.FP32, 48)])
@pytest.mark.parametrize(
    ("text", "columns"), [("dca,bd->cba", 24), ("cda,bd->cba", 24), ("cda,db->cba", 168)]
)
def test_far_rows_of_one_sum_are_asked_for(
    text: str, columns: int, data_type: DataType, rows: int
) -> None:
    choice = choice_of(text, {"a": 168, "b": 168, "c": 184, "d": 220}, USUAL, data_type)
    assert (choice.packed_a, choice.prefetches_a) == (Packing.NONE, True)
    assert (choice.row_block, choice.column_block) == (rows, columns)
    assert choice.streams
    assert choice.prefetches_out


def test_rows_of_other_types_are_packed() -> None:
    choice = choice_of("turs,pqut->pqrs", FAR | {"r": 80}, USUAL, DataType.BF16)
    assert not choice.prefetches_a


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        ("rstu,pqut->pqrs", FAR),
        ("turs,pqut->pqrs", FAR | {"q": 200}),
        ("turs,pqut->pqrs", FAR | {"r": 2, "s": 12, "t": 1000}),
        ("turs,pqut->pqrs", FAR | {"t": 4}),
        ("tsr,pt->spr", {"t": 400, "p": 100, "r": 70, "s": 70}),
    ],
    ids=["turned", "many columns", "few rows", "near", "few rows of one sum"],
)
def test_other_operands_are_not(text: str, extents: dict[str, int]) -> None:
    assert not choice_of(text, extents, USUAL, DataType.FP64).prefetches_a


@pytest.mark.parametrize(
    "extents",
    [{"t": 1600, "p": 100, "r": 2000}, {"t": 500, "p": 100, "r": 1200}],
    ids=["a sum in blocks", "nearer"],
)
def test_nearer_rows_are_where_the_third_cache_is_near(extents: dict[str, int]) -> None:
    far = replace(USUAL, l2_bytes=2 << 20, l3_bytes=105 << 20)
    choices = [choice_of("tr,pt->pr", extents, one, DataType.FP64) for one in (USUAL, far)]
    assert [choice.prefetches_a for choice in choices] == [True, False]


def test_threads_ask_for_the_rows_of_their_parts() -> None:
    choice = choice_of("turs,pqut->pqrs", FAR, replace(USUAL, threads=2), DataType.FP64)
    assert choice.sharing is Sharing.PARTS
    assert choice.prefetches_a
