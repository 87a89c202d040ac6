"""The bytes of tensors and the tiles in them, for `teir.ir.evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.dtypes import DataType
from teir.ir.nodes import Axis, Program, Tensor
from teir.ir.tile_arithmetic import Tile

Buffer = np.ndarray[Any, np.dtype[Any]]

POISON = 0xFF
"""Every byte of undefined scratch: a NaN in each floating-point type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMemory:
    """The bytes of one tensor and where its base address lies in them."""

    data_type: DataType
    content: Buffer
    base: int

    def tile(self, extents: Sequence[int], strides: Sequence[int]) -> StoredTile:
        """The tiles of ``extents`` whose elements lie ``strides`` bytes apart."""
        spans = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)]
        return StoredTile(
            content=self.content,
            dtype=self.data_type.numpy_dtype(),
            extents=tuple(extents),
            strides=tuple(strides),
            first=self.base,
            low=self.base + sum(span for span in spans if span < 0),
            high=self.base + sum(span for span in spans if span > 0) + self.data_type.width,
        )

    def undefine(self) -> None:
        self.content[:] = POISON


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTile:
    """Elements of a tensor, wherever the first of them lies.

    Relative to an address of the tensor, its first element lies at byte ``first`` of ``content``
    and all its bytes between ``low`` and ``high``.
    """

    content: Buffer
    dtype: np.dtype[Any]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    first: int
    low: int
    high: int

    def read(self, address: int) -> Tile:
        """A copy of the elements; those of an axis with stride 0 are all the same."""
        return self._view(address).copy()

    def write(self, address: int, elements: Tile) -> None:
        self._view(address)[...] = elements

    def _view(self, address: int) -> Tile:
        if self.low + address < 0 or self.high + address > self.content.size:
            raise IndexError(
                f"bytes {self.low + address} to {self.high + address} lie outside a buffer of "
                f"{self.content.size} bytes"
            )
        return np.ndarray(
            self.extents, self.dtype, self.content.data, self.first + address, self.strides
        )


def operand_memory(tensor: Tensor, operands: Mapping[str, Buffer], base: int) -> TensorMemory:
    """The memory of ``tensor``: the bytes of a contiguous array of any shape and type."""
    if tensor.name not in operands:
        raise LookupError(f"no operand for tensor {tensor.name}")
    array = operands[tensor.name]
    if not array.flags.c_contiguous:
        if not array.flags.f_contiguous:
            raise ValueError(f"the operand for tensor {tensor.name} is not contiguous")
        array = array.T
    content = array.reshape(-1).view(np.uint8)
    return TensorMemory(data_type=tensor.data_type, content=content, base=base)


def scratch_memory(
    program: Program, scratch: Tensor, memory: Mapping[str, TensorMemory]
) -> TensorMemory:
    """Undefined memory that holds every byte the program may touch of ``scratch``."""
    axes, primitives = program.axis_table(), program.primitive_table()
    spans: list[tuple[int, int]] = []
    for path, invocation in program.invocations():
        primitive = primitives[invocation.primitive]
        if scratch.name not in primitive.operands:
            continue
        named = (*(node.axis for node in path), *primitive.axes)
        lowest = sum(axes[name].offsets[scratch.name] for name in named)
        reach = sum(_reach(axes[name], scratch.name, memory) for name in named)
        spans.append((lowest, lowest + reach + scratch.data_type.width))
    low = min((start for start, _ in spans), default=0)
    high = max((end for _, end in spans), default=0)
    content = np.full(high - low, POISON, np.uint8)
    return TensorMemory(data_type=scratch.data_type, content=content, base=-low)


def _reach(axis: Axis, tensor: str, memory: Mapping[str, TensorMemory]) -> int:
    """Bytes from the first to the last index of ``axis`` on ``tensor``."""
    largest = axis.extent - 1
    for segment in axis.segments:
        if tensor in segment.by_position:
            largest = memory[segment.crd].content.size // memory[segment.crd].data_type.width
    return axis.strides[tensor] * largest
