"""What the cell says after every block that asks, and that those blocks compute the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from backends.llvm.kernel_calls import HERE, Compiled, kernel_assembly
from teir.backends.llvm.emit_gemm import emit_gemm_body
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.asking_kernels import CELL_BYTES, BeginAsking
from teir.lower.kernels import GemmBlock
from teir.target import LINE_BYTES, Isa

needs_avx512 = pytest.mark.skipif(Isa.AVX512 not in HERE, reason="needs AVX-512")
BEGIN = BeginAsking()


def block(data_type: DataType, vectors: int, columns: int, *, asks: int = 1) -> GemmBlock:
    return GemmBlock(
        in_type=data_type,
        out_type=data_type,
        lanes=64 // data_type.width,
        vectors=vectors,
        columns=columns,
        a_access=Access.UNIT,
        c_access=Access.UNIT,
        masked=False,
        asks=asks,
    )


def lines(begin: int, run_bytes: int, runs: tuple[tuple[int, int], ...]) -> Iterator[int]:
    """The lines of a region in the order they are asked for."""
    (m, m_step), (n, n_step) = runs
    for at_n, at_m in product(range(n), range(m)):
        start = begin + at_n * n_step + at_m * m_step
        yield from range(start // LINE_BYTES * LINE_BYTES, start + run_bytes, LINE_BYTES)


def memory_of_cells(count: int) -> tuple[np.ndarray[Any, Any], int]:
    """The words of some cells, one after the other, and where the first one lies."""
    memory = np.zeros((count + 1) * CELL_BYTES, np.uint8)
    at = -(-memory.ctypes.data // CELL_BYTES) * CELL_BYTES
    return memory[at - memory.ctypes.data :][: count * CELL_BYTES].view(np.int64), at


@needs_avx512
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize(
    ("run_bytes", "runs"),
    [
        (192, ((5, 4096), (3, 1 << 20))),
        (1000, ((1, 0), (1, 0))),
        (64, ((7, 64), (2, 100))),
        (8, ((40, 24), (1, 0))),
    ],
)
@pytest.mark.parametrize(("offset", "asks"), [(0, 1), (16, 1), (56, 1), (16, 3)])
def test_passes_ask_for_as_many_lines_each(
    data_type: DataType, run_bytes: int, runs: tuple[tuple[int, int], ...], offset: int, asks: int
) -> None:
    """Through several blocks, until none is left; the sums are those of a block that asks not."""
    asking, plain = (block(data_type, 2, 8, asks=count) for count in (asks, 0))
    compiled = Compiled([BEGIN, asking, plain], Isa.AVX512)
    cell, cell_at = memory_of_cells(1)
    begin = (1 << 40) + offset
    compiled.call(BEGIN, (run_bytes, *runs[0], *runs[1]), [begin, cell_at, cell_at])
    expected, asked = list(lines(begin, run_bytes, runs)), 0
    assert cell[0] == expected[0]
    for k, batch, outer in ((7, 1, 1), (2, 3, 1), (1, 2, 2), (4, 2, 3), (90, 1, 2)):
        _compare(compiled, (asking, plain), (k, batch, outer), cell_at)
        asked = min(len(expected), asked + asks * (k // 2 * batch * outer))
        assert cell[0] == expected[max(asked - 1, 0)] + LINE_BYTES * (asked > 0)


@needs_avx512
@pytest.mark.parametrize("asks", [1, 2, 3])
def test_the_region_that_follows_is_asked_for_next(asks: int) -> None:
    """Five lines of one region, then seven of the other, none of both twice."""
    asking, plain = (block(DataType.FP64, 2, 8, asks=count) for count in (asks, 0))
    compiled = Compiled([BEGIN, asking, plain], Isa.AVX512)
    cells, first = memory_of_cells(2)
    second, regions = first + CELL_BYTES, (1 << 40, 1 << 41)
    compiled.call(BEGIN, (7 * LINE_BYTES, 1, 0, 1, 0), [regions[1], second, second])
    compiled.call(BEGIN, (LINE_BYTES, 5, 4096, 1, 0), [regions[0], first, second])
    places = [regions[0] + line * 4096 for line in range(5)]
    for passes in (1, 2, 1, 3):
        before = _asked(cells, places)
        _compare(compiled, (asking, plain), (2 * passes, 1, 1), first)
        assert _asked(cells, places) == min(12, before + asks * passes)


def _asked(cells: np.ndarray[Any, Any], places: list[int]) -> int:
    """The lines that were asked for of both regions, from the places both cells say."""
    first, second = int(cells[0]), int(cells[CELL_BYTES // 8])
    whole = 0 if first == places[0] else places.index(first - LINE_BYTES) + 1
    return whole + (second - (1 << 41)) // LINE_BYTES


def _compare(
    compiled: Compiled,
    kernels: tuple[GemmBlock, GemmBlock],
    reductions: tuple[int, int, int],
    cell_at: int,
) -> None:
    kernel, (k, batch, outer) = kernels[0], reductions
    random, depth = np.random.default_rng(k), k * batch * outer
    kind, width = kernel.in_type.numpy_dtype(), kernel.in_type.width
    rows = kernel.vectors * kernel.lanes
    a = random.standard_normal((depth, rows)).astype(kind)
    b = random.standard_normal((kernel.columns, depth)).astype(kind)
    results = [np.full((kernel.columns, rows), 3, kind) for _ in kernels]
    a_k, b_n = rows * width, depth * width
    sums = (k, a_k, width, batch, k * a_k, k * width, outer)
    places = (batch * k * a_k, batch * k * width, b_n, rows * width, 1, kernel.lanes, width, width)
    for one, c in zip(kernels, results, strict=True):
        operands = [a.ctypes.data, b.ctypes.data, c.ctypes.data, *([cell_at] if one.asks else [])]
        compiled.call(one, (*sums, *places), operands)
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], 3 + b @ a, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "kernel",
    [block(DataType.FP64, 1, 8), replace(block(DataType.FP64, 2, 8), depth=4)],
    ids=["one vector", "no loop"],
)
def test_blocks_that_cannot_ask_are_refused(kernel: GemmBlock) -> None:
    with pytest.raises(ValueError, match="a block that asks"):
        emit_gemm_body(kernel, Isa.AVX512)


@pytest.mark.parametrize(("vectors", "columns"), [(4, 6), (3, 8), (2, 12)])
def test_sums_stay_in_registers(vectors: int, columns: int) -> None:
    lines = kernel_assembly(block(DataType.FP64, vectors, columns), Isa.AVX512_ZEN5).splitlines()
    assert not any("mm" in line and "(%rsp)" in line and "mov" in line for line in lines)
    assert sum("prefetcht0" in line for line in lines) >= 2
