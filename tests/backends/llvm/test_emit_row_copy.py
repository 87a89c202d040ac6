"""Copies of short rows: every size of a piece and every length of a row, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.copy_calls import GAPS, Permutation, check_copy
from backends.llvm.kernel_calls import HERE, compiled_once
from teir.lower.copy_kernels import MOST_PIECES, RowCopy
from teir.target import Isa


@pytest.mark.parametrize("isa", HERE)
def test_rows_shorter_than_a_vector(isa: Isa) -> None:
    """One piece that is the row, and two that overlap or do not."""
    random = np.random.default_rng(7)
    sizes = [2 << more for more in range(isa.vector_bytes.bit_length()) if 2 << more <= 32]
    kernels = [RowCopy(piece_bytes=size, pieces=pieces) for size in sizes for pieces in (1, 2)]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        size = kernel.piece_bytes
        for row_bytes in (size,) if kernel.pieces == 1 else (size + 2, 2 * size - 1, 2 * size):
            check_copy(compiled, kernel, rows(random, row_bytes), 0, random)


@pytest.mark.parametrize("isa", HERE)
def test_rows_of_vectors(isa: Isa) -> None:
    random = np.random.default_rng(9)
    vector = isa.vector_bytes
    counts = range(1, MOST_PIECES + 1)
    kernels = [RowCopy(piece_bytes=vector, pieces=pieces) for pieces in counts]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        end = kernel.pieces * vector
        for row_bytes in (end,) if kernel.pieces == 1 else (end - vector + 1, end - 3, end):
            check_copy(compiled, kernel, rows(random, row_bytes), 0, random)


def rows(random: np.random.Generator, row_bytes: int) -> Permutation:
    """Of bytes: some rows of some o, each time with gaps of its own, o inside now and then."""
    n, o = int(random.integers(1, 12)), int(random.integers(1, 4))
    strides = []
    for is_outer in random.integers(0, 2, 2):
        gap, other = (int(one) for one in random.choice(GAPS, 2))
        row = row_bytes + gap
        far = row * (n if is_outer else o) + other
        strides.append((far, row) if is_outer else (row, far))
    (in_o, in_n), (out_o, out_n) = strides
    return Permutation(
        extents=(o, n, row_bytes),
        source_strides=(in_o, in_n, 1),
        target_strides=(out_o, out_n, 1),
        unit_bytes=1,
        arguments=(row_bytes, n, in_n, out_n, o, in_o, out_o),
    )
