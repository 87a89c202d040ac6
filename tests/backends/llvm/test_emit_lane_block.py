"""Products along the lanes of all three operands: exact integers inside page edges."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    PAIRS,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    full_lanes,
    kernel_assembly,
    small_integers,
    strided,
)
from teir.backends.llvm.emit_lane_block import emit_lane_block_body
from teir.dtypes import DataType
from teir.lower.kernels import LaneBlock
from teir.target import Isa

BLOCKS = ((1, 2), (3, 1), (2, 2), (3, 3))


def lane_block(
    types: tuple[DataType, DataType], isa: Isa, rows: int, columns: int, one_loop: bool
) -> LaneBlock:
    return LaneBlock(
        in_type=types[0],
        out_type=types[1],
        lanes=full_lanes(isa, types[0]),
        rows=rows,
        columns=columns,
        one_loop=one_loop,
    )


def check(
    compiled: Compiled, kernel: LaneBlock, m: int, depth: tuple[int, int, int], edge: Edge
) -> None:
    """``depth`` is k, batch, outer; rows of every operand lie some elements apart."""
    random = np.random.default_rng(m + sum(depth))
    k, batch, outer = depth
    accumulate = m % 2
    views, memories, steps = [], [], []
    for tall in (kernel.rows, kernel.columns):
        row = (m + 1) * kernel.in_type.width
        extents = (tall, outer, batch, k)
        strides = [row]
        for extent in reversed(extents[1:]):
            strides.insert(0, strides[0] * extent)
        axes = (*zip(extents, strides, strict=True), (m, kernel.in_type.width))
        memory = Guarded(
            sum((extent - 1) * stride for extent, stride in axes) + kernel.in_type.width, edge
        )
        memory.bytes[:] = 0x5A
        view = strided(memory.bytes, kernel.in_type, 0, axes)
        view[...] = np.sign(small_integers(random, view.shape, kernel.in_type).real)
        views.append(view)
        memories.append(memory)
        steps.append(strides)
    width = kernel.out_type.width
    c_column = (m + 2) * width
    c_row = c_column * kernel.columns
    axes = ((kernel.rows, c_row), (kernel.columns, c_column), (m, width))
    memory = Guarded(sum((extent - 1) * stride for extent, stride in axes) + width, edge)
    memory.bytes[:] = 0x5A
    out = strided(memory.bytes, kernel.out_type, 0, axes)
    out[...] = small_integers(random, out.shape, kernel.out_type)
    wide = np.complex128 if kernel.in_type.is_complex else np.float64
    a, b = (view.astype(wide) for view in views)
    wanted = np.einsum("rxykm,cxykm->rcm", a, b) + out.astype(wide) * accumulate
    between = memory.bytes.copy()
    strided(between, kernel.out_type, 0, axes)[...] = wanted.astype(out.dtype)
    (a_row, a_outer, a_batch, a_k), (b_column, b_outer, b_batch, b_k) = steps
    arguments = (
        *(m, k, a_k, b_k, batch, a_batch, b_batch, outer, a_outer, b_outer),
        *(a_row, b_column, c_row, c_column, accumulate),
    )
    compiled.call(kernel, arguments, [one.address for one in (*memories, memory)])
    np.testing.assert_array_equal(memory.bytes, between, str((kernel, m, depth)))


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("types", PAIRS)
def test_sums_are_exact_and_stay_inside(isa: Isa, types: tuple[DataType, DataType]) -> None:
    kernels = [lane_block(types, isa, *block, place % 2 == 1) for place, block in enumerate(BLOCKS)]
    compiled = compiled_once(kernels, isa)
    full = full_lanes(isa, types[0])
    sizes = (1, full, full + 1, 3 * full - 1)
    for kernel, (m, depth), edge in product(
        kernels, zip(sizes, ((1, 1, 1), (3, 1, 1), (2, 2, 1), (1, 3, 2)), strict=True), Edge
    ):
        check(compiled, kernel, m, (depth[0], 1, 1) if kernel.one_loop else depth, edge)


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize("block", [(5, 5), (4, 4), (8, 1), (1, 8)])
@pytest.mark.parametrize("one_loop", [False, True])
def test_accumulators_stay_in_registers(
    data_type: DataType, block: tuple[int, int], one_loop: bool
) -> None:
    kernel = lane_block((data_type, data_type), Isa.AVX512, *block, one_loop)
    text = kernel_assembly(kernel, Isa.AVX512)
    assert not [line for line in text.splitlines() if "zmm" in line and "(%rsp)" in line]


@pytest.mark.parametrize("isa", [Isa.AMX, Isa.AVX512_INTEL, Isa.AVX512_ZEN5, Isa.AVX512, Isa.AVX2])
def test_lines_are_asked_for_to_store_to_where_stores_wait(isa: Isa) -> None:
    kernel = lane_block((DataType.FP32, DataType.FP32), isa, 2, 2, one_loop=True)
    asks = "i32 1, i32 2, i32 1)" in emit_lane_block_body(kernel, isa).text()
    assert asks == isa.waits_to_store
