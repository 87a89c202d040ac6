"""The nodes of the tile-load language: a transfer between two memories and its schedule.

A `Transfer` says what a kernel writer decides: the global tensor as it lies in memory, the verbs
that schedule the consumer, how the resulting IterDomains are run, and where tiles go in shared
memory. Roles, boxes and the tensor map are not stored; `teir.tma.check` infers them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from teir.tma.element_types import ElementType


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Replace IterDomain ``axis`` of extent n by two.

    Inner split: ``(ceil(n / factor), factor)``. Outer split (``outer``): ``(factor, ceil(n /
    factor))``. Neither needs to divide.
    """

    axis: int
    factor: int
    outer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Replace IterDomains ``outer`` and ``inner`` by their product, at the first of both places."""

    outer: int
    inner: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder:
    """Move IterDomains: pairs (old position, new position); the others keep their order."""

    moves: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flatten:
    """Merge the IterDomains ``first`` to ``last``, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Swizzle:
    """``y`` becomes ``x xor y``; both have the same power of two as extent."""

    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Extend IterDomain ``axis`` by ``left`` positions before it and ``right`` behind it."""

    axis: int
    left: int
    right: int


Verb = Split | Merge | Reorder | Flatten | Swizzle | Resize
"""One step of a schedule. Positions may be negative, counted from the end."""


class Direction(Enum):
    """Which memory is written."""

    LOAD = "load"
    STORE = "store"


class Instruction(Enum):
    """How the bytes move."""

    TENSOR = "tensor"
    """``cp.async.bulk.tensor``: a tile, described by a tensor map."""
    BULK = "bulk"
    """``cp.async.bulk``: one contiguous run of bytes, without a tensor map."""
    PLAIN = "plain"
    """Ordinary loads and stores by threads."""


class Parallel(Enum):
    """How an IterDomain of the loop domain is run; those without are serial loops."""

    BULK = "Bulk"
    BLOCK_X = "BIDx"
    BLOCK_Y = "BIDy"
    BLOCK_Z = "BIDz"
    THREAD_X = "TIDx"
    THREAD_Y = "TIDy"
    THREAD_Z = "TIDz"
    VECTORIZE = "Vectorize"
    UNROLL = "Unroll"
    SERIAL = "Serial"

    @property
    def is_block(self) -> bool:
        return self in (Parallel.BLOCK_X, Parallel.BLOCK_Y, Parallel.BLOCK_Z)

    @property
    def is_thread(self) -> bool:
        return self in (Parallel.THREAD_X, Parallel.THREAD_Y, Parallel.THREAD_Z)


@dataclass(frozen=True, slots=True, kw_only=True)
class CircularBuffer:
    """Stages of a software pipeline; ``warp_specialised``: a warp of its own issues the copies."""

    stages: int
    warp_specialised: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLayout:
    """The allocation domain of the tensor in shared memory.

    ``verbs`` act on the logical domain; None means the loop domain. ``unallocated`` are positions
    in the result that take no space (blocks have memory of their own).
    """

    verbs: tuple[Verb, ...] | None
    unallocated: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One tile transfer and the schedule of its consumer.

    ``shape`` and ``strides_elements`` describe the logical domain in global memory, outermost
    first; ``contiguous[i]`` promises that stride i is extent i+1 times stride i+1 (the last: that
    it is 1). ``allocation`` derives the allocation domain from the logical one. ``broadcast`` names
    logical axes that a broadcast made. ``strong`` asks that every hole of a loaded tile holds 0.
    ``threads`` is blockDim.x where the writer fixes it.
    """

    name: str
    direction: Direction
    instruction: Instruction
    element_type: ElementType
    shape: tuple[int, ...]
    strides_elements: tuple[int, ...]
    contiguous: tuple[bool, ...]
    base_address_mod_128: int
    allocation: tuple[Verb, ...] | None
    broadcast: frozenset[int]
    schedule: tuple[Verb, ...]
    parallel: tuple[tuple[int, Parallel], ...]
    shared: SharedLayout | None
    swizzle_bytes: int
    circular_buffer: CircularBuffer | None
    strong: bool
    threads: int | None
