"""How long a program takes, from its text alone: a roofline with caches, to rank candidates.

For every leaf four times are put side by side, and the longest counts in full, the others by the
share that does not overlap:

    arithmetic    products / (peak x lanes filled x multiply-adds kept busy)
    near caches   bytes that L1 fetches from L2, and L2 from L3, over the bandwidth of each
    memory        bytes that L3 fetches, over the bandwidth of memory
    calls         kernel calls, each some nanoseconds, and the block of C each loads and stores

What a cache fetches is said in `teir.search.traffic`. Measured on Golden Cove, one thread, the 48
contractions of TCCG and 384 drawn products, permutations and sums, FP32 and FP64: within a factor
of two of the predicted time are 88 %, of 1.5 66 %; the mean is 1.03 of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from teir.ir.lanes import lanes_of
from teir.ir.nodes import Axis, Operation, Program
from teir.ir.subnormals import flushes_subnormals
from teir.search.machine import Machine, Speeds
from teir.search.model_sites import sites_of_leaf, sites_seconds
from teir.search.traffic import Leaf, fetched_bytes, footprint, leaves_of, memory_bytes

_CHAINS = 10
"""Independent sums that keep the multiply-add units busy."""
_CALL = 6e-9
"""Seconds to reach a kernel and to leave it."""
_COLUMNS = {1: 16, 2: 12, 3: 9, 4: 6}
"""Columns of a register block by its vectors."""
_HIDDEN = 0.75
"""The share of the shorter times that overlaps the longest."""
_GATHERED = 3.0
"""How many times as long a product takes whose lanes are not adjacent."""
_TURNED = 1.25
"""How many times as long a copy takes between the caches where it transposes."""
_BY_TILES = 8192
"""Products of a tile of the program from which tile registers form it."""
_TILE_ROWS = 16
_STORED_BY_TILES = 0.18e-9
"""Seconds in which a result leaves a tile register, is added and rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Seconds of one run, and what they are made of.

    ``memory_bytes`` is what L3 is expected to fetch and to write back.
    """

    seconds: float
    arithmetic_seconds: float
    cache_seconds: float
    memory_seconds: float
    call_seconds: float
    memory_bytes: float

    @property
    def bound_by(self) -> str:
        """What takes the longest, in a word."""
        parts = {
            "arithmetic": self.arithmetic_seconds,
            "caches": self.cache_seconds,
            "memory": self.memory_seconds,
            "calls": self.call_seconds,
        }
        return max(parts, key=lambda name: parts[name])


def predict(program: Program, machine: Machine, speeds: Speeds) -> Prediction:
    """The expected run of a dense program, one of several on the same operands."""
    leaves = tuple(leaves_of(program))
    total = footprint(leaves)
    return _sum([_leaf_time(leaf, total, machine, speeds) for leaf in leaves])


def _leaf_time(leaf: Leaf, footprint_bytes: float, machine: Machine, speeds: Speeds) -> Prediction:
    arithmetic, calls = _kernel_time(leaf, machine, speeds)
    near = fetched_bytes(leaf, machine.l1_bytes, footprint_bytes) / speeds.l2_bytes_per_second
    middle = fetched_bytes(leaf, machine.l2_bytes, footprint_bytes) / speeds.l3_bytes_per_second
    far = memory_bytes(leaf, speeds.l3_bytes, footprint_bytes)
    memory = far / speeds.memory_bytes_per_second
    if leaf.primitive.operation is not Operation.CONTRACTION and _turns(leaf):
        near, middle = _TURNED * near, _TURNED * middle
    workers = machine.threads if leaf.is_parallel else 1
    parts = (arithmetic / workers, (near + middle) / workers, memory, calls / workers)
    longest = max(parts)
    return Prediction(
        seconds=longest + (1 - _HIDDEN) * (sum(parts) - longest),
        arithmetic_seconds=parts[0],
        cache_seconds=parts[1],
        memory_seconds=parts[2],
        call_seconds=parts[3],
        memory_bytes=far,
    )


def _sum(times: Sequence[Prediction]) -> Prediction:
    return Prediction(
        seconds=sum(time.seconds for time in times),
        arithmetic_seconds=sum(time.arithmetic_seconds for time in times),
        cache_seconds=sum(time.cache_seconds for time in times),
        memory_seconds=sum(time.memory_seconds for time in times),
        call_seconds=sum(time.call_seconds for time in times),
        memory_bytes=sum(time.memory_bytes for time in times),
    )


def _kernel_time(leaf: Leaf, machine: Machine, speeds: Speeds) -> tuple[float, float]:
    """Seconds of arithmetic, and of calls with the blocks they load and store."""
    primitive = leaf.primitive
    data_type = leaf.types[primitive.output]
    if primitive.operation is not Operation.CONTRACTION:
        return 0.0, leaf.trips * _CALL * max(1, _outer_extent(leaf.tile))
    if speeds.tile_flops_per_second is not None and _is_by_tiles(leaf, machine):
        return _tile_time(leaf, speeds.tile_flops_per_second)
    peak = speeds.flops_per_second(data_type)
    sites = sites_of_leaf(leaf, machine)
    if sites is not None:
        return sites_seconds(leaf, sites, machine, peak), leaf.trips * _CALL
    products = leaf.trips * prod(axis.extent for axis in leaf.tile)
    flops = 2 * products * (4 if data_type.is_complex else 1)
    lanes = machine.lanes(data_type.accumulator.width)
    rows, columns, is_adjacent = _block_sides(leaf)
    vectors = ceil(rows.extent / lanes) if rows is not None else 1
    filled = 1 / lanes if rows is None else rows.extent / (vectors * lanes)
    width = 1 if columns is None else columns.extent
    tall = min(4, vectors)
    wide = min(width, _COLUMNS[tall])
    busy = min(1.0, tall * wide / _CHAINS)
    if _sums_in_lanes(leaf):
        filled, is_adjacent = 1.0, True
    seconds = flops / (peak * filled * busy)
    if not is_adjacent:
        seconds *= _GATHERED
    free = prod(axis.extent for axis in leaf.tile if axis.strides[primitive.output])
    sides = (1 if rows is None else rows.extent) * width
    blocks = leaf.trips * free // max(1, sides) * ceil(vectors / tall) * ceil(width / wide)
    step = 2 * lanes * 2 / peak
    return seconds, blocks * (_CALL + 2 * tall * wide * step)


def _is_by_tiles(leaf: Leaf, machine: Machine) -> bool:
    """True where tile registers form the product, as far as its type and its size say."""
    is_pairs = flushes_subnormals(leaf.primitive)
    return machine.has_tiles and is_pairs and prod(axis.extent for axis in leaf.tile) >= _BY_TILES


def _tile_time(leaf: Leaf, peak: float) -> tuple[float, float]:
    """As `_kernel_time`: tiles hold 16 rows each, whatever exists of them."""
    products = leaf.trips * prod(axis.extent for axis in leaf.tile)
    rows, _, _ = _block_sides(leaf)
    height = 1 if rows is None else rows.extent
    filled = height / (_TILE_ROWS * ceil(height / _TILE_ROWS))
    free = prod(axis.extent for axis in leaf.tile if axis.strides[leaf.primitive.output])
    return 2 * products / (peak * filled), leaf.trips * (_CALL + free * _STORED_BY_TILES)


def _outer_extent(tile: Sequence[Axis]) -> int:
    """Calls of an element-wise kernel: it takes the two longest axes of a tile."""
    extents = sorted((axis.extent for axis in tile), reverse=True)
    return prod(extents[2:])


def _block_sides(leaf: Leaf) -> tuple[Axis | None, Axis | None, bool]:
    """The axes a register block spans, and whether its lanes are adjacent in input and output."""
    primitive = leaf.primitive
    output = primitive.output
    free = [axis for axis in leaf.tile if axis.strides[output]]
    width = leaf.types[output].width

    def movers(axis: Axis) -> list[str]:
        return [name for name in primitive.inputs if axis.strides[name]]

    alone = [axis for axis in free if len(movers(axis)) == 1] or free
    if not alone:
        return None, None, True
    lanes = min(alone, key=lambda axis: (axis.strides[output], -axis.extent))
    moving = set(movers(lanes))
    others = [axis for axis in free if axis is not lanes and not moving & set(movers(axis))]
    columns = max(others, key=lambda axis: axis.extent, default=None)
    is_adjacent = lanes.strides[output] == width and all(
        lanes.strides[name] == leaf.types[name].width for name in moving
    )
    return lanes, columns, is_adjacent


def _sums_in_lanes(leaf: Leaf) -> bool:
    """True where the program has lanes along K and all inputs are adjacent there."""
    primitive = leaf.primitive
    return lanes_of(primitive) is not None and any(
        all(axis.strides[name] == leaf.types[name].width for name in primitive.inputs)
        for axis in leaf.tile
        if not axis.strides[primitive.output]
    )


def _turns(leaf: Leaf) -> bool:
    """True where no axis is adjacent both in what is read and in what is written."""
    moved = (*leaf.primitive.inputs, leaf.primitive.output)
    return bool(leaf.tile) and not any(
        all(axis.strides[name] in (0, leaf.types[name].width) for name in moved)
        for axis in leaf.tile
    )
