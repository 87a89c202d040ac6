"""Rows become columns as sorting their coordinates makes them, by compiled loops."""

from __future__ import annotations

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.backends.llvm.turned_levels import VALUE_BYTES, Array, turned_levels
from teir.target import Isa

ISAS = [isa for isa in Isa if runs_here(isa)]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("value_bytes", VALUE_BYTES)
def test_rows_ascend_within_every_column(isa: Isa, dtype: type, value_bytes: int) -> None:
    random = np.random.default_rng(value_bytes)
    turn = turned_levels(isa, np.dtype(dtype).itemsize, value_bytes)
    for _ in range(60):
        shape = tuple(random.integers(0, 40, 2))
        mask = random.random(shape) < random.choice([0, 0.1, 0.5, 1])
        rows, columns = np.nonzero(mask)
        pos: Array = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(dtype)
        values = random.integers(0, 256, rows.size * value_bytes, np.uint8).view(f"V{value_bytes}")
        order = np.lexsort((rows, columns))
        ends, turned, moved = turn(pos, columns.astype(dtype), values, shape[1])
        np.testing.assert_array_equal(ends, [0, *np.cumsum(mask.sum(0))])
        np.testing.assert_array_equal(turned, rows[order])
        assert moved.tobytes() == values[order].tobytes()
        assert ends.dtype == turned.dtype == dtype
