"""Byte buffers of the emulator: poisoned, so that what nobody wrote is seen.

Global memory is poisoned with 0xCD outside its tensors, shared memory with 0xAB: neither is zero,
a small number, or the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from teir.errors import refuse
from teir.tma.domain import Index
from teir.tma.element_types import ElementType
from teir.tma.rules import IN_BUFFER

Bytes = npt.NDArray[np.uint8]
GLOBAL_POISON = 0xCD
SHARED_POISON = 0xAB


def global_memory(size_bytes: int) -> Bytes:
    """Poisoned global memory."""
    return np.full(size_bytes, GLOBAL_POISON, dtype=np.uint8)


def shared_memory(size_bytes: int) -> Bytes:
    """Poisoned shared memory of one block; its first byte has address 0."""
    return np.full(size_bytes, SHARED_POISON, dtype=np.uint8)


def read_elements(memory: Bytes, addresses: Index, width: int, where: str) -> Bytes:
    """The elements at byte ``addresses``: their shape and one more axis of ``width`` bytes.

    Raises TeirError (TEIR971).
    """
    _check_range(memory, addresses, width, where)
    elements: Bytes = memory[addresses[..., None] + np.arange(width)]
    return elements


def write_elements(
    memory: Bytes, addresses: Index, elements: Bytes, width: int, where: str
) -> None:
    """Write ``elements``, as `read_elements` returns them. Raises TeirError (TEIR971)."""
    _check_range(memory, addresses, width, where)
    memory[addresses[..., None] + np.arange(width)] = elements


def typed(elements: Bytes, element_type: ElementType) -> npt.NDArray[Any]:
    """Elements as numbers; the last axis goes away."""
    dtype = element_type.numpy_dtype()
    return np.ascontiguousarray(elements).view(dtype)[..., 0]


def untyped(numbers: npt.NDArray[Any], element_type: ElementType) -> Bytes:
    """Numbers as elements of ``element_type``, with one more axis of bytes."""
    dtype = element_type.numpy_dtype()
    exact = np.ascontiguousarray(numbers.astype(dtype))
    return exact.view(np.uint8).reshape(*exact.shape, dtype.itemsize)


def place_tensor(
    memory: Bytes, base: int, strides_bytes: tuple[int, ...], numbers: npt.NDArray[Any]
) -> None:
    """Write an array into ``memory`` with the given byte strides. Raises TeirError (TEIR971)."""
    addresses = np.full((1,) * numbers.ndim, base, dtype=np.int64)
    for axis, stride in enumerate(strides_bytes):
        shape = [1] * numbers.ndim
        shape[axis] = numbers.shape[axis]
        addresses = addresses + (np.arange(numbers.shape[axis]) * stride).reshape(shape)
    width = numbers.dtype.itemsize
    raw = np.ascontiguousarray(numbers).view(np.uint8).reshape(*numbers.shape, width)
    write_elements(memory, addresses, raw, width, "the tensor")


def _check_range(memory: Bytes, addresses: Index, width: int, where: str) -> None:
    if addresses.size == 0:
        return
    first, last = int(addresses.min()), int(addresses.max()) + width
    if first >= 0 and last <= memory.size:
        return
    refuse(IN_BUFFER, where, f"bytes 0 to {memory.size}", f"bytes {first} to {last}")
