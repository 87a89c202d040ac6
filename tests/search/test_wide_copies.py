"""Copies of short runs that input and output share have the tiles of elements as wide."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact
from search.test_streamed_copies import permuted
from teir.dtypes import DataType
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.target import Isa

WIDE = (
    ("abz->baz", {"a": 60, "b": 70, "z": 2}, DataType.FP32, "ab->ba", DataType.FP64),
    ("abz->baz", {"a": 23, "b": 9000, "z": 4}, DataType.FP32, "ab->ba", DataType.C128),
    ("abcz->bcaz", {"a": 33, "b": 80, "c": 7, "z": 4}, DataType.BF16, "abc->bca", DataType.FP64),
    ("abcz->cbaz", {"a": 90, "b": 100, "c": 70, "z": 2}, DataType.FP64, "abc->cba", DataType.C128),
)


@pytest.mark.parametrize(("text", "extents", "data_type", "plain", "wide"), WIDE)
@pytest.mark.parametrize("threads", [1, 2])
def test_runs_are_copied_as_wide_elements(text, extents, data_type, plain, wide, threads) -> None:
    machine = replace(USUAL, threads=threads)
    others = {index: extent for index, extent in extents.items() if index != "z"}
    found, expected = (
        lower(program, Isa.AVX512).roots
        for program in (
            permuted(text, extents, machine, data_type),
            permuted(plain, others, machine, wide),
        )
    )
    assert count_calls(found) == count_calls(expected)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("run", [2, 3, 4])
def test_runs_are_copied_exactly(run: int, threads: int) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    for text, extents in (
        ("abz->baz", {"a": 17, "b": 21, "z": run}),
        ("abcz->cbaz", {"a": 5, "b": 8, "c": 13, "z": run}),
    ):
        program = permuted(text, extents, machine, DataType.FP32)
        assert_exact(program, text, extents, DataType.FP32, 3)
