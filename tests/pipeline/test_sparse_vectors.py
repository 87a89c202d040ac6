"""Sums and element-wise products of tensors with a sparse result, merged as vectors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import teir
from teir.backends.llvm.fibre_unions import squeeze_of
from teir.backends.llvm.fibre_unions_ir import Squeeze
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_run import PatternSource

Array = np.ndarray[Any, np.dtype[Any]]
SHAPE = (5, 4, 6)
TEXTS = {
    "C[i,j,k] = A[i,j,k] * B[i,j,k]": lambda a, b: a * b,
    "C[i,j,k] = A[i,j,k] + B[i,j,k]": lambda a, b: a + b,
    "C[i,j,k] = 2 * A[i,j,k] - 0.5 * B[i,j,k]": lambda a, b: 2 * a - 0.5 * b,
    "C[i,j,k] = -3 * A[i,j,k] * B[i,j,k]": lambda a, b: -3 * a * b,
}
needs_lanes = pytest.mark.skipif(
    squeeze_of(default_isa()) is Squeeze.NOTHING, reason="vectors are merged by AVX-512 code"
)


def drawn(seed: int, density: float, shape: tuple[int, ...] = SHAPE) -> Array:
    random = np.random.default_rng(seed)
    return random.integers(1, 5, shape) * (random.random(shape) < density) * 1.0


def stored(array: Array, levels: str, order: tuple[int, ...] | None = None) -> teir.Sparse:
    found = np.nonzero(array)
    return teir.Sparse.from_coo(found, array[found], array.shape, levels, order)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("out", ["sss", "dss", "sds", "sss:2,0,1", "dds", "ssd"])
def test_results_are_those_of_dense_arithmetic(text: str, out: str) -> None:
    for seed, (levels, density) in enumerate(product(("sss", "dss", "sds"), (0.0, 0.1, 0.5, 1.0))):
        a, b = drawn(seed, density), drawn(seed + 50, 0.4)
        operands = stored(a, levels), stored(b, "sss", (0, 1, 2) if seed % 2 else (2, 0, 1))
        found = teir.einsum(text, *operands, out_levels=out)
        again = teir.einsum(text, *operands, out_levels=out)
        found.require_valid("found")
        np.testing.assert_array_equal(found.to_dense(), TEXTS[text](a, b))
        np.testing.assert_array_equal(again.values, found.values)


@needs_lanes
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_stored_is_what_the_operands_store(text: str, dtype: Any) -> None:
    shape = (70, 60, 50)
    a, b = drawn(1, 0.02, shape).astype(dtype), drawn(2, 0.03, shape).astype(dtype)
    operands = stored(a, "sss"), stored(b, "sss")
    plan = teir.plan(text, *operands, out_levels="sss")
    assert plan.pattern is PatternSource.VECTORS
    assert "merged" in plan.explain()
    found = plan(*operands)
    is_sum = "] * B" not in text
    is_stored = (a != 0) | (b != 0) if is_sum else (a != 0) & (b != 0)
    coords, values = found.to_coo()
    np.testing.assert_array_equal(np.array(coords), np.array(np.nonzero(is_stored)))
    np.testing.assert_array_equal(values, TEXTS[text](a, b)[is_stored])
    assert values.dtype == dtype
    assert {level.crd.dtype for level in found.stored} == {operands[0].index_dtype}


THREE = {
    "C[i,j,k] = A[i,j,k] + B[i,j,k] + D[i,j,k]": lambda a, b, d: a + b + d,
    "C[i,j,k] = 2 * A[i,j,k] - B[i,j,k] / 4 - D[i,j,k]": lambda a, b, d: 2 * a - b / 4 - d,
    "C[i,j,k] = 3 * A[i,j,k] * B[i,j,k] * D[i,j,k]": lambda a, b, d: 3 * a * b * d,
    "C[i,j,k] = A[i,j,k] - 2 * B[i,j,k] * D[i,j,k]": lambda a, b, d: a - 2 * b * d,
    "C[i,j,k] = A[i,j,k] * B[i,j,k] + A[i,j,k] * D[i,j,k] - B[i,j,k]": (
        lambda a, b, d: a * b + a * d - b
    ),
}


@pytest.mark.parametrize("text", THREE)
@pytest.mark.parametrize(("out", "dtype"), [("sss", np.float64), ("sss:1,2,0", np.float32)])
def test_three_tensors_are_merged_two_at_a_time(text: str, out: str, dtype: Any) -> None:
    order = (1, 2, 0) if ":" in out else (0, 1, 2)
    for seed, density in enumerate((0.0, 0.1, 0.6)):
        arrays = [drawn(seed, density), drawn(seed + 50, 0.4), drawn(seed + 90, 0.2)]
        arrays = [one.astype(dtype) for one in arrays]
        operands = [stored(one, "sss", order) for one in arrays]
        found = teir.einsum(text, *operands, out_levels=out)
        found.require_valid("found")
        assert found.values.dtype == dtype
        np.testing.assert_array_equal(found.to_dense(), THREE[text](*arrays))


@needs_lanes
@pytest.mark.parametrize("text", THREE)
def test_of_three_tensors_no_program_is_run(text: str) -> None:
    operands = [stored(drawn(seed, 0.3), "sss") for seed in range(3)]
    plan = teir.plan(text, *operands, out_levels="sss")
    assert plan.pattern is PatternSource.VECTORS


@needs_lanes
def test_coordinates_may_be_more_than_32_bits_count() -> None:
    shape = (1 << 20, 1 << 20, 1 << 20)
    random = np.random.default_rng(3)
    coords = random.integers(0, 1 << 20, (3, 500))
    more = np.concatenate([coords[:, ::2], random.integers(0, 1 << 20, (3, 100))], axis=1)
    a = teir.Sparse.from_coo(coords, np.ones(500), shape, levels="sss")
    b = teir.Sparse.from_coo(more, np.full(350, 2.0), shape, levels="sss")
    both = teir.einsum("C[i,j,k] = A[i,j,k] * B[i,j,k]", a, b, out_levels="sss")
    either = teir.einsum("C[i,j,k] = A[i,j,k] + B[i,j,k]", a, b, out_levels="sss")
    assert (both.nnz, both.values.sum()) == (250, 500.0)
    assert (either.nnz, either.values.sum()) == (600, 1200.0)
    wanted = set(map(tuple, np.concatenate([coords, more], axis=1).T.tolist()))
    assert set(zip(*(c.tolist() for c in either.to_coo()[0]), strict=True)) == wanted


@needs_lanes
def test_numbers_given_at_the_call_are_those_used() -> None:
    a, b = drawn(1, 0.3), drawn(2, 0.3)
    operands = stored(a, "sss"), stored(b, "sss")
    for number in (2.0, 3.0, -1.0):
        found = teir.einsum(
            "C[i,j,k] = s * A[i,j,k] - B[i,j,k]", number, *operands, out_levels="sss"
        )
        np.testing.assert_array_equal(found.to_dense(), number * a - b)
