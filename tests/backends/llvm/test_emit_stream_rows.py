"""Rows written past the caches one after another: random lengths, gaps and alignments."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.kernel_calls import HERE, Edge, Guarded, compiled_once
from teir.lower.copy_kernels import StreamRows
from teir.target import Isa

DRAWS = 60


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
def test_stream_rows(isa: Isa, element_bytes: int) -> None:
    """Every row arrives, and nothing beside the rows is written."""
    random = np.random.default_rng(element_bytes)
    kernel = StreamRows(element_bytes=element_bytes)
    compiled = compiled_once([kernel], isa)
    for number in range(DRAWS):
        row = int(random.integers(1, 300)) * element_bytes
        n, o = (int(random.integers(1, 5)) for _ in range(2))
        gaps = random.integers(0, 4, 2) * element_bytes
        in_n, out_n = (row + int(gap) for gap in gaps)
        steps = (row, n, in_n, out_n, o, n * in_n, n * out_n)
        edge = list(Edge)[number % len(Edge)]
        source = Guarded((o * n - 1) * in_n + row, edge)
        target = Guarded((o * n - 1) * out_n + row, edge)
        source.bytes[:] = random.integers(0, 256, len(source.bytes), np.uint8)
        target.bytes[:] = 0xAB
        expected = target.bytes.copy()
        for at in range(o * n):
            copied = source.bytes[at * in_n : at * in_n + row]
            expected[at * out_n : at * out_n + row] = copied
        compiled.call(kernel, steps, (source.address, target.address))
        np.testing.assert_array_equal(target.bytes, expected)
