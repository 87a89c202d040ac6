"""Arrays for a case, at a chosen place in memory, and the result they must have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from teir.cli.peers.case import Case
from teir.dtypes import DataType
from teir.target import LINE_BYTES

Array = np.ndarray[Any, np.dtype[Any]]

NATURAL_OFFSET = 16
"""Where in a 64-byte line NumPy's own large arrays begin with the C library of Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Inputs and output of one case; the inputs change from whole numbers to random ones."""

    inputs: tuple[Array, ...]
    out: Array
    expected: Array
    """The exact result of the whole numbers that the inputs hold at first."""


def draw(case: Case, data_type: DataType, offset_bytes: int) -> Operands:
    """Whole numbers from -2 to 2, whose products are exact; types of two bytes round their sums."""
    generator = np.random.default_rng(7)
    dtype = data_type.numpy_dtype()
    inputs = []
    for place, shape in enumerate(case.shapes):
        array = place_array(shape, case.order(place), dtype, offset_bytes)
        array[...] = _whole(generator, shape, data_type)
        inputs.append(array)
    out = place_array(case.output_shape, range(len(case.output)), dtype, offset_bytes)
    out[...] = 0
    return Operands(inputs=tuple(inputs), out=out, expected=exact(case, inputs, data_type))


def place_array(
    shape: Sequence[int], order: Sequence[int], dtype: np.dtype[Any], offset_bytes: int
) -> Array:
    """An array whose axes lie in memory in ``order``, ``offset_bytes`` into a 64-byte line."""
    size_bytes = prod(shape) * dtype.itemsize
    memory = np.empty(size_bytes + 2 * LINE_BYTES, np.uint8)
    begin = (offset_bytes - memory.ctypes.data) % LINE_BYTES
    flat = memory[begin : begin + size_bytes].view(dtype)
    stored = flat.reshape([shape[axis] for axis in order])
    return stored.transpose(np.argsort(order) if len(order) else ())


def _whole(generator: np.random.Generator, shape: Sequence[int], data_type: DataType) -> Array:
    numbers: Array = generator.integers(-2, 3, shape)
    if data_type.is_complex:
        numbers = numbers + 1j * generator.integers(-2, 3, shape)
    return numbers.astype(data_type.numpy_dtype())


def randomise(operands: Operands, data_type: DataType) -> None:
    """Fill the inputs with numbers whose bits all vary, as they do in use."""
    generator = np.random.default_rng(11)
    for array in operands.inputs:
        numbers = generator.uniform(-1.0, 1.0, array.shape)
        array[...] = numbers + 1j * numbers if data_type.is_complex else numbers


def exact(case: Case, inputs: Sequence[Array], data_type: DataType) -> Array:
    """NumPy's result, exact for whole numbers; types of two bytes are computed in FP32."""
    if case.is_copy:
        return np.ascontiguousarray(np.einsum(case.einsum, inputs[0]))
    wide = [array.astype(np.float32) if data_type.width == 2 else array for array in inputs]
    result = np.asarray(np.einsum(case.einsum, *wide, optimize=True))
    return np.maximum(result, 0) if case.clears_negatives else result


def agrees(found: Any, expected: Array, data_type: DataType) -> bool:
    """Equal; a type of two bytes may be off by its own rounding of the largest element."""
    # NumPy reads no bfloat16 of PyTorch; FP32 holds each of its numbers.
    widened = getattr(found, "float", None) if data_type.width == 2 else None
    array = np.asarray(found if widened is None else widened())
    if array.shape != expected.shape:
        return False
    if data_type.width > 2:
        return bool(np.array_equal(array, expected))
    difference = np.abs(array.astype(np.float32) - expected).max(initial=0.0)
    return bool(difference <= 2.0 * data_type.unit_roundoff * np.abs(expected).max(initial=0.0))
