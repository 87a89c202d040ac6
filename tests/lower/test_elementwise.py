"""Vectors of element-wise kernels, and how a row of some length is walked."""

from __future__ import annotations

import pytest

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis
from teir.lower.elementwise import lower_elementwise
from teir.lower.kernel_program import Address, Call
from teir.lower.kernels import Elementwise
from teir.target import Isa


def kernel_of(elements: int, data_type: DataType, inputs: int, isa: Isa) -> Elementwise:
    operands = tuple(Address(slot=slot, offset_bytes=0) for slot in range(inputs + 1))
    operation = Operation.MUL if inputs == 2 else Operation.RELU
    axis = TileAxis(elements, (data_type.width,) * (inputs + 1))
    types = (data_type,) * (inputs + 1)
    (call,) = lower_elementwise(operation, [axis], operands, types, isa)
    assert isinstance(call, Call)
    assert isinstance(call.kernel, Elementwise)
    return call.kernel


def vector_bytes(elements: int, data_type: DataType, inputs: int, isa: Isa) -> int:
    return kernel_of(elements, data_type, inputs, isa).lanes * data_type.width


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_products_of_large_arrays_take_half_a_line_at_a_time(data_type: DataType) -> None:
    some = (1 << 20) // (3 * data_type.width)
    assert vector_bytes(some, data_type, 2, Isa.AVX512) == 64
    assert vector_bytes(some + 1, data_type, 2, Isa.AVX512) == 32
    assert vector_bytes(some + 1, data_type, 2, Isa.AVX2) == 32


def test_other_large_arrays_take_whole_lines() -> None:
    assert vector_bytes(1 << 22, DataType.BF16, 2, Isa.AVX512) == 64
    assert vector_bytes(1 << 22, DataType.FP32, 1, Isa.AVX512) == 64


@pytest.mark.parametrize(
    ("elements", "vectors", "aligns"),
    [
        (1, 1, False),
        (16, 1, False),
        (17, 2, False),
        (64, 4, False),
        (65, None, False),
        (127, None, False),
        (128, None, True),
        (5000, None, True),
    ],
)
def test_the_length_of_a_row_decides_how_it_is_walked(
    elements: int, vectors: int | None, aligns: bool
) -> None:
    kernel = kernel_of(elements, DataType.FP32, 2, Isa.AVX512)
    assert (kernel.vectors, kernel.aligns) == (vectors, aligns)
    for other in (
        kernel_of(elements, DataType.BF16, 2, Isa.AVX512),
        kernel_of(elements, DataType.FP32, 1, Isa.AVX512),
        kernel_of(elements, DataType.FP32, 2, Isa.AVX2),
    ):
        assert (other.vectors, other.aligns) == (None, False)
