"""Element-wise kernels: every operation, type, access and remainder against NumPy."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from msgspec.structs import replace

from backends.llvm.kernel_calls import (
    HERE,
    TYPES,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    small_integers,
    strided,
)
from teir.backends.llvm.emit_kernel import emit_kernel
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.kernels import Elementwise
from teir.target import Isa

UNIT, STRIDED, BROADCAST = Access.UNIT, Access.STRIDED, Access.BROADCAST
NUMPY = {
    Operation.ADD: np.add,
    Operation.SUB: np.subtract,
    Operation.MUL: np.multiply,
    Operation.DIV: np.divide,
    Operation.MIN: np.minimum,
    Operation.MAX: np.maximum,
}
ORDERED = (Operation.MIN, Operation.MAX, Operation.RELU)


def elementwise(
    operation: Operation,
    isa: Isa,
    accesses: tuple[Access, ...],
    in_type: DataType,
    out_type: DataType | None = None,
) -> Elementwise:
    out_type = out_type or in_type
    lanes = max(1, isa.vector_bytes // max(in_type.width, out_type.width))
    return Elementwise(
        operation=operation, in_type=in_type, out_type=out_type, lanes=lanes, accesses=accesses
    )


def run(
    compiled: Compiled,
    kernel: Elementwise,
    m: int,
    n: int,
    edge: Edge,
    random: np.random.Generator,
) -> tuple[list[np.ndarray], np.ndarray]:
    """The inputs and the output of one call; bytes between output elements must not change."""
    types = [kernel.in_type] * (len(kernel.accesses) - 1) + [kernel.out_type]
    memories, views, m_strides, n_strides = [], [], [], []
    for data_type, access in zip(types, kernel.accesses, strict=True):
        width = data_type.width
        m_stride = {UNIT: width, STRIDED: 3 * width, BROADCAST: 0}[access]
        n_stride = m_stride * m + width
        size = (m - 1) * m_stride + (n - 1) * n_stride + width
        memory = Guarded(size, edge)
        memory.bytes[:] = 0xA5
        view = strided(memory.bytes, data_type, 0, ((n, n_stride), (m, m_stride)))
        view[...] = small_integers(random, view.shape, data_type)
        memories.append(memory)
        views.append(view)
        m_strides.append(m_stride)
        n_strides.append(n_stride)
    inputs = [view.copy() for view in views[:-1]]
    if kernel.operation is Operation.DIV:
        views[1][...] = np.where(inputs[1] == 0, 4, inputs[1])
        inputs[1] = views[1].copy()
    before = memories[-1].bytes.copy()
    addresses = [memory.address for memory in memories]
    compiled.call(kernel, (m, n, *m_strides, *n_strides), addresses)
    result = views[-1].copy()
    strided(before, kernel.out_type, 0, ((n, n_strides[-1]), (m, m_strides[-1])))[...] = result
    np.testing.assert_array_equal(memories[-1].bytes, before, "a byte between rows changed")
    return inputs, result


def expected(kernel: Elementwise, inputs: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    out = kernel.out_type.numpy_dtype()
    wide = [tile.astype(kernel.in_type.accumulator.numpy_dtype()) for tile in inputs]
    match kernel.operation:
        case Operation.ZERO:
            return np.zeros(shape, out)
        case Operation.COPY:
            return inputs[0].astype(out)
        case Operation.RELU:
            return np.maximum(wide[0], 0).astype(out)
        case operation:
            return NUMPY[operation](*wide).astype(out)


def operations_of(data_type: DataType) -> list[Operation]:
    chosen = [op for op in Operation if op is not Operation.CONTRACTION]
    return [op for op in chosen if not (data_type.is_complex and op in ORDERED)]


def operand_count(operation: Operation) -> int:
    return {Operation.ZERO: 1, Operation.COPY: 2, Operation.RELU: 2}.get(operation, 3)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", TYPES)
def test_operations(isa: Isa, data_type: DataType) -> None:
    random = np.random.default_rng(5)
    kernels = []
    for operation in operations_of(data_type):
        count = operand_count(operation)
        kernels.append(elementwise(operation, isa, (UNIT,) * count, data_type))
        if operation in (Operation.ZERO, Operation.COPY, Operation.SUB):
            kernels.append(elementwise(operation, isa, (STRIDED,) * count, data_type))
        if operation in (Operation.COPY, Operation.SUB):
            mixed = (BROADCAST, *(UNIT,) * (count - 1))
            kernels.append(elementwise(operation, isa, mixed, data_type))
    copied = elementwise(Operation.COPY, isa, (UNIT, UNIT), data_type)
    kernels.append(replace(copied, brings=True))
    kernels += [
        replace(kernel, aligns=True)
        for kernel in kernels
        if kernel.lanes > 1 and STRIDED not in kernel.accesses
    ]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        lanes = kernel.lanes
        sizes = {1, 2, lanes - 1, lanes, lanes + 1, 2 * lanes + 3, 5 * lanes + lanes // 2}
        sizes.add(9 * lanes + 3)
        for m in sorted(sizes - {0}):
            for edge in Edge:
                inputs, result = run(compiled, kernel, m, 3, edge, random)
                wanted = expected(kernel, inputs, result.shape)
                if kernel.operation is Operation.DIV and data_type.is_complex:
                    limit = 8 * data_type.unit_roundoff
                    assert np.all(np.abs(result - wanted) <= limit * np.abs(wanted))
                else:
                    np.testing.assert_array_equal(result, wanted, str((kernel, m)))


@pytest.mark.parametrize("isa", [isa for isa in HERE if isa.has_masks])
@pytest.mark.parametrize(
    "data_type",
    [DataType.FP64, DataType.FP32, DataType.C64, DataType.C128, DataType.BF16, DataType.FP16],
)
@pytest.mark.parametrize("accesses", [(UNIT, UNIT, UNIT), (BROADCAST, UNIT, UNIT)])
def test_rows_of_some_vectors(isa: Isa, data_type: DataType, accesses: tuple[Access, ...]) -> None:
    random = np.random.default_rng(6)
    plain = elementwise(Operation.MUL, isa, accesses, data_type)
    kernels = [replace(plain, vectors=vectors) for vectors in range(1, 5)]
    compiled = compiled_once(kernels, isa)
    for vectors, kernel in enumerate(kernels, 1):
        most = vectors * kernel.lanes
        for m in {most - kernel.lanes + 1, most - 1, most} - {most - kernel.lanes}:
            for n, edge in itertools.product((1, 2, 5), Edge):
                inputs, result = run(compiled, kernel, m, n, edge, random)
                wanted = expected(kernel, inputs, result.shape)
                np.testing.assert_array_equal(result, wanted, str((kernel, m, n)))


REAL = (DataType.FP64, DataType.FP32, DataType.TF32, DataType.BF16, DataType.FP16)


def hard_numbers(data_type: DataType) -> np.ndarray:
    """All 16-bit patterns; or numbers at and around every rounding boundary of narrower types."""
    if data_type.width == 2:
        return np.arange(1 << 16, dtype=np.uint16).view(data_type.numpy_dtype())
    halves = np.arange(1 << 16, dtype=np.uint16)
    exact = [halves.view(np.float16), halves.view(ml_dtypes.bfloat16)]
    with np.errstate(all="ignore"):
        near = np.concatenate([numbers.astype(np.float64) for numbers in exact])[::7]
        between = (near[:-1] + near[1:]) / 2
        base = np.concatenate(
            [near, between, [0.0, -0.0, 65519.99, 65520.0, 3.4e38, 1e300, 5e-324]]
        )
        base = base[np.isfinite(base)]
        ticks = np.concatenate([base, np.nextafter(base, np.inf), np.nextafter(base, -np.inf)])
        special = np.array([np.inf, -np.inf, np.nan, -np.nan])
        return np.concatenate([ticks, special]).astype(data_type.numpy_dtype())


def rounded(numbers: np.ndarray, target: DataType) -> np.ndarray:
    """Correct rounding by NumPy; FP64 to BF16 by hand because the library rounds twice."""
    with np.errstate(all="ignore"):
        if target is not DataType.BF16 or numbers.dtype != np.float64:
            return numbers.astype(target.numpy_dtype())
        low = numbers.astype(np.float32)
        bits = low.view(np.uint32)
        bits = bits - (np.abs(low.astype(np.float64)) > np.abs(numbers)).astype(np.uint32)
        sticky = np.isfinite(numbers) & (bits.view(np.float32).astype(np.float64) != numbers)
        return (bits | sticky).view(np.float32).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(REAL, 2)))
def test_copy_rounds_correctly(isa: Isa, source: DataType, target: DataType) -> None:
    kernel = elementwise(Operation.COPY, isa, (UNIT, UNIT), source, target)
    numbers = hard_numbers(source)
    result = np.empty(len(numbers), target.numpy_dtype())
    arguments = (len(numbers), 1, source.width, target.width, 0, 0)
    addresses = (numbers.ctypes.data, result.ctypes.data)
    Compiled([kernel], isa).call(kernel, arguments, addresses)
    wanted = rounded(numbers, target)
    same = (result == wanted) | (np.isnan(result) & np.isnan(wanted))
    assert np.all(same), (numbers[~same][:4], result[~same][:4], wanted[~same][:4])


@pytest.mark.parametrize("isa", HERE)
def test_copy_keeps_the_bits_of_its_own_type(isa: Isa) -> None:
    for data_type in (DataType.BF16, DataType.FP16):
        kernel = elementwise(Operation.COPY, isa, (UNIT, UNIT), data_type)
        patterns = np.arange(1 << 16, dtype=np.uint16)
        result = np.zeros_like(patterns)
        addresses = (patterns.ctypes.data, result.ctypes.data)
        Compiled([kernel], isa).call(kernel, (1 << 16, 1, 2, 2, 0, 0), addresses)
        np.testing.assert_array_equal(result, patterns)


@pytest.mark.parametrize("isa", HERE)
def test_copy_to_complex(isa: Isa) -> None:
    random = np.random.default_rng(2)
    pairs = (
        (DataType.FP32, DataType.C64),
        (DataType.FP64, DataType.C64),
        (DataType.BF16, DataType.C128),
        (DataType.C64, DataType.C128),
        (DataType.C128, DataType.C64),
    )
    for source, target in pairs:
        kernel = elementwise(Operation.COPY, isa, (UNIT, UNIT), source, target)
        compiled = Compiled([kernel], isa)
        inputs, result = run(compiled, kernel, 2 * kernel.lanes + 1, 2, Edge.HIGH, random)
        np.testing.assert_array_equal(result, inputs[0].astype(target.numpy_dtype()))


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", REAL)
def test_nan_infinity_and_zero_divisors(isa: Isa, data_type: DataType) -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, 1.5, -2.0], data_type.numpy_dtype())
    left = np.repeat(special, 6)
    right = np.tile(special, 6)
    operations = (Operation.MIN, Operation.MAX, Operation.DIV, Operation.RELU)
    for operation in operations:
        count = operand_count(operation)
        kernel = elementwise(operation, isa, (UNIT,) * count, data_type)
        result = np.zeros_like(left)
        width = data_type.width
        inputs = [left, right][: count - 1]
        addresses = [array.ctypes.data for array in (*inputs, result)]
        arguments = (36, 1, *(width,) * count, *(0,) * count)
        Compiled([kernel], isa).call(kernel, arguments, addresses)
        with np.errstate(all="ignore"):
            wanted = expected(kernel, inputs, left.shape)
        wide = [array.astype(np.float64) for array in (result, wanted)]
        np.testing.assert_array_equal(*wide, operation.value)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", [DataType.C64, DataType.C128])
def test_complex_division_neither_overflows_nor_divides_zero_wrongly(
    isa: Isa, data_type: DataType
) -> None:
    huge = float(np.finfo(data_type.numpy_dtype()).max) / 4
    left = np.array([huge + huge * 1j, 1 + 2j, -3 + 4j, 1 + 0j, 0j], data_type.numpy_dtype())
    right = np.array([huge - huge * 1j, 2j, 1 - 1e-20j, 0, 0], data_type.numpy_dtype())
    result = np.zeros_like(left)
    kernel = elementwise(Operation.DIV, isa, (UNIT, UNIT, UNIT), data_type)
    width = data_type.width
    addresses = [array.ctypes.data for array in (left, right, result)]
    Compiled([kernel], isa).call(kernel, (5, 1, *(width,) * 3, 0, 0, 0), addresses)
    np.testing.assert_allclose(result[:3], [1j, 1 - 0.5j, -3 + 4j], rtol=1e-6)
    assert np.isinf(result[3].real)
    assert np.isnan(result[4])


@pytest.mark.parametrize("isa", HERE)
def test_in_place(isa: Isa) -> None:
    numbers = np.random.default_rng(1).standard_normal(5 * 16 + 7).astype(np.float32)
    wanted = np.maximum(numbers, 0)
    kernel = elementwise(Operation.RELU, isa, (UNIT, UNIT), DataType.FP32)
    addresses = (numbers.ctypes.data, numbers.ctypes.data)
    Compiled([kernel], isa).call(kernel, (len(numbers), 1, 4, 4, 0, 0), addresses)
    np.testing.assert_array_equal(numbers, wanted)


def test_what_has_no_meaning_is_refused() -> None:
    for operation in ORDERED:
        kernel = elementwise(operation, Isa.PLAIN, (UNIT,) * operand_count(operation), DataType.C64)
        with pytest.raises(ValueError, match="no order"):
            emit_kernel(kernel, Isa.PLAIN)
    real = elementwise(Operation.COPY, Isa.PLAIN, (UNIT, UNIT), DataType.C64, DataType.FP32)
    with pytest.raises(ValueError, match="real source"):
        emit_kernel(real, Isa.PLAIN)
    mixed = elementwise(Operation.ADD, Isa.PLAIN, (UNIT,) * 3, DataType.FP32, DataType.FP64)
    with pytest.raises(ValueError, match="equal types"):
        emit_kernel(mixed, Isa.PLAIN)
