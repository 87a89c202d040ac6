"""Whole kernels on the emulator: a pointwise sum and a transpose, tile by tile, ragged extents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from teir.tma.banks import Wavefronts, wavefronts
from teir.tma.case_form import transfer_of
from teir.tma.check import check
from teir.tma.copies import load_tiles, store_tiles
from teir.tma.emulate import coordinates_of
from teir.tma.inference import Inferred
from teir.tma.memory import Bytes, global_memory, place_tensor, shared_memory
from teir.tma.swizzle import swizzled
from teir.tma.walk import tile_count, walk

Matrix = npt.NDArray[np.float32]
TILE_BYTES = 4096


def inferred(**fields: Any) -> Inferred:
    report = check(transfer_of({"id": "example", "dtype": "f32", **fields}, "$"))
    assert report.ok, report.refusals
    assert report.inferred is not None
    return report.inferred


def every_coordinate(found: Inferred) -> npt.NDArray[np.int64]:
    """The coordinates of all tiles, in the order of the loops."""
    linear = np.arange(tile_count(found), dtype=np.int64)
    return coordinates_of(walk(found, linear))


def in_memory(matrix: Matrix) -> Bytes:
    memory = global_memory(matrix.nbytes)
    place_tensor(memory, 0, matrix.strides, matrix)
    return memory


def drawn(rows: int, columns: int, seed: int) -> Matrix:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


def test_pointwise_sum_through_two_tiles() -> None:
    """Example 1: blocks and a serial loop; tiles of (256, 4), the last rows and columns ragged."""
    shape = [37, 520]
    schedule = [
        ["split", -1, 256],
        ["split", 0, 4],
        ["split", -1, 2],
        ["split", 0, 3],
        ["reorder", {"3": 2, "2": 3}],
    ]
    bulk = {"1": "BIDx", "3": "Bulk", "4": "Bulk", "5": "Bulk"}
    found = inferred(shape=shape, schedule=schedule, parallel=bulk)
    left, right = drawn(37, 520, 1), drawn(37, 520, 2)
    memories = in_memory(left), in_memory(right)
    result = global_memory(left.nbytes)
    shared = shared_memory(2 * TILE_BYTES)
    for coordinate in every_coordinate(found):
        for at, memory in enumerate(memories):
            place = np.array([at * TILE_BYTES])
            load_tiles(found.tensor_map, memory, coordinate[None, :], shared, place)
        tiles = shared.view(np.float32).reshape(2, -1)
        tiles[0] += tiles[1]
        store_tiles(found.tensor_map, result, coordinate[None, :], shared, np.array([0]))
    assert np.array_equal(result.view(np.float32).reshape(37, 520), left + right)


def test_transpose_without_bank_conflicts() -> None:
    """Example 3: load with a 128-byte swizzle, read 16 bytes down columns, store plain tiles."""
    rows, columns = 72, 100
    schedule = [["split", 1, 32], ["split", 0, 32], ["reorder", {"1": 2}], ["merge", 0]]
    swizzled_view = [["split", 1, 8], ["split", 3, 4], ["swizzle", 2, 3]]
    bulk = {str(axis): "Bulk" for axis in range(1, 5)}
    load = inferred(
        shape=[rows, columns],
        schedule=[*schedule, *swizzled_view],
        parallel={"0": "BIDx", **bulk},
        smem_allocation="loop",
        smem_unallocated_axes=[0],
        swizzle_bytes=128,
    )
    store = inferred(
        direction="store",
        shape=[columns, rows],
        schedule=schedule,
        parallel={"0": "BIDx", "1": "Bulk", "2": "Bulk"},
        smem_allocation="loop",
        smem_unallocated_axes=[0],
    )
    matrix = drawn(rows, columns, 3)
    source, target = in_memory(matrix), global_memory(matrix.nbytes)
    shared = shared_memory(2 * TILE_BYTES)
    lane = np.arange(32, dtype=np.int64)
    for coordinate in every_coordinate(load):
        load_tiles(load.tensor_map, source, coordinate[None, :], shared, np.array([0]))
        for unit in range(8):
            addresses = swizzled(lane * 128 + unit * 16, 128)
            assert wavefronts(addresses, 16) == Wavefronts(got=4, ideal=4)
            vectors = shared[addresses[:, None] + np.arange(16)].view(np.float32)
            for row in range(4):
                written = TILE_BYTES + (unit * 4 + row) * 128 + lane * 4
                assert wavefronts(written, 4) == Wavefronts(got=1, ideal=1)
                values = np.ascontiguousarray(vectors[:, row]).view(np.uint8).reshape(32, 4)
                shared[written[:, None] + np.arange(4)] = values
        turned = coordinate[None, ::-1]
        store_tiles(store.tensor_map, target, turned, shared, np.array([TILE_BYTES]))
    assert np.array_equal(target.view(np.float32).reshape(columns, rows), matrix.T)


def test_broadcast_by_stride_zero() -> None:
    """Example 2: one row of tiles serves every index of a broadcast axis, as a stride of 0."""
    found = inferred(
        shape=[3, 8, 64],
        gmem_strides=[0, 64, 1],
        contiguity=[False, True, True],
        schedule=[["split", 2, 32]],
        parallel={"0": "BIDx", "1": "Bulk", "3": "Bulk"},
    )
    assert found.tensor_map.strides_bytes == (256, 0)
    matrix = drawn(8, 64, 4)
    memory = in_memory(matrix)
    shared = shared_memory(1024)
    described = replace(found.tensor_map, address=0)
    for coordinate in every_coordinate(found):
        load_tiles(described, memory, coordinate[None, :], shared, np.array([0]))
        first = int(coordinate[0])
        expected = matrix[:, first : first + 32]
        assert np.array_equal(shared.view(np.float32).reshape(8, 32), expected)
