"""A transfer run by the emulator, and compared with what its schedule says.

`emulate` places a tensor of distinct numbers in poisoned global memory, loads tiles with the tensor
map, and returns the tiles. `compare_walks` asks of every element: is a valid item the one the
schedule names, is a hole that is out of bounds the fill value, is every other hole some item?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from teir.tma.copies import load_tiles, tile_elements_in_global, tile_elements_in_shared
from teir.tma.domain import Index
from teir.tma.inference import Inferred
from teir.tma.memory import Bytes, global_memory, place_tensor, read_elements, shared_memory
from teir.tma.swizzle import BASE_ALIGNMENT_BYTES, atom_bytes
from teir.tma.walk import Mask, Walk, propagate, sampled_tiles, tile_count, walk

GUARD_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """Tiles as they lie in shared memory: ``elements`` has shape (tiles, elements, width)."""

    walked: Walk
    elements: Bytes
    tensor: npt.NDArray[Any]
    memory: Bytes
    base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Elements that are not what the schedule says, of all that were compared."""

    elements: int
    wrong_valid: int
    wrong_zero: int
    wrong_data: int

    @property
    def holds(self) -> bool:
        return self.wrong_valid == self.wrong_zero == self.wrong_data == 0


def emulate(inferred: Inferred, linear: Index) -> Emulated:
    """Load the tiles of the given linear indices. Raises TeirError (TEIR971)."""
    transfer = inferred.transfer
    width = transfer.element_type.width
    strides = tuple(stride * width for stride in transfer.strides_elements)
    base = GUARD_BYTES + transfer.base_address_mod_128
    extent = sum((n - 1) * stride for n, stride in zip(transfer.shape, strides, strict=True))
    memory = global_memory(base + extent + width + GUARD_BYTES)
    tensor = _distinct_numbers(transfer.shape, width)
    place_tensor(memory, base, strides, tensor)
    tensor_map = replace(inferred.tensor_map, address=base)
    walked = walk(inferred, linear)
    unit = max(BASE_ALIGNMENT_BYTES, atom_bytes(transfer.swizzle_bytes))
    slot = -(-tensor_map.tile_bytes // unit) * unit
    shared = shared_memory(slot * len(linear))
    places = np.arange(len(linear), dtype=np.int64) * slot
    load_tiles(tensor_map, memory, coordinates_of(walked), shared, places)
    held = tile_elements_in_shared(tensor_map, places)
    elements = read_elements(shared, held, width, "the tiles")
    return Emulated(walked=walked, elements=elements, tensor=tensor, memory=memory, base=base)


def compare_walks(inferred: Inferred, most_tiles: int) -> Agreement:
    """Load up to ``most_tiles`` tiles and compare every element with the schedule's own index."""
    linear = sampled_tiles(tile_count(inferred), most_tiles)
    emulated = emulate(inferred, linear)
    walked = emulated.walked
    valid, inside = whole_tile(walked, walked.valid), whole_tile(walked, walked.in_bounds)
    expected = _scheduled_elements(emulated, valid)
    got = emulated.elements
    is_zero = ~got.any(axis=2)
    tensor_map = replace(inferred.tensor_map, address=emulated.base)
    positions, in_map = tile_elements_in_global(tensor_map, coordinates_of(walked))
    width = inferred.transfer.element_type.width
    loaded = read_elements(emulated.memory, np.where(inside, positions, 0), width, "the tensor")
    return Agreement(
        elements=valid.size,
        wrong_valid=int((valid & ~(got == expected).all(axis=2)).sum()),
        wrong_zero=int((~inside & ~is_zero).sum()) + int((inside != in_map).sum()),
        wrong_data=int((inside & ~(got == loaded).all(axis=2)).sum()),
    )


def coordinates_of(walked: Walk) -> Index:
    """Tile coordinates, shape (tiles, rank), innermost dimension first."""
    return np.stack(walked.coordinates, axis=1)


def whole_tile(walked: Walk, masks: tuple[Mask, ...]) -> Mask:
    """One mask per dimension as one of shape (tiles, elements of a tile)."""
    rank = len(masks)
    found: Mask = np.ones((walked.tiles, *([1] * rank)), dtype=bool)
    for k, mask in enumerate(masks):
        shape = [walked.tiles, *([1] * rank)]
        shape[rank - k] = mask.shape[1]
        found = found & mask.reshape(shape)
    return found.reshape(walked.tiles, -1)


def _scheduled_elements(emulated: Emulated, valid: Mask) -> Bytes:
    """The elements the logical indices of the schedule name; zero where they name none."""
    walked = emulated.walked
    inferred = walked.inferred
    values = dict(walked.values)
    propagate(
        values,
        (*inferred.domains.loop_expressions, *inferred.domains.allocation_expressions),
    )
    tiles = tuple(one.tile for one in reversed(inferred.dimensions))
    flat: Index = np.zeros((1,) * (len(tiles) + 1), dtype=np.int64)
    for one in inferred.domains.logical:
        flat = flat * one.extent + values.get(one, np.int64(0))
    full = np.broadcast_to(flat, (walked.tiles, *tiles)).reshape(walked.tiles, -1)
    width = inferred.transfer.element_type.width
    raw = emulated.tensor.reshape(-1).view(np.uint8).reshape(-1, width)
    elements: Bytes = raw[np.where(valid, full, 0)]
    elements[~valid] = 0
    return elements


def _distinct_numbers(shape: tuple[int, ...], width: int) -> npt.NDArray[Any]:
    """1, 2, 3, ... as unsigned numbers of ``width`` bytes; never zero, whatever wraps."""
    most = 2 ** (8 * min(width, 4)) - 1
    count = int(np.prod(shape))
    numbers = np.arange(count, dtype=np.uint64) % np.uint64(most) + np.uint64(1)
    return numbers.astype(f"u{width}").reshape(shape)
