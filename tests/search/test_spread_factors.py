"""Small factors are repeated as far as makes short rows long ones."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from search.planned import USUAL, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program

PHASE = "b,cbd->cbd"


def rows_of(program: Program) -> int:
    """Elements of a row of the product."""
    axes = program.axis_table()
    (product,) = (one for one in program.primitives if one.operation is Operation.MUL)
    return max(axes[name].extent for name in product.m)


@pytest.mark.parametrize(
    ("text", "extents", "row"),
    [
        (PHASE, {"b": 2, "c": 4096, "d": 2}, 512),
        (PHASE, {"b": 2, "c": 4096, "d": 64}, 128),
        ("be,cbde->cbde", {"b": 2, "c": 512, "d": 4, "e": 2}, 512),
        ("nc,c->nc", {"n": 1000, "c": 3}, 375),
        ("c,nc->nc", {"n": 1000, "c": 3}, 375),
    ],
)
def test_rows_are_long(text: str, extents: dict[str, int], row: int) -> None:
    program = planned(text, extents, USUAL).program
    assert rows_of(program) == row
    assert_exact(program, text, extents, DataType.FP32, 3)


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (PHASE, {"b": 2, "c": 4096, "d": 65}),
        (PHASE, {"b": 2, "c": 7, "d": 2}),
        (PHASE, {"b": 2000, "c": 16, "d": 2}),
        ("cb,cbd->cbd", {"b": 2, "c": 4096, "d": 2}),
        ("nc,c->nc", {"n": 1009, "c": 3}),
        ("nc,c->cn", {"n": 1000, "c": 3}),
    ],
    ids=["long rows", "few uses", "large factors", "factors of all", "prime", "turned"],
)
def test_others_stay_as_they_are(text: str, extents: dict[str, int]) -> None:
    names = [
        tensor.name for tensor in planned(text, extents, USUAL).program.tensor_table().values()
    ]
    assert not any(name.endswith("_spread") for name in names)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex128"])
@pytest.mark.parametrize("threads", [1, 2])
def test_native_products_are_exact(dtype: str, threads: int) -> None:
    draw = np.random.default_rng(2)
    for shape in ((300, 2, 3), (1000, 5, 1), (64, 2, 100)):
        state, phase = (draw.integers(-3, 4, one).astype(dtype) for one in (shape, shape[1:2]))
        found = teir.einsum(PHASE, phase, state, threads=threads)
        np.testing.assert_array_equal(found, state * phase[:, None])
