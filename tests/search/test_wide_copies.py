"""Copies of short runs that input and output share have the tiles of elements as wide."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import teir
from search.planned import USUAL, assert_exact, stated
from search.test_streamed_copies import permuted
from teir.dtypes import DataType
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.pipeline.operand_types import OperandType
from teir.search.tree import TreeOptions, contraction_program
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


@pytest.mark.parametrize("vector_bytes", [32, 64])
@pytest.mark.parametrize("kind", [DataType.FP32, DataType.FP16], ids=str)
@pytest.mark.parametrize("text", ["abcz->cabz", "abcz->bcaz", "abcz->bacz"])
def test_runs_that_lie_apart_are_copied_whole(text, kind, vector_bytes) -> None:
    """Every second run, every third: those of other tiles than squares had been copied in part."""
    machine = replace(USUAL, vector_bytes=vector_bytes)
    for run, step, shape in ((2, 2, (66, 58, 5)), (4, 3, (20, 30, 40)), (2, 5, (64, 17, 8))):
        whole = np.arange(np.prod(shape) * step * run) % 1021
        whole = whole.astype(kind.numpy_dtype()).reshape(*shape, step, run)
        view = whole[..., 0, :]
        planned = OperandType(kind, view.dtype, view.shape, view.strides)
        program = contraction_program(stated(text, [planned]), ((0,),), machine, TreeOptions())
        expected = np.ascontiguousarray(np.einsum(text, view))
        out = np.zeros_like(expected)
        teir.run(program.program, {"in0": whole, "out": out})
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(teir.einsum(text, view), expected)
