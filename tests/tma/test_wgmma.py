"""The warpgroup product: descriptors, operands through the swizzle, fragments, roundings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from teir.errors import TeirError
from teir.tma.copies import load_tiles
from teir.tma.element_types import ElementType
from teir.tma.memory import Bytes, global_memory, place_tensor, shared_memory, untyped
from teir.tma.operands import Major, MatrixDescriptor, decode, encode, operand_addresses
from teir.tma.tensor_map import Fill, TensorMap
from teir.tma.wgmma import (
    Accumulator,
    Operand,
    Tf32Inputs,
    check_registers,
    fragment_places,
    fragments_of,
    matrix_of,
    multiply_accumulate,
    round_to_tf32,
)


def loaded(
    matrix: npt.NDArray[np.float32], element_type: ElementType, mode: int, shared: Bytes, base: int
) -> None:
    """``matrix`` (rows x one swizzle of bytes) through the tile instruction into shared memory."""
    width = element_type.width
    rows, columns = matrix.shape
    raw = untyped(matrix, element_type).reshape(rows, columns * width)
    memory = global_memory(raw.size)
    place_tensor(memory, 0, (columns * width, 1), raw)
    described = TensorMap(
        element_type=element_type,
        address=0,
        sizes=(columns, rows),
        strides_bytes=(columns * width,),
        box=(columns, rows),
        element_strides=(1, 1),
        swizzle_bytes=mode,
        interleave_bytes=0,
        fill=Fill.ZERO,
    )
    load_tiles(described, memory, np.array([[0, 0]]), shared, np.array([base]))


def small_numbers(rows: int, columns: int, seed: int) -> npt.NDArray[np.float32]:
    generator = np.random.default_rng(seed)
    return generator.integers(-8, 9, (rows, columns)).astype(np.float32)


def empty(columns: int) -> Accumulator:
    return np.zeros((64, columns), dtype=np.float32)


def test_descriptor_bits() -> None:
    descriptor = MatrixDescriptor(
        start=0x8400, leading_bytes=16, stride_bytes=1024, swizzle_bytes=128, base_offset=0
    )
    assert encode(descriptor) == 0x840 | 1 << 16 | 64 << 32 | 1 << 62
    for mode in (0, 32, 64, 128):
        one = MatrixDescriptor(
            start=256, leading_bytes=4096, stride_bytes=512, swizzle_bytes=mode, base_offset=3
        )
        assert decode(encode(one)) == one
    with pytest.raises(TeirError, match="TEIR978"):
        encode(
            MatrixDescriptor(
                start=8, leading_bytes=0, stride_bytes=0, swizzle_bytes=0, base_offset=0
            )
        )


@pytest.mark.parametrize("mode", [32, 64, 128])
@pytest.mark.parametrize(
    "element_type", [ElementType.BF16, ElementType.F16, ElementType.TF32], ids=lambda one: one.value
)
def test_k_major_tiles_are_multiplied(mode: int, element_type: ElementType) -> None:
    """Two tiles by the tile instruction, K in steps of 32 bytes: exact on small integers."""
    columns = mode // element_type.width
    a, b = small_numbers(64, columns, 1), small_numbers(32, columns, 2)
    shared = shared_memory(32768)
    loaded(a, element_type, mode, shared, 0)
    loaded(b, element_type, mode, shared, 16384)
    result = empty(32)
    for step in range(0, mode, 32):
        left, right = (
            Operand(
                descriptor=MatrixDescriptor(
                    start=base + step,
                    leading_bytes=16,
                    stride_bytes=8 * mode,
                    swizzle_bytes=mode,
                    base_offset=0,
                ),
                major=Major.K,
            )
            for base in (0, 16384)
        )
        result = multiply_accumulate(
            result, left, right, shared, element_type, Tf32Inputs.TRUNCATED
        )
    assert np.array_equal(result, a @ b.T)


def test_mn_major_operand() -> None:
    """A is stored K x M, two tiles of 64 M by 16 K; B is stored N x K."""
    element_type = ElementType.BF16
    a, b = small_numbers(16, 64, 3), small_numbers(16, 16, 4)
    shared = shared_memory(32768)
    loaded(a, element_type, 128, shared, 0)
    loaded(b, element_type, 32, shared, 16384)
    left = Operand(
        descriptor=MatrixDescriptor(
            start=0, leading_bytes=2048, stride_bytes=1024, swizzle_bytes=128, base_offset=0
        ),
        major=Major.MN,
    )
    right = Operand(
        descriptor=MatrixDescriptor(
            start=16384, leading_bytes=16, stride_bytes=256, swizzle_bytes=32, base_offset=0
        ),
        major=Major.K,
    )
    result = multiply_accumulate(empty(16), left, right, shared, element_type, Tf32Inputs.ROUNDED)
    assert np.array_equal(result, a.T @ b.T)


@pytest.mark.parametrize("major", list(Major))
def test_core_matrices_without_a_swizzle(major: Major) -> None:
    """8 x 16-byte blocks: every element has its own address, and blocks lie where offsets say."""
    descriptor = MatrixDescriptor(
        start=0, leading_bytes=128, stride_bytes=256, swizzle_bytes=0, base_offset=0
    )
    addresses = operand_addresses(descriptor, major, 64, 16, ElementType.F16)
    assert len(np.unique(addresses)) == 64 * 16
    if major is Major.K:
        assert addresses[1, 0] == 16
        assert (addresses[8, 0], addresses[0, 8]) == (256, 128)
    else:
        assert addresses[0, 1] == 16
        assert (addresses[8, 0], addresses[0, 8]) == (256, 128)


def test_32_bit_operands_are_k_major() -> None:
    descriptor = MatrixDescriptor(
        start=0, leading_bytes=0, stride_bytes=1024, swizzle_bytes=128, base_offset=0
    )
    with pytest.raises(TeirError, match="TEIR978"):
        operand_addresses(descriptor, Major.MN, 64, 8, ElementType.TF32)


@pytest.mark.parametrize("columns", [4, 12, 264])
def test_shapes_that_are_none(columns: int) -> None:
    operand = Operand(
        descriptor=MatrixDescriptor(
            start=0, leading_bytes=16, stride_bytes=256, swizzle_bytes=32, base_offset=0
        ),
        major=Major.K,
    )
    with pytest.raises(TeirError, match="TEIR977"):
        multiply_accumulate(
            empty(columns),
            operand,
            operand,
            shared_memory(8192),
            ElementType.F16,
            Tf32Inputs.ROUNDED,
        )


@pytest.mark.parametrize("columns", [8, 64, 256])
def test_fragments_hold_every_element_once(columns: int) -> None:
    row, column = fragment_places(columns)
    assert row.shape == column.shape == (128, columns // 2)
    assert len(np.unique(row * columns + column)) == 64 * columns
    matrix = np.arange(64 * columns, dtype=np.float32).reshape(64, columns)
    assert np.array_equal(matrix_of(fragments_of(matrix)), matrix)
    registers = fragments_of(matrix)
    assert registers[0, :4].tolist() == [0, 1, 8 * columns, 8 * columns + 1]
    assert registers[5, 0] == columns + 2
    assert registers[32, 0] == 16 * columns


def test_tf32_rounding() -> None:
    one = np.array([1 + 2**-11, 1 + 2**-11 + 2**-20, 1 + 3 * 2**-11, -1.0, np.inf, np.nan])
    numbers = one.astype(np.float32)
    truncated = round_to_tf32(numbers, Tf32Inputs.TRUNCATED)
    rounded = round_to_tf32(numbers, Tf32Inputs.ROUNDED)
    assert truncated[:5].tolist() == [1, 1, 1 + 2**-10, -1, np.inf]
    assert rounded[:5].tolist() == [1, 1 + 2**-10, 1 + 2**-9, -1, np.inf]
    assert np.isnan(truncated[5])
    assert np.isnan(rounded[5])


def test_register_budget() -> None:
    assert check_registers(((128, 40), (256, 232))) is None
    over = check_registers(((128, 40), (512, 232)))
    assert over is not None
    assert over.code == "TEIR979"
    assert check_registers(((128, 41),)) is not None
