"""What kernels touch while they are evaluated: numbers and tiles of slots, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from teir.dtypes import DataType
from teir.ir.tile_arithmetic import Tile, contract, convert
from teir.lower.kernel_program import (
    Address,
    Call,
)

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Memory(msgspec.Struct, frozen=True):
    """The bytes of every slot, and where its pointer stands."""

    content: tuple[Bytes, ...]
    pointers: list[int]

    def number(self, address: Address, data_type: DataType, distance: int) -> int:
        start = self.pointers[address.slot] + address.offset_bytes + distance
        content = self.content[address.slot]
        if not 0 <= start <= content.size - data_type.width:
            raise LookupError(f"byte {start} of {content.size}")
        return int(np.ndarray((), data_type.numpy_dtype(), content.data, start)[()])

    def tile(
        self,
        call: Call,
        operand: int,
        dtype: np.dtype[Any],
        axes: Sequence[tuple[int, int]],
        shift_bytes: int = 0,
    ) -> Tile:
        """The elements of one operand; ``axes`` are (extent, stride in bytes) pairs."""
        address = call.operands[operand]
        start = self.pointers[address.slot] + address.offset_bytes + shift_bytes
        content = self.content[address.slot]
        end = start + sum((extent - 1) * stride for extent, stride in axes) + dtype.itemsize
        if start < 0 or end > content.size:
            raise LookupError(f"bytes {start} to {end} of {content.size}")
        shape = tuple(extent for extent, _ in axes)
        strides = tuple(stride for _, stride in axes)
        return np.ndarray(shape, dtype, content.data, start, strides)


def accumulate_products(
    in_type: DataType,
    out_type: DataType,
    inputs: tuple[Tile, ...],
    output: Tile,
    accumulate: int,
    chains: int | None = None,
    flushes: bool = False,
) -> None:
    start = output.astype(out_type.accumulator.numpy_dtype())
    if not accumulate:
        start = np.zeros_like(start)
    output[...] = convert(contract(inputs, start, in_type, chains, flushes), out_type)
