"""Transposing copies: every element width, tile side and remainder, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
)
from teir.backends.llvm.emit_short_transpose import emit_short_transpose_body
from teir.backends.llvm.emit_transpose import emit_transpose_body
from teir.lower.copy_kernels import ShortTranspose, TransposeCopy
from teir.passes.stepped_rows import TURNED_STEPS
from teir.target import Isa

_ASKED_TO_STORE = "i32 1, i32 2, i32 1)"
"""The end of a request for a line that is written soon."""


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [2, 4, 8, 16])
def test_transpose(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    full = max(1, isa.vector_bytes // element_bytes)
    kernels = [
        TransposeCopy(element_bytes=element_bytes, lanes=lanes)
        for lanes in (1, 2, 4, 8, 16, 32)
        if lanes <= full
    ]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        side = min(kernel.lanes, 16)
        sizes = {1, side, side + 1, 2 * side, 3 * side - 1}
        for m in sizes:
            for n in sizes:
                for edge in Edge:
                    check(compiled, kernel, m, n, edge, random)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [2, 4, 8])
@pytest.mark.parametrize("grouped", [2, 4])
def test_rows_in_groups(isa: Isa, element_bytes: int, grouped: int) -> None:
    random = np.random.default_rng(element_bytes)
    full = max(1, isa.vector_bytes // element_bytes)
    kernels = [
        TransposeCopy(element_bytes=element_bytes, lanes=lanes, grouped=grouped)
        for lanes in {grouped, 4, 8, 16}
        if lanes <= full
    ]
    if not kernels:
        pytest.skip("vectors hold no group")
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for groups in (1, 3, 2 * kernel.lanes // grouped, 2 * kernel.lanes // grouped + 1):
            for n in (1, kernel.lanes, 2 * kernel.lanes + 3):
                for edge in Edge:
                    check_groups(compiled, kernel, groups, n, edge, random)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [4, 8, 16])
def test_rows_that_lie_alike_in_their_lines(isa: Isa, element_bytes: int) -> None:
    """Wherever they begin, elements or less behind the start of a line."""
    random = np.random.default_rng(element_bytes)
    side = isa.vector_bytes // element_bytes
    if side < 2:
        pytest.skip("vectors hold no square")
    kernel = TransposeCopy(element_bytes=element_bytes, lanes=side, aligns=True)
    compiled = compiled_once([kernel], isa)
    for m in (1, side, 2 * side + 1):
        for n in (side, 4 * side, 5 * side - 1, 6 * side + 1):
            gap = -(n * element_bytes) % 64
            for edge in Edge:
                check(compiled, kernel, m, n, edge, random, gap)


@pytest.mark.parametrize("isa", [isa for isa in HERE if isa.has_masks])
@pytest.mark.parametrize("element_bytes", [2, 4, 8])
@pytest.mark.parametrize("step", TURNED_STEPS)
def test_what_lies_between_elements_is_not_read(isa: Isa, element_bytes: int, step: int) -> None:
    random = np.random.default_rng(step)
    kernels = [
        TransposeCopy(element_bytes=element_bytes, lanes=lanes, step=step)
        for lanes in (4, 8, 16)
        if lanes * element_bytes <= isa.vector_bytes
    ]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for m in (1, kernel.lanes, 3 * kernel.lanes - 1):
            for n in (kernel.lanes - 1, 2 * kernel.lanes + 1):
                for edge in Edge:
                    check(compiled, kernel, m, n, edge, random)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [4, 8])
def test_few_columns_turned_whole(isa: Isa, element_bytes: int) -> None:
    """Every count of columns, with less than a line of each, whole lines and a last one in part."""
    random = np.random.default_rng(element_bytes)
    per_line = 64 // element_bytes
    kernels = [
        TransposeCopy(element_bytes=element_bytes, lanes=1, columns=columns)
        for columns in range(1, 17)
    ]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for m in (1, per_line - 1, per_line, per_line + 1, 3 * per_line):
            for edge in Edge:
                for gap in (0, 5):
                    check(compiled, kernel, m, kernel.columns, edge, random, gap)


def check_groups(
    compiled: Compiled,
    kernel: TransposeCopy,
    groups: int,
    n: int,
    edge: Edge,
    random: np.random.Generator,
) -> None:
    width, grouped = kernel.element_bytes, kernel.grouped
    m, out_row = groups * grouped, n * width + 5
    in_n, out_m = m * width + 3, grouped * out_row + 7
    source = Guarded((n - 1) * in_n + m * width, edge)
    source.bytes[:] = random.integers(0, 256, source.bytes.size, np.uint8)
    target = Guarded((groups - 1) * out_m + (grouped - 1) * out_row + n * width, edge)
    target.bytes[:] = 0x3C
    element = np.dtype(f"V{width}")
    wanted = target.bytes.copy()
    shape = (groups, grouped, n)
    rows = np.ndarray(shape, element, source.bytes.data, 0, (grouped * width, width, in_n))
    np.ndarray(shape, element, wanted.data, 0, (out_m, out_row, width))[...] = rows
    compiled.call(kernel, (m, n, in_n, out_m, out_row), (source.address, target.address))
    np.testing.assert_array_equal(target.bytes, wanted, str((kernel, groups, n)))


def check(
    compiled: Compiled,
    kernel: TransposeCopy,
    m: int,
    n: int,
    edge: Edge,
    random: np.random.Generator,
    gap: int = 5,
) -> None:
    """``gap``: bytes between rows of the output."""
    width = kernel.element_bytes
    along = kernel.step * width
    in_n, out_m = m * along + 3, n * width + gap
    source = Guarded((n - 1) * in_n + (m - 1) * along + width, edge)
    source.bytes[:] = random.integers(0, 256, source.bytes.size, np.uint8)
    target = Guarded((m - 1) * out_m + n * width, edge)
    target.bytes[:] = 0x3C
    element = np.dtype(f"V{width}")
    wanted = target.bytes.copy()
    rows = np.ndarray((m, n), element, source.bytes.data, 0, (along, in_n))
    np.ndarray((m, n), element, wanted.data, 0, (out_m, width))[...] = rows
    compiled.call(kernel, (m, n, in_n, out_m), (source.address, target.address))
    np.testing.assert_array_equal(target.bytes, wanted, str((kernel, m, n)))


@pytest.mark.parametrize("isa", [Isa.AMX, Isa.AVX512_INTEL, Isa.AVX512_ZEN5, Isa.AVX512, Isa.AVX2])
def test_lines_are_asked_for_to_store_to_where_stores_wait(isa: Isa) -> None:
    turned = TransposeCopy(element_bytes=4, lanes=8)
    apart, together = (
        ShortTranspose(element_bytes=4, side=3, lanes=8, joins=joins) for joins in (False, True)
    )
    asked = [
        emit_transpose_body(turned, isa).text().count(_ASKED_TO_STORE),
        emit_short_transpose_body(apart, isa).text().count(_ASKED_TO_STORE),
        emit_short_transpose_body(together, isa).text().count(_ASKED_TO_STORE),
    ]
    assert asked == ([8, 3, 0] if isa.waits_to_store else [0, 0, 0])
