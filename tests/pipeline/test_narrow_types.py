"""Narrow types are summed in float32 and rounded once, whatever the intermediates."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from teir.dtypes import DataType
from teir.ir.accuracy import error_bound, error_ratio

EXTENTS = {"a": 17, "b": 33, "c": 5, "d": 3, "e": 40, "f": 24}


@pytest.mark.parametrize(
    ("text", "shapes", "values"),
    [
        ("bfe,fd->bfe", ((7, 8, 4), (8, 3)), (0.1, 4e4)),
        ("ab,cd->ac", ((7, 9), (7, 3)), (2e4, 1e-4)),
        ("ab,ab,ab->ab", ((7, 9),) * 3, (1e-4, 1e-4, 6e4)),
        ("ba,ab,ab->b", ((9, 7), (7, 9), (7, 9)), (1e-4, 1e-4, 6e4)),
        ("ab,bc,cd->ad", ((40, 40),) * 3, (300.0, 300.0, 1e-4)),
    ],
)
def test_no_intermediate_leaves_the_range_of_float16(text, shapes, values) -> None:
    operands = [np.full(s, value, np.float16) for s, value in zip(shapes, values, strict=True)]
    exact = np.einsum(text, *(one.astype(np.float64) for one in operands))
    np.testing.assert_allclose(teir.einsum(text, *operands).astype("f8"), exact, rtol=2.0**-10)


@pytest.mark.parametrize("data_type", [DataType.BF16, DataType.FP16])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "text",
    [
        "bfe,fd->bfe",
        "bca,cda->dc",
        "da,efa->dea",
        "ceaf,beaf->afeb",
        "abc,abd->ab",
        "ba,ab,ab->b",
        "ab,ab,ab->ab",
        "ab,bc,c->a",
    ],
)
def test_results_are_rounded_once(text: str, threads: int, data_type: DataType) -> None:
    draw, numbers = np.random.default_rng(7), data_type.numpy_dtype()
    terms, output = text.split("->")
    shapes = [tuple(EXTENTS[index] for index in term) for term in terms.split(",")]
    operands = [draw.standard_normal(shape).astype(numbers) for shape in shapes]
    wide = [one.astype(np.float64) for one in operands]
    bound = error_bound(
        np.einsum(text, *map(np.abs, wide)),
        terms=int(np.prod([EXTENTS[i] for i in {*terms} - {*output, ","}])),
        invocations=1,
        input_type=data_type,
        output_type=data_type,
    )
    result = np.asarray(teir.einsum(text, *operands, threads=threads)).astype(np.float64)
    assert error_ratio(result, np.einsum(text, *wide), bound) < 1
