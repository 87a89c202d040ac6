"""The general contraction kernel against exact integers, the register block, and page edges."""

from __future__ import annotations

from time import process_time

import msgspec
import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    PAIRS,
    TYPES,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    full_lanes,
    small_integers,
    strided,
)
from teir.backends.llvm.compile_ir import compile_object, module_text
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_symbol
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.kernels import GemmBlock, ProductSum
from teir.target import Isa

UNIT, STRIDED, BROADCAST = Access.UNIT, Access.STRIDED, Access.BROADCAST
ACCESSES = (
    (UNIT, UNIT),
    (STRIDED, STRIDED),
    (UNIT, BROADCAST, UNIT),
    (BROADCAST, UNIT, UNIT),
    (STRIDED, UNIT, STRIDED),
    (UNIT, UNIT, BROADCAST, UNIT),
    (UNIT, STRIDED, UNIT, BROADCAST, UNIT),
)

WHOLE_ROWS = (DataType.FP64, DataType.FP32, DataType.C64, DataType.C128)


def product_sum(
    in_type: DataType, out_type: DataType, isa: Isa, accesses: tuple[Access, ...]
) -> ProductSum:
    return ProductSum(
        in_type=in_type,
        out_type=out_type,
        inputs=len(accesses) - 1,
        lanes=full_lanes(isa, in_type),
        accesses=accesses,
    )


def check(
    compiled: Compiled, kernel: ProductSum, m: int, k: int, batch: int, accumulate: int, edge: Edge
) -> None:
    random = np.random.default_rng(m * 100 + k)
    views, memories, strides = [], [], []
    for number, access in enumerate(kernel.accesses):
        output = number == kernel.inputs
        data_type = kernel.out_type if output else kernel.in_type
        width = data_type.width
        m_stride = {UNIT: width, STRIDED: 2 * width, BROADCAST: 0}[access]
        k_stride = 0 if output else m_stride * m + width * (number + 1)
        batch_stride = 0 if output else k_stride * k
        depth = () if output else ((batch, batch_stride), (k, k_stride))
        axes = ((m, m_stride), *depth)
        size = sum((extent - 1) * stride for extent, stride in axes) + width
        memory = Guarded(size, edge)
        memory.bytes[:] = 0x5A
        view = strided(memory.bytes, data_type, 0, axes)
        view[...] = np.sign(small_integers(random, view.shape, data_type).real)
        if data_type.is_complex:
            view[...] *= 1 + 1j
        memories.append(memory)
        views.append(view)
        strides.append((m_stride, k_stride, batch_stride))
    wide = np.complex128 if kernel.in_type.is_complex else np.float64
    total = np.ones(views[0].shape, wide)
    for view in views[:-1]:
        total = total * view.astype(wide)
    start = views[-1].astype(wide) if accumulate else 0
    wanted = (start + total.sum(axis=(1, 2))).astype(kernel.out_type.numpy_dtype())
    between = memories[-1].bytes.copy()
    strided(between, kernel.out_type, 0, ((m, strides[-1][0]),))[...] = wanted
    arguments = (
        *(m, k, batch, accumulate),
        *(m_stride for m_stride, _, _ in strides),
        *(k_stride for _, k_stride, _ in strides[:-1]),
        *(batch_stride for _, _, batch_stride in strides[:-1]),
    )
    compiled.call(kernel, arguments, [memory.address for memory in memories])
    np.testing.assert_array_equal(memories[-1].bytes, between, str((kernel, m, k, batch)))


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize(("in_type", "out_type"), PAIRS)
def test_sums_are_exact_and_stay_inside(isa: Isa, in_type: DataType, out_type: DataType) -> None:
    kernels = [product_sum(in_type, out_type, isa, accesses) for accesses in ACCESSES]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        lanes = kernel.lanes
        sizes = ((1, 1, 1), (lanes + 1, 3, 1), (2 * lanes - 1, 2, 2), (6 * lanes + 1, 1, 3))
        for number, (m, k, batch) in enumerate(sizes):
            for edge in Edge:
                check(compiled, kernel, m, k, batch, number % 2, edge)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("data_type", WHOLE_ROWS)
def test_sums_of_whole_rows_are_exact_and_stay_inside(
    isa: Isa, inputs: int, data_type: DataType
) -> None:
    plain = product_sum(data_type, data_type, isa, (UNIT,) * (inputs + 1))
    kernels = [msgspec.structs.replace(plain, vectors=count) for count in (2, 3, 7)]
    compiled = compiled_once(kernels, isa)
    for kernel, vectors in zip(kernels, (2, 3, 7), strict=True):
        whole = vectors * kernel.lanes
        sizes = ((whole, 1, 1), (whole - kernel.lanes + 1, 3, 2), (whole - 1, 2, 3))
        for number, (m, k, batch) in enumerate(sizes):
            for edge in Edge:
                check(compiled, kernel, max(m, kernel.lanes), k, batch, number % 2, edge)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", WHOLE_ROWS)
def test_whole_rows_have_the_bits_of_pieces(isa: Isa, data_type: DataType) -> None:
    plain = product_sum(data_type, data_type, isa, (UNIT,) * 3)
    m, k, batch, width = 3 * plain.lanes - plain.lanes // 2, 9, 4, data_type.width
    whole = msgspec.structs.replace(plain, vectors=-(-m // plain.lanes))
    random = np.random.default_rng(11)
    one, other = (
        random.standard_normal((batch, k, m)).astype(data_type.numpy_dtype()) for _ in range(2)
    )
    results = [np.full(m, np.nan, one.dtype) for _ in range(2)]
    compiled = compiled_once([plain, whole], isa)
    for kernel, out in zip((plain, whole), results, strict=True):
        strides = (width, width, width, m * width, m * width, k * m * width, k * m * width)
        addresses = [array.ctypes.data for array in (one, other, out)]
        compiled.call(kernel, (m, k, batch, 0, *strides), addresses)
    np.testing.assert_array_equal(results[0].view(np.uint8), results[1].view(np.uint8))
    np.testing.assert_allclose(results[0], (one * other).sum(axis=(0, 1)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", TYPES)
def test_same_bits_as_the_register_block(isa: Isa, data_type: DataType) -> None:
    random = np.random.default_rng(8)
    lanes, k, batch = full_lanes(isa, data_type), 5, 3
    dtype, width = data_type.numpy_dtype(), data_type.width

    def wild(*shape: int) -> np.ndarray:
        numbers = random.standard_normal(shape)
        turned = numbers + 1j * random.standard_normal(shape)
        return (turned if data_type.is_complex else numbers).astype(dtype)

    a, b, start = wild(batch, k, lanes), wild(batch, k), wild(lanes)
    block = GemmBlock(
        in_type=data_type,
        out_type=data_type,
        lanes=lanes,
        vectors=1,
        columns=1,
        a_access=UNIT,
        c_access=UNIT,
        masked=False,
    )
    general = product_sum(data_type, data_type, isa, (UNIT, BROADCAST, UNIT))
    compiled = Compiled([block, general], isa)
    one, other = start.copy(), start.copy()
    steps = (lanes * width, width), (k * lanes * width, k * width)
    compiled.call(
        block,
        (k, *steps[0], batch, *steps[1], 1, 0, 0, 0, 0, 1, lanes, width, width, 0),
        [array.ctypes.data for array in (a, b, one)],
    )
    compiled.call(
        general,
        (lanes, k, batch, 1, width, 0, width, *steps[0], *steps[1]),
        [array.ctypes.data for array in (a, b, other)],
    )
    np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


@pytest.mark.parametrize("isa", HERE)
def test_one_input_is_not_a_product_so_tf32_keeps_all_bits(isa: Isa) -> None:
    kernel = product_sum(DataType.TF32, DataType.TF32, isa, (UNIT, UNIT))
    numbers = np.float32([1 + 2.0**-23] * 5)
    out = np.zeros(5, np.float32)
    addresses = (numbers.ctypes.data, out.ctypes.data)
    Compiled([kernel], isa).call(kernel, (5, 1, 1, 0, 4, 4, 0, 0), addresses)
    np.testing.assert_array_equal(out, numbers)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32, DataType.BF16])
def test_products_of_many_inputs_are_exact_and_stay_inside(isa: Isa, data_type: DataType) -> None:
    accesses = (UNIT, STRIDED, BROADCAST) * 50 + (UNIT,)
    kernel = product_sum(data_type, data_type, isa, accesses)
    compiled = compiled_once([kernel], isa)
    for m, k, batch in ((1, 2, 1), (2 * kernel.lanes + 1, 2, 2)):
        for edge in Edge:
            check(compiled, kernel, m, k, batch, 1, edge)


def test_the_time_to_compile_does_not_grow_with_the_square_of_the_inputs() -> None:
    kernel = product_sum(DataType.FP32, DataType.FP32, HERE[-1], (STRIDED,) * 1000 + (UNIT,))
    text = module_text([emit_kernel(kernel, HERE[-1])], HERE[-1])
    begin = process_time()
    compile_object(text, HERE[-1], (f"{kernel_symbol(kernel, HERE[-1])}_node",))
    assert process_time() - begin < 5
