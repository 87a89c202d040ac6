"""A compiled-to-be program: kernels in launch order, their sources and parameters, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from teir.ir.nodes import Program
from teir.tma.tensor_map import TensorMap

SHARED_LIMIT_BYTES = 232_448
"""Shared memory one block may have (CUDA programming guide, compute capability 9.0)."""
SHARED_RESERVED_BYTES = 1024
"""What each block takes of a multiprocessor's beside its own (CUDA programming guide)."""
MULTIPROCESSORS = 132
"""Of the H100 SXM and the H200: how many blocks a persistent grid has."""


class Family(Enum):
    """The kernels there are."""

    GENERIC = "generic"
    """Any dense root: a block per point of the grid walks the schedule as it is written."""
    MAP = "map"
    """Element-wise results, copies included, in the order of the output."""
    TURN = "turn"
    """A permutation through shared memory, plain loads."""
    TURN_TILES = "turn-tiles"
    """A permutation through shared memory, tile loads."""
    MAP_TILES = "map-tiles"
    """Element-wise results, inputs by tile loads."""
    PRODUCT = "product"
    """A contraction by fused multiply-adds."""
    WARPGROUP = "warpgroup"
    """A contraction by warpgroup products, tile loads."""


class Arena(Enum):
    """Scratch memory: of the whole run, or of one block."""

    RUN = "run"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPointer:
    """A parameter: the address of an operand, or of a scratch tensor of the whole run."""

    tensor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaPointer:
    """A parameter: the address of an arena."""

    arena: Arena


@dataclass(frozen=True, slots=True, kw_only=True)
class MapParameter:
    """A parameter: a tensor map; ``described.address`` counts from the operand's address."""

    tensor: str
    described: TensorMap


Parameter = TensorPointer | ArenaPointer | MapParameter


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaKernel:
    """One launch: source, parameters in their order, grid.

    ``threads_and_registers`` lists the roles of a block: threads, and registers per thread, None
    where the compiler is free. ``block_arena_bytes`` are needed per block.
    """

    name: str
    family: Family
    source: str
    parameters: tuple[Parameter, ...]
    blocks: int
    threads: int
    shared_bytes: int = 0
    cluster: int = 1
    threads_and_registers: tuple[tuple[int, int], ...] = ()
    block_arena_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaProgram:
    """``kernels`` run one after the other; ``program`` carries the decisions as metadata.

    ``alignment`` says what each operand's address must be a multiple of.
    """

    program: Program
    kernels: tuple[CudaKernel, ...]
    run_arena_bytes: int
    run_scratch: tuple[tuple[str, int], ...]
    """Scratch tensors of the whole run, and where in its arena their base addresses lie."""
    alignment: tuple[tuple[str, int], ...]
