"""Compiling kernels and calling them on arrays that lie against pages nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Sequence
from enum import Enum

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import (
    assembly,
    compile_object,
    load_object,
    module_text,
    runs_here,
)
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_arguments, kernel_symbol
from teir.dtypes import DataType
from teir.lower.kernels import Kernel
from teir.soak.same_code import code_isa
from teir.target import Isa

TYPES = (
    DataType.FP64,
    DataType.FP32,
    DataType.TF32,
    DataType.BF16,
    DataType.FP16,
    DataType.C64,
    DataType.C128,
)
PAIRS = (
    *((data_type, data_type) for data_type in TYPES),
    (DataType.BF16, DataType.FP32),
    (DataType.FP16, DataType.FP32),
)
"""Types of what is multiplied and of the result."""
HERE = tuple(isa for isa in Isa if runs_here(isa))

_NODE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
_PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)


class Compiled:
    """Kernels of one instruction set, compiled together."""

    def __init__(self, kernels: Iterable[Kernel], isa: Isa) -> None:
        self.isa = isa
        wanted = tuple(dict.fromkeys(kernels))
        symbols = tuple(f"{kernel_symbol(kernel, isa)}_node" for kernel in wanted)
        text = module_text([emit_kernel(kernel, isa) for kernel in wanted], isa)
        self._code = load_object(compile_object(text, isa, symbols), symbols)

    def call(self, kernel: Kernel, arguments: Sequence[int], addresses: Sequence[int]) -> None:
        """Run the kernel's node function on a record of its own; hints may be left out."""
        names = kernel_arguments(kernel)[len(arguments) :]
        assert all(name.endswith("_ahead") for name in names)
        arguments = (*arguments, *(0 for _ in names))
        if len(addresses) > 3:
            self._call_through_frame(kernel, arguments, addresses)
            return
        record = (ctypes.c_int64 * (1 + len(arguments)))(0, *arguments)
        pointers = [*addresses, 0, 0][:3]
        self._function(kernel)(ctypes.addressof(record), None, *pointers)

    def _call_through_frame(
        self, kernel: Kernel, arguments: Sequence[int], addresses: Sequence[int]
    ) -> None:
        """Slots in reverse order, each pointer 24 bytes before the operand."""
        count = len(addresses)
        places = [word for operand in range(count) for word in (count - 1 - operand, 24)]
        record = (ctypes.c_int64 * (1 + len(arguments) + 2 * count))(0, *arguments, *places)
        slots = [address - 24 for address in reversed(addresses)]
        frame = (ctypes.c_int64 * (8 + count))(*[0] * 8, *slots)
        self._function(kernel)(ctypes.addressof(record), ctypes.addressof(frame), None, None, None)

    def _function(self, kernel: Kernel) -> ctypes._CFunctionType:
        return _NODE(self._code.addresses[f"{kernel_symbol(kernel, self.isa)}_node"])


def compiled_once(kernels: Sequence[Kernel], isa: Isa) -> Compiled:
    """The kernels of a test for ``isa``, skipped where their machine code is another's in `HERE`.

    tests/soak/test_same_code.py compares the objects.
    """
    if isa not in {code_isa(kernel, isa) for kernel in kernels}:
        pytest.skip("the machine code for AVX-512")
    return Compiled(kernels, isa)


def kernel_assembly(kernel: Kernel, isa: Isa) -> str:
    symbol = f"{kernel_symbol(kernel, isa)}_node"
    return assembly(module_text([emit_kernel(kernel, isa)], isa), isa, (symbol,))


class Edge(Enum):
    """Which end of the array lies against the forbidden page."""

    LOW = "low"
    HIGH = "high"


class Guarded:
    """A byte array whose first or last byte lies at a page that faults when touched."""

    def __init__(self, size: int, edge: Edge) -> None:
        pages = -(-size // _PAGE) + 2
        self._map = mmap.mmap(-1, pages * _PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for page in (start, start + (pages - 1) * _PAGE):
            assert _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 0) == 0
        offset = _PAGE if edge is Edge.LOW else (pages - 1) * _PAGE - size
        self.address = start + offset
        self.bytes = np.frombuffer(self._map, np.uint8, size, offset)


def strided(
    memory: np.ndarray, data_type: DataType, start: int, axes: Sequence[tuple[int, int]]
) -> np.ndarray:
    """The elements at ``start`` plus the (extent, stride in bytes) axes of a byte array."""
    shape = tuple(extent for extent, _ in axes)
    strides = tuple(stride for _, stride in axes)
    return np.ndarray(shape, data_type.numpy_dtype(), memory.data, start, strides)


def small_integers(
    random: np.random.Generator, shape: tuple[int, ...], data_type: DataType
) -> np.ndarray:
    """Integers from -2 to 2 (in both parts of complex numbers): sums of a few dozen products are
    exact in every type."""
    numbers = random.integers(-2, 3, shape).astype(np.float64)
    if data_type.is_complex:
        return (numbers + 1j * random.integers(-2, 3, shape)).astype(data_type.numpy_dtype())
    return numbers.astype(data_type.numpy_dtype())


def full_lanes(isa: Isa, data_type: DataType) -> int:
    """Elements of one vector of accumulators."""
    return max(1, isa.vector_bytes // data_type.accumulator.width)
