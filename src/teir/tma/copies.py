"""The tile instruction, run on byte buffers: loads, stores and reductions.

Element t of a tile, innermost dimension fastest, stands for position ``coordinate + t_k * e_k`` of
dimension k and for byte ``t * width`` of the tile, swizzled by the *absolute* shared address. It is
in bounds where every position lies in 0 .. size - 1, whatever the strides. Loads write the fill
value for the others, stores and reductions leave them out. A load's barrier counts whole tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from teir.errors import refuse
from teir.tma.domain import Index
from teir.tma.element_types import ElementType
from teir.tma.memory import Bytes, read_elements, typed, untyped, write_elements
from teir.tma.rules import REDUCTION_TYPE, SHARED_ADDRESS
from teir.tma.swizzle import BASE_ALIGNMENT_BYTES, swizzled
from teir.tma.tensor_map import Fill, TensorMap

Mask = npt.NDArray[np.bool_]


class Reduction(Enum):
    """``cp.reduce.async.bulk.tensor`` operations."""

    ADD = "add"
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"
    XOR = "xor"


def load_tiles(
    tensor_map: TensorMap,
    memory: Bytes,
    coordinates: Index,
    shared: Bytes,
    shared_addresses: Index,
) -> int:
    """Copy tiles into shared memory; the bytes one tile adds to its barrier.

    ``coordinates`` has shape (tiles, rank), innermost dimension first, negative ones allowed;
    ``shared_addresses`` shape (tiles,). Raises TeirError (TEIR970, TEIR971).
    """
    _check_alignment(shared_addresses)
    width = tensor_map.element_type.width
    addresses, inside = tile_elements_in_global(tensor_map, coordinates)
    elements = np.empty((*inside.shape, width), dtype=np.uint8)
    elements[...] = fill_bytes(tensor_map)
    loaded = read_elements(memory, addresses[inside], width, "a load from global memory")
    elements[inside] = _flushed(loaded, tensor_map.element_type)
    targets = tile_elements_in_shared(tensor_map, shared_addresses)
    write_elements(shared, targets, elements, width, "a load into shared memory")
    return tensor_map.tile_bytes


def store_tiles(
    tensor_map: TensorMap,
    memory: Bytes,
    coordinates: Index,
    shared: Bytes,
    shared_addresses: Index,
) -> None:
    """Copy tiles out of shared memory, shapes as in `load_tiles`. Raises TeirError."""
    _check_alignment(shared_addresses)
    width = tensor_map.element_type.width
    addresses, inside = tile_elements_in_global(tensor_map, coordinates)
    sources = tile_elements_in_shared(tensor_map, shared_addresses)
    elements = read_elements(shared, sources, width, "a store from shared memory")
    write_elements(memory, addresses[inside], elements[inside], width, "a store to global memory")


def reduce_tiles(
    tensor_map: TensorMap,
    reduction: Reduction,
    memory: Bytes,
    coordinates: Index,
    shared: Bytes,
    shared_addresses: Index,
) -> None:
    """Combine tiles in shared memory into global memory, tile after tile.

    Floating-point additions round once each, in the element's type. Raises TeirError (TEIR970,
    TEIR971, TEIR972).
    """
    element_type = tensor_map.element_type
    _check_reduction(reduction, element_type)
    _check_alignment(shared_addresses)
    addresses, inside = tile_elements_in_global(tensor_map, coordinates)
    sources = tile_elements_in_shared(tensor_map, shared_addresses)
    width = element_type.width
    for tile in range(len(coordinates)):
        at = addresses[tile][inside[tile]]
        old = typed(read_elements(memory, at, width, "a reduction"), element_type)
        raw = read_elements(shared, sources[tile][inside[tile]], width, "a reduction")
        new = _combined(reduction, old, typed(raw, element_type))
        write_elements(memory, at, untyped(new, element_type), width, "a reduction")


def tile_elements_in_global(tensor_map: TensorMap, coordinates: Index) -> tuple[Index, Mask]:
    """Byte addresses of every element and whether it is in bounds, shape (tiles, elements)."""
    tiles = len(coordinates)
    rank = tensor_map.rank
    strides = (tensor_map.element_type.width, *tensor_map.strides_bytes)
    addresses: Index = np.full((tiles, *([1] * rank)), tensor_map.address, dtype=np.int64)
    inside: Mask = np.ones((tiles, *([1] * rank)), dtype=bool)
    for k in range(rank):
        steps = np.arange(tensor_map.tile[k], dtype=np.int64) * tensor_map.element_strides[k]
        position = coordinates[:, k, None] + steps[None, :]
        shape = [tiles, *([1] * rank)]
        shape[rank - k] = tensor_map.tile[k]
        position = position.reshape(shape)
        addresses = addresses + position * strides[k]
        inside = inside & (position >= 0) & (position < tensor_map.sizes[k])
    return addresses.reshape(tiles, -1), inside.reshape(tiles, -1)


def tile_elements_in_shared(tensor_map: TensorMap, shared_addresses: Index) -> Index:
    """Byte addresses of every element in shared memory, shape (tiles, elements)."""
    width = tensor_map.element_type.width
    offsets = np.arange(0, tensor_map.tile_bytes, width, dtype=np.int64)
    return swizzled(shared_addresses[:, None] + offsets[None, :], tensor_map.swizzle_bytes)


def fill_bytes(tensor_map: TensorMap) -> Bytes:
    """One element of the fill value: zero bytes, or a quiet not-a-number with all bits set."""
    width = tensor_map.element_type.width
    if tensor_map.fill is Fill.ZERO:
        return np.zeros(width, dtype=np.uint8)
    filled = np.full(width, 0xFF, dtype=np.uint8)
    filled[-1] = 0x7F
    return filled


def _flushed(elements: Bytes, element_type: ElementType) -> Bytes:
    """Subnormal numbers as zeros, for the types that say so."""
    if element_type not in (ElementType.F32_FTZ, ElementType.TF32_FTZ):
        return elements
    numbers = typed(elements, element_type)
    tiny = np.abs(numbers) < np.finfo(np.float32).tiny
    return untyped(np.where(tiny, np.copysign(np.float32(0), numbers), numbers), element_type)


def _combined(
    reduction: Reduction, old: npt.NDArray[Any], new: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    combine: Callable[..., npt.NDArray[Any]] = _FUNCTIONS[reduction]
    return combine(old, new)


_FUNCTIONS: Mapping[Reduction, np.ufunc] = {
    Reduction.ADD: np.add,
    Reduction.MIN: np.minimum,
    Reduction.MAX: np.maximum,
    Reduction.AND: np.bitwise_and,
    Reduction.OR: np.bitwise_or,
    Reduction.XOR: np.bitwise_xor,
}


def _check_reduction(reduction: Reduction, element_type: ElementType) -> None:
    bitwise = reduction in (Reduction.AND, Reduction.OR, Reduction.XOR)
    wide = element_type.is_float and element_type.width >= 4 and reduction is not Reduction.ADD
    if element_type.width >= 2 and not wide and not (bitwise and element_type.is_float):
        return
    expected = "add of f32 and f64; add, min, max of f16 and bf16; any of integers"
    found = f"{reduction.value} of {element_type.value}"
    refuse(REDUCTION_TYPE, "reduction", expected, found)


def _check_alignment(shared_addresses: Index) -> None:
    wrong = shared_addresses[shared_addresses % BASE_ALIGNMENT_BYTES != 0]
    if wrong.size:
        expected = f"multiples of {BASE_ALIGNMENT_BYTES}"
        refuse(SHARED_ADDRESS, "shared_addresses", expected, str(int(wrong[0])))
