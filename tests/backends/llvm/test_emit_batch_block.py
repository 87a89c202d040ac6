"""Batches of small products: exact integers inside page edges, the register block's bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from msgspec.structs import replace

from backends.llvm.kernel_calls import (
    HERE,
    PAIRS,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    full_lanes,
    small_integers,
    strided,
)
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.kernels import BatchBlock, GemmBlock
from teir.target import Isa


@dataclass(frozen=True)
class Shape:
    """Rows, columns and depth of one product; elements between the columns of every operand."""

    m: int
    n: int
    k: int
    gap: int
    k_first: bool
    """B is adjacent along k, else along its columns."""


SHAPES = (
    Shape(1, 1, 1, 0, True),
    Shape(3, 5, 2, 0, True),
    Shape(4, 4, 4, 0, False),
    Shape(5, 3, 3, 2, True),
)


def batch_block(
    types: tuple[DataType, DataType], isa: Isa, shape: Shape, from_zero: bool
) -> BatchBlock:
    in_width, out_width = types[0].width, types[1].width
    full = full_lanes(isa, types[0])
    lanes = min(full, 1 << (shape.m - 1).bit_length())
    near, far = in_width, (max(shape.k, shape.n) + shape.gap) * in_width
    return BatchBlock(
        in_type=types[0],
        out_type=types[1],
        lanes=lanes,
        vectors=-(-shape.m // lanes),
        masked=shape.m % lanes > 0,
        columns=shape.n,
        columns_at_once=2,
        depth=shape.k,
        a_k=(shape.m + shape.gap) * in_width,
        b_k=near if shape.k_first else far,
        b_n=far if shape.k_first else near,
        c_n=(shape.m + shape.gap) * out_width,
        from_zero=from_zero,
    )


def check(compiled: Compiled, kernel: BatchBlock, shape: Shape, batch: int, edge: Edge) -> None:
    random = np.random.default_rng(batch)
    operands = (
        (kernel.in_type, ((shape.k, kernel.a_k), (shape.m, kernel.in_type.width))),
        (kernel.in_type, ((shape.n, kernel.b_n), (shape.k, kernel.b_k))),
        (kernel.out_type, ((shape.n, kernel.c_n), (shape.m, kernel.out_type.width))),
    )
    views, memories, steps = [], [], []
    for data_type, axes in operands:
        reach = sum((extent - 1) * stride for extent, stride in axes) + data_type.width
        step = reach + shape.gap * data_type.width
        memory = Guarded((batch - 1) * step + reach, edge)
        memory.bytes[:] = 0x5A
        view = strided(memory.bytes, data_type, 0, ((batch, step), *axes))
        view[...] = np.sign(small_integers(random, view.shape, data_type).real)
        views.append(view)
        memories.append(memory)
        steps.append(step)
    wide = np.complex128 if kernel.in_type.is_complex else np.float64
    a, b, c = (view.astype(wide) for view in views)
    wanted = np.einsum("bkm,bnk->bnm", a, b) + (0 if kernel.from_zero else c)
    between = memories[-1].bytes.copy()
    axes = ((batch, steps[-1]), *operands[-1][1])
    target = strided(between, kernel.out_type, 0, axes)
    target[...] = wanted.astype(target.dtype)
    last = shape.m - (kernel.vectors - 1) * kernel.lanes
    compiled.call(kernel, (batch, *steps, last), [memory.address for memory in memories])
    np.testing.assert_array_equal(memories[-1].bytes, between, str((kernel, batch)))


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("types", PAIRS)
def test_sums_are_exact_and_stay_inside(isa: Isa, types: tuple[DataType, DataType]) -> None:
    full = full_lanes(isa, types[0])
    shapes = (*SHAPES, Shape(full + 1, 2, 2, 1, False))
    kernels = [
        batch_block(types, isa, shape, number % 2 == 0) for number, shape in enumerate(shapes)
    ]
    compiled = compiled_once(kernels, isa)
    for kernel, shape in zip(kernels, shapes, strict=True):
        for batch in (1, 3):
            for edge in Edge:
                check(compiled, kernel, shape, batch, edge)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.BF16])
def test_same_bits_as_the_register_block(isa: Isa, data_type: DataType) -> None:
    random = np.random.default_rng(8)
    lanes, k = full_lanes(isa, data_type), 9
    width, dtype = data_type.width, data_type.numpy_dtype()
    a, b = (random.standard_normal(shape).astype(dtype) for shape in ((k, lanes), (k,)))
    start = random.standard_normal(lanes).astype(dtype)
    small = replace(
        batch_block((data_type, data_type), isa, Shape(lanes, 1, k, 0, True), from_zero=False),
        columns_at_once=1,
    )
    block = GemmBlock(
        in_type=data_type,
        out_type=data_type,
        lanes=lanes,
        vectors=1,
        columns=1,
        a_access=Access.UNIT,
        c_access=Access.UNIT,
        masked=False,
    )
    compiled = Compiled([small, block], isa)
    one, other = start.copy(), start.copy()
    compiled.call(small, (1, 0, 0, 0, lanes), [array.ctypes.data for array in (a, b, one)])
    compiled.call(
        block,
        (k, lanes * width, width, 1, 0, 0, 1, 0, 0, 0, 0, 1, lanes, width, width),
        [array.ctypes.data for array in (a, b, other)],
    )
    np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))
