"""The tile instruction on poisoned buffers: loads, stores, reductions, fills, swizzles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from teir.errors import TeirError
from teir.tma.copies import Reduction, load_tiles, reduce_tiles, store_tiles
from teir.tma.element_types import ElementType
from teir.tma.memory import (
    GLOBAL_POISON,
    SHARED_POISON,
    Bytes,
    global_memory,
    place_tensor,
    shared_memory,
    typed,
)
from teir.tma.swizzle import swizzled
from teir.tma.tensor_map import Fill, TensorMap

F32 = ElementType.F32
PITCH = 80  # bytes of a row of 16 elements and 16 bytes of poison
ROWS, COLUMNS = 12, 16


def tensor_map(**fields: Any) -> TensorMap:
    plain = TensorMap(
        element_type=F32,
        address=32,
        sizes=(COLUMNS, ROWS),
        strides_bytes=(PITCH,),
        box=(8, 5),
        element_strides=(1, 1),
        swizzle_bytes=0,
        interleave_bytes=0,
        fill=Fill.ZERO,
    )
    return replace(plain, **fields)


def tensor() -> npt.NDArray[np.float32]:
    return np.arange(1, ROWS * COLUMNS + 1, dtype=np.float32).reshape(ROWS, COLUMNS)


def memory() -> Bytes:
    found = global_memory(32 + ROWS * PITCH + 64)
    place_tensor(found, 32, (PITCH, 4), tensor())
    return found


def at(*pairs: tuple[int, int]) -> npt.NDArray[np.int64]:
    return np.array(pairs, dtype=np.int64)


def window(row: int, column: int, rows: int = 5, columns: int = 8, fill: float = 0) -> Any:
    """The box at (row, column) by NumPy alone."""
    padded = np.full((ROWS + 40, COLUMNS + 40), fill, dtype=np.float32)
    padded[20 : 20 + ROWS, 20 : 20 + COLUMNS] = tensor()
    return padded[20 + row : 20 + row + rows, 20 + column : 20 + column + columns]


@pytest.mark.parametrize(("column", "row"), [(0, 0), (8, 5), (12, 10), (-3, -2), (16, 0), (3, 11)])
def test_loads_fill_what_is_out_of_bounds(column: int, row: int) -> None:
    """Signed coordinates; bounds are those of the tensor, never of its pitch."""
    shared = shared_memory(1024)
    moved = load_tiles(tensor_map(), memory(), at((column, row)), shared, np.array([256]))
    assert moved == 160
    assert np.array_equal(
        typed(shared[256:416].reshape(40, 4), F32).reshape(5, 8), window(row, column)
    )
    assert (shared[:256] == SHARED_POISON).all()
    assert (shared[416:] == SHARED_POISON).all()


def test_not_a_number_fill() -> None:
    shared = shared_memory(256)
    load_tiles(tensor_map(fill=Fill.NAN), memory(), at((12, 0)), shared, np.array([0]))
    loaded = typed(shared[:160].reshape(40, 4), F32).reshape(5, 8)
    assert np.isnan(loaded[:, 4:]).all()
    assert np.array_equal(loaded[:, :4], window(0, 12)[:, :4])


def test_element_strides_skip_rows() -> None:
    shared = shared_memory(256)
    strided = tensor_map(element_strides=(1, 2))
    assert strided.tile == (8, 3)
    load_tiles(strided, memory(), at((0, 8)), shared, np.array([0]))
    loaded = typed(shared[:96].reshape(24, 4), F32).reshape(3, 8)
    assert np.array_equal(loaded, window(8, 0)[::2])


@pytest.mark.parametrize("mode", [32, 64, 128])
def test_swizzle_acts_on_absolute_addresses(mode: int) -> None:
    columns = mode // 4
    wide = np.arange(64 * columns, dtype=np.float32).reshape(64, columns)
    source = global_memory(wide.nbytes)
    place_tensor(source, 0, (mode, 4), wide)
    described = tensor_map(
        address=0, sizes=(columns, 64), strides_bytes=(mode,), box=(columns, 16), swizzle_bytes=mode
    )
    shared = shared_memory(8192)
    for base in (0, 1024, 128):
        load_tiles(described, source, at((0, 16)), shared, np.array([base]))
        for row in range(16):
            for column in range(columns):
                place = swizzled(base + row * mode + column * 4, mode)
                assert shared[place : place + 4].view(np.float32)[0] == wide[16 + row, column]


def test_several_tiles_at_once_equal_one_after_the_other() -> None:
    together, alone = shared_memory(2048), shared_memory(2048)
    coordinates, places = at((0, 0), (8, 5), (4, 9)), np.array([0, 512, 1024])
    load_tiles(tensor_map(), memory(), coordinates, together, places)
    for tile in range(3):
        load_tiles(tensor_map(), memory(), coordinates[[tile]], alone, places[[tile]])
    assert np.array_equal(together, alone)


def test_stores_leave_out_what_is_out_of_bounds() -> None:
    shared = shared_memory(256)
    numbers = np.arange(1000, 1040, dtype=np.float32)
    shared[:160] = numbers.view(np.uint8)
    target, before = memory(), memory()
    store_tiles(tensor_map(), target, at((12, 9)), shared, np.array([0]))
    expected = tensor()
    expected[9:, 12:] = numbers.reshape(5, 8)[:3, :4]
    rows = target[32 : 32 + ROWS * PITCH].reshape(ROWS, PITCH)
    assert np.array_equal(rows[:, :64].copy().view(np.float32), expected)
    assert (rows[:, 64:] == GLOBAL_POISON).all()
    assert np.array_equal(target[:32], before[:32])
    assert np.array_equal(target[32 + ROWS * PITCH :], before[32 + ROWS * PITCH :])


@pytest.mark.parametrize("mode", [0, 32, 64, 128])
def test_store_undoes_load(mode: int) -> None:
    described = tensor_map(box=(8, 12), swizzle_bytes=mode)
    shared, target = shared_memory(4096), global_memory(32 + ROWS * PITCH + 64)
    coordinates, places = at((0, 0), (8, 0)), np.array([0, 2048])
    load_tiles(described, memory(), coordinates, shared, places)
    store_tiles(described, target, coordinates, shared, places)
    assert np.array_equal(target, memory())


def test_reductions_add_tile_after_tile() -> None:
    shared = shared_memory(256)
    shared[:160] = np.full(40, 0.5, dtype=np.float32).view(np.uint8)
    target = memory()
    reduce_tiles(
        tensor_map(), Reduction.ADD, target, at((12, 9), (12, 9)), shared, np.array([0, 0])
    )
    rows = target[32 : 32 + ROWS * PITCH].reshape(ROWS, PITCH)[:, :64].copy().view(np.float32)
    expected = tensor()
    expected[9:, 12:] += 1.0
    assert np.array_equal(rows, expected)


@pytest.mark.parametrize("reduction", list(Reduction))
def test_integer_reductions(reduction: Reduction) -> None:
    kind = ElementType.U32
    described = tensor_map(
        element_type=kind, address=0, sizes=(8, 4), strides_bytes=(32,), box=(8, 4)
    )
    left = np.arange(32, dtype=np.uint32) * 7
    right = np.arange(32, dtype=np.uint32) * 5 + 3
    target, shared = left.view(np.uint8).copy(), shared_memory(128)
    shared[:] = right.view(np.uint8)
    reduce_tiles(described, reduction, target, at((0, 0)), shared, np.array([0]))
    function = {
        Reduction.ADD: np.add,
        Reduction.MIN: np.minimum,
        Reduction.MAX: np.maximum,
        Reduction.AND: np.bitwise_and,
        Reduction.OR: np.bitwise_or,
        Reduction.XOR: np.bitwise_xor,
    }[reduction]
    assert np.array_equal(target.view(np.uint32), function(left, right))


def test_flush_to_zero_types_lose_subnormal_numbers() -> None:
    tiny = np.array([1e-40, -1e-40, 1.0, 0.0], dtype=np.float32)
    described = tensor_map(
        element_type=ElementType.F32_FTZ,
        address=0,
        sizes=(4,),
        strides_bytes=(),
        box=(4,),
        element_strides=(1,),
    )
    shared = shared_memory(128)
    load_tiles(described, tiny.view(np.uint8).copy(), np.array([[0]]), shared, np.array([0]))
    assert np.array_equal(shared[:16].view(np.float32), np.array([0, 0, 1, 0], dtype=np.float32))


def test_findings() -> None:
    shared = shared_memory(256)
    with pytest.raises(TeirError, match="TEIR970"):
        load_tiles(tensor_map(), memory(), at((0, 0)), shared, np.array([64]))
    with pytest.raises(TeirError, match="TEIR971"):
        load_tiles(tensor_map(), memory(), at((0, 0)), shared, np.array([128]))
    with pytest.raises(TeirError, match="TEIR971"):
        load_tiles(tensor_map(address=2000), memory(), at((0, 0)), shared, np.array([0]))
    with pytest.raises(TeirError, match="TEIR972"):
        reduce_tiles(tensor_map(), Reduction.MAX, memory(), at((0, 0)), shared, np.array([0]))
