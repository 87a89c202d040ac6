"""Shared-memory layouts: tiles contiguous, whole, aligned, and small enough (section 1.6).

The tile is the unit of control: for every choice of the other indices its elements, innermost
dimension fastest, lie side by side, or where the swizzle puts them. Everything else about an
allocation domain is free: it is evaluated, not matched against patterns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from teir.tma.dimensions import tile_elements
from teir.tma.domain import Index, IterDomain
from teir.tma.inference import Inferred
from teir.tma.nodes import Parallel
from teir.tma.refusal import Refusal, Stage, refusal
from teir.tma.rules import CAPACITY, TILE_ALIGNED, TILE_CONTIGUOUS, WHOLE_TILES
from teir.tma.swizzle import BASE_ALIGNMENT_BYTES, atom_bytes, swizzled
from teir.tma.walk import Walk, propagate, tile_count, walk

CAPACITY_BYTES = 232_448
EXHAUSTIVE_ELEMENTS = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The allocated IterDomains, outermost first, and their extent in bytes."""

    domains: tuple[IterDomain, ...]
    size_bytes: int


def allocation_of(inferred: Inferred) -> Allocation:
    """What the transfer's shared layout allocates; its logical domain where it gives none."""
    shared = inferred.domains.shared
    if shared is None:
        shared = inferred.domains.logical
    layout = inferred.transfer.shared
    skipped = {axis % len(shared) for axis in layout.unallocated} if layout else set()
    kept = tuple(one for at, one in enumerate(shared) if at not in skipped)
    size = math.prod(one.extent for one in kept) * inferred.transfer.element_type.width
    return Allocation(domains=kept, size_bytes=size)


def check_shared(inferred: Inferred) -> tuple[Refusal, ...]:
    """The rules the layout breaks: contiguity alone where it fails, else all others.

    The swizzle may be counted from the first byte of a tile too: where that makes a difference, the
    tile is not aligned, and that is what is told.

    Every tile is examined where they have at most 2^20 elements together; else three indices of
    every loop: first, second, last. Block indices are at 0: blocks have memory of their own.
    """
    allocation = allocation_of(inferred)
    walked = walk(inferred, _examined(inferred))
    addresses = tile_addresses(walked, allocation)
    bases = addresses.min(axis=1)
    width = inferred.transfer.element_type.width
    ordered = np.arange(addresses.shape[1], dtype=np.int64)[None, :] * width
    swizzle, begin = inferred.transfer.swizzle_bytes, bases[:, None]
    by_address = (addresses == swizzled(begin + ordered, swizzle)).all(axis=1)
    by_offset = (addresses == begin + swizzled(ordered, swizzle)).all(axis=1)
    if not (by_address | by_offset).all():
        return (_discontiguous(allocation),)
    return (*_whole(inferred, allocation), *_aligned(inferred, allocation, bases))


def check_capacity(inferred: Inferred, stages: int) -> tuple[Refusal, ...]:
    """Does the allocation, ``stages`` times, fit in the shared memory of one block?"""
    allocation = allocation_of(inferred)
    return _fits(allocation.domains, allocation.size_bytes * stages)


def check_tile_capacity(inferred: Inferred) -> tuple[Refusal, ...]:
    """Does one tile fit? Loops that are not yet given to blocks may still share the rest."""
    every = tuple(one for dimension in inferred.dimensions for one in dimension.raw)
    return _fits(every, inferred.tensor_map.tile_bytes)


def tile_addresses(walked: Walk, allocation: Allocation) -> Index:
    """Shared-memory byte addresses, shape (tiles, elements of a tile), from the allocation's base.

    Elements are in the tile's order, innermost dimension fastest.
    """
    inferred = walked.inferred
    values = dict(walked.values)
    propagate(
        values,
        (
            *inferred.domains.loop_expressions,
            *inferred.domains.allocation_expressions,
            *inferred.domains.shared_expressions,
        ),
    )
    address: Index = np.zeros((1,) * (len(inferred.dimensions) + 1), dtype=np.int64)
    for one in allocation.domains:
        if one.extent > 1 or one in values:
            index = values[one] if one.extent > 1 else np.int64(0)
            address = address * one.extent + index
    tiles = tuple(dimension.tile for dimension in reversed(inferred.dimensions))
    full = np.broadcast_to(address, (walked.tiles, *tiles))
    return full.reshape(walked.tiles, -1) * inferred.transfer.element_type.width


def _examined(inferred: Inferred) -> Index:
    """Linear tile indices to look at, block indices at 0."""
    blocks = {
        inferred.domains.loop[axis]
        for axis, kind in inferred.transfer.parallel
        if kind.is_block or kind is Parallel.BULK
    }
    most = EXHAUSTIVE_ELEMENTS // max(1, tile_elements(inferred.dimensions))
    every = tile_count(inferred) <= most
    linear: Index = np.zeros(1, dtype=np.int64)
    for one in inferred.not_tile:
        if one in blocks:
            indices = np.zeros(1, dtype=np.int64)
        elif every:
            indices = np.arange(one.extent, dtype=np.int64)
        else:
            indices = np.unique(np.array([0, min(1, one.extent - 1), one.extent - 1]))
        linear = (linear[:, None] * one.extent + indices[None, :]).reshape(-1)
    return linear[: max(1, most)]


def _discontiguous(allocation: Allocation) -> Refusal:
    return refusal(
        Stage.SHARED,
        TILE_CONTIGUOUS,
        allocation.domains,
        "tiles side by side in the tile's order",
        "tile is not contiguous in shared memory",
    )


def _whole(inferred: Inferred, allocation: Allocation) -> tuple[Refusal, ...]:
    tile = inferred.tensor_map.tile_bytes
    if allocation.size_bytes % tile == 0:
        return ()
    reason = "allocation is not a multiple of whole tiles"
    expected = f"a multiple of {tile} bytes, not {allocation.size_bytes}"
    return (refusal(Stage.SHARED, WHOLE_TILES, allocation.domains, expected, reason),)


def _aligned(inferred: Inferred, allocation: Allocation, bases: Index) -> tuple[Refusal, ...]:
    tile = inferred.tensor_map.tile_bytes
    if (bases % tile).any():
        reason = "tile does not begin at a whole tile"
        expected = f"a multiple of {tile} bytes"
        return (refusal(Stage.SHARED, TILE_ALIGNED, allocation.domains, expected, reason),)
    unit = max(BASE_ALIGNMENT_BYTES, atom_bytes(inferred.transfer.swizzle_bytes))
    if (bases % unit).any():
        reason = f"tile is not aligned to {unit} bytes in shared memory"
        expected = f"a multiple of {unit} bytes"
        return (refusal(Stage.SHARED, TILE_ALIGNED, allocation.domains, expected, reason),)
    return ()


def _fits(concerned: tuple[IterDomain, ...], size_bytes: int) -> tuple[Refusal, ...]:
    if size_bytes <= CAPACITY_BYTES:
        return ()
    reason = f"{size_bytes} B of shared memory exceed {CAPACITY_BYTES} B"
    expected = f"at most {CAPACITY_BYTES} bytes"
    return (refusal(Stage.SHARED, CAPACITY, concerned, expected, reason),)
