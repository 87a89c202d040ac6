"""The compiled sums over three matrices are those of dense ones, and leave the dense row zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.backends.llvm.masked_rows import Matrix, masked_rows
from teir.dtypes import DataType
from teir.target import Isa

ISAS = [isa for isa in Isa if runs_here(isa)]
Array = np.ndarray[Any, np.dtype[Any]]


def levels(matrix: Array, width: type) -> Matrix:
    stored = matrix != 0
    pos: Array = np.concatenate([[0], np.cumsum(stored.sum(1))]).astype(width)
    return pos, np.nonzero(stored)[1].astype(width), matrix[stored]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("width", [np.int32, np.int64])
@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32])
def test_some_rows_of_three_matrices(isa: Isa, width: type, data_type: DataType) -> None:
    random = np.random.default_rng(1)
    dtype = data_type.numpy_dtype()
    run = masked_rows(isa, np.dtype(width).itemsize, data_type)
    for _ in range(60):
        i, j, k = random.integers(1, 30, 3)
        p, q, m = (
            (random.integers(-3, 4, shape) * (random.random(shape) < 0.5)).astype(dtype)
            for shape in ((i, j), (j, k), (i, k))
        )
        first, end = sorted(random.integers(0, i + 1, 2).tolist())
        dense, out = np.zeros(k, dtype), np.full(i, 7, dtype)
        parts = [levels(one, width) for one in (p, q, m)]
        run(range(first, end), parts[0], parts[1], parts[2], dense, out)
        expected = np.full(i, 7, dtype)
        expected[first:end] = np.einsum("ij,jk,ik->i", p, q, m)[first:end]
        np.testing.assert_array_equal(out, expected)
        assert not dense.any()
