"""Tiles of tensors in bytes: what is read, what is written, and nothing outside."""

from __future__ import annotations

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.ir.tile_memory import TensorMemory


def memory(count: int, base: int = 0) -> TensorMemory:
    content = np.arange(count, dtype=np.float32).view(np.uint8)
    return TensorMemory(data_type=DataType.FP32, content=content, base=base)


def test_a_tile_is_read_at_its_strides() -> None:
    tile = memory(12).tile((2, 3), (16, 4))
    np.testing.assert_array_equal(tile.read(4), [[1, 2, 3], [5, 6, 7]])


def test_strides_may_be_zero_or_negative() -> None:
    tile = memory(12, base=8).tile((2, 3), (0, -4))
    np.testing.assert_array_equal(tile.read(0), [[2, 1, 0], [2, 1, 0]])


def test_what_was_read_does_not_change_with_the_memory() -> None:
    tile = memory(4).tile((4,), (4,))
    before = tile.read(0)
    tile.write(0, np.zeros(4, np.float32))
    np.testing.assert_array_equal(before, [0, 1, 2, 3])


def test_a_tile_may_lie_at_any_byte() -> None:
    content = np.zeros(9, np.uint8)
    tile = TensorMemory(data_type=DataType.BF16, content=content, base=1).tile((4,), (2,))
    tile.write(0, np.array([1, 2, 3, 4], DataType.BF16.numpy_dtype()))
    assert tile.read(0).tolist() == [1, 2, 3, 4]
    assert content[0] == 0


@pytest.mark.parametrize("address", [-4, 4, 1 << 40])
def test_no_byte_outside_is_touched(address: int) -> None:
    tile = memory(4).tile((4,), (4,))
    with pytest.raises(IndexError, match="lie outside a buffer of 16 bytes"):
        tile.read(address)
    with pytest.raises(IndexError, match="lie outside a buffer of 16 bytes"):
        tile.write(address, np.zeros(4, np.float32))
