"""What holds for every kernel on every instruction set: names, no calls out, any alignment."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    TYPES,
    Compiled,
    full_lanes,
    kernel_assembly,
    small_integers,
)
from teir.backends.llvm.emit_kernel import (
    emit_kernel,
    kernel_arguments,
    kernel_operands,
    kernel_symbol,
)
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.copy_kernels import TransposeCopy
from teir.lower.kernels import Elementwise, GemmBlock, Kernel, ProductSum
from teir.target import Isa

UNIT, STRIDED, BROADCAST = Access.UNIT, Access.STRIDED, Access.BROADCAST
COPIES = (
    (DataType.FP64, DataType.FP16),
    (DataType.FP64, DataType.BF16),
    (DataType.FP16, DataType.FP64),
    (DataType.FP32, DataType.C128),
)


def gemm(data_type: DataType, isa: Isa, access: Access, masked: bool) -> GemmBlock:
    lanes = full_lanes(isa, data_type)
    return GemmBlock(
        in_type=data_type,
        out_type=data_type,
        lanes=lanes,
        vectors=2,
        columns=2,
        a_access=access,
        c_access=access,
        masked=masked and lanes > 1,
    )


def kernels_of(data_type: DataType, isa: Isa) -> list[Kernel]:
    """Kernels that between them use every construct of the generators for one type."""
    lanes, narrow = full_lanes(isa, data_type), max(1, isa.vector_bytes // data_type.width)
    found: list[Kernel] = [
        gemm(data_type, isa, UNIT, True),
        gemm(data_type, isa, STRIDED, False),
        gemm(data_type, isa, STRIDED, True),
    ]
    for accesses in ((UNIT, UNIT), (STRIDED, BROADCAST, STRIDED), (UNIT, UNIT, UNIT, UNIT)):
        found.append(
            ProductSum(
                in_type=data_type,
                out_type=data_type,
                inputs=len(accesses) - 1,
                lanes=lanes,
                accesses=accesses,
            )
        )
    for operation, access in ((Operation.DIV, UNIT), (Operation.SUB, STRIDED)):
        found.append(
            Elementwise(
                operation=operation,
                in_type=data_type,
                out_type=data_type,
                lanes=narrow,
                accesses=(access,) * 3,
            )
        )
    return found


def conversions(isa: Isa) -> list[Kernel]:
    copies: list[Kernel] = [
        Elementwise(
            operation=Operation.COPY,
            in_type=source,
            out_type=target,
            lanes=max(1, isa.vector_bytes // max(source.width, target.width)),
            accesses=(UNIT, UNIT),
        )
        for source, target in COPIES
    ]
    transposes: list[Kernel] = [
        TransposeCopy(element_bytes=width, lanes=max(1, isa.vector_bytes // width))
        for width in (2, 4, 8, 16)
    ]
    transposes += [TransposeCopy(element_bytes=width, lanes=4, columns=11) for width in (4, 8)]
    return copies + transposes


@pytest.mark.parametrize("isa", list(Isa))
@pytest.mark.parametrize("data_type", [*TYPES, None])
def test_code_calls_nothing(isa: Isa, data_type: DataType | None) -> None:
    """LLVM falls back on library routines where it lacks an instruction; none can be resolved."""
    kernels = conversions(isa) if data_type is None else kernels_of(data_type, isa)
    for kernel in kernels:
        text = kernel_assembly(kernel, isa)
        assert not re.search(r"^\s+(callq?|bl|blr)\s", text, re.MULTILINE), kernel


def test_symbols_are_distinct_and_plain() -> None:
    kernels = [
        (kernel, isa)
        for isa in Isa
        for kernel in [k for t in TYPES for k in kernels_of(t, isa)] + conversions(isa)
    ]
    symbols = {kernel_symbol(kernel, isa) for kernel, isa in kernels}
    assert len(symbols) == len(set(kernels))
    assert all(re.fullmatch(r"[a-z0-9_]+", symbol) for symbol in symbols)


def test_text_depends_on_the_kernel_alone() -> None:
    kernel = gemm(DataType.BF16, Isa.AVX512, UNIT, True)
    assert emit_kernel(kernel, Isa.AVX512) == emit_kernel(kernel, Isa.AVX512)


def test_arguments_follow_the_documented_order() -> None:
    kernel = kernels_of(DataType.FP32, Isa.PLAIN)
    assert kernel_arguments(kernel[0]) == (
        *("k", "a_k", "b_k", "batch", "a_batch", "b_batch", "outer", "a_outer", "b_outer"),
        *("b_n", "c_n", "accumulate", "last_lanes", "a_m", "c_m", "b_ahead", "c_ahead"),
    )
    assert kernel_arguments(kernel[4]) == (
        *("m", "k", "batch", "accumulate", "m_stride0", "m_stride1", "m_stride2"),
        *("k_stride0", "k_stride1", "batch_stride0", "batch_stride1"),
    )
    assert kernel_operands(kernel[5]) == 4


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("masked", [False, True])
def test_odd_addresses(isa: Isa, data_type: DataType, masked: bool) -> None:
    """Operands and strides at odd byte addresses."""
    random = np.random.default_rng(4)
    kernel = gemm(data_type, isa, UNIT, masked)
    width, dtype = data_type.width, data_type.numpy_dtype()
    last = max(1, kernel.lanes - 1) if kernel.masked else kernel.lanes
    rows, k = kernel.lanes + last, 3
    memory = np.zeros(1 << 15, np.uint8)
    a = np.ndarray((k, rows), dtype, memory.data, 1, (rows * width + 3, width))
    b = np.ndarray((2, k), dtype, memory.data, 8193, (k * width + 1, width))
    c = np.ndarray((2, rows), dtype, memory.data, 16385, (rows * width + 5, width))
    for array in (a, b, c):
        array[...] = small_integers(random, array.shape, data_type)
    wide = np.complex128 if data_type.is_complex else np.float64
    wanted = (c.astype(wide) + b.astype(wide) @ a.astype(wide)).astype(dtype)
    arguments = (
        *(k, a.strides[0], width, 1, 0, 0, 1, 0, 0, b.strides[0], c.strides[0]),
        *(1, last, width, width, 0),
    )
    addresses = [memory.ctypes.data + start for start in (1, 8193, 16385)]
    Compiled([kernel], isa).call(kernel, arguments, addresses)
    np.testing.assert_array_equal(c.copy(), wanted)
