"""Lowering of batches of small products: one call runs many of them.

Inside one product every extent and stride is a constant of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.lower.axes import STILL, TileAxis, wrap_in_loops
from teir.lower.block_shapes import block_shapes
from teir.lower.blocking import full_lanes
from teir.lower.contraction_tile import ContractionTile
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.kernels import BatchBlock
from teir.target import Isa

_MOST_STEPS = 200
"""Vector multiply-adds of one product: all are written out, and longer ones need no such kernel."""
_FEWEST_PRODUCTS = 8
"""Products for which a kernel of their own is compiled."""
_LONGEST_RUN = 1 << 24
"""Vector multiply-adds of one call, for a kernel cannot be interrupted."""


@dataclass(frozen=True, slots=True)
class BatchAxes:
    """The axes of a batch of small products; strides in the order A, B, C."""

    rows: TileAxis
    columns: TileAxis
    k: TileAxis
    batch: TileAxis
    loops: tuple[TileAxis, ...]
    swapped: bool


def batch_axes(tile: ContractionTile, isa: Isa) -> BatchAxes | None:
    """The axes of a tile that is a batch of small products; None for every other tile.

    The rows are adjacent on one input, A, and on the output; there is one reduction.
    """
    if len(tile.operands) != 3 or len(tile.reductions) != 1 or len(tile.free) < 2:
        return None
    if tile.reductions[0].extent > _MOST_STEPS:
        return None
    near, _, out = tile.widths
    lying = [axis.strides for axis in tile.free]
    longest = _MOST_STEPS * full_lanes(isa, tile.in_type, tile.out_type)
    for swapped, wanted in ((False, (near, 0, out)), (True, (0, near, out))):
        if wanted not in lying:
            continue
        place = lying.index(wanted)
        if tile.free[place].extent * tile.reductions[0].extent > longest:
            return None
        axes = [_in_order(axis, swapped) for axis in tile.free]
        rows = axes.pop(place)
        rest = axes
        k = _in_order(tile.reductions[0], swapped)
        chosen = _columns_and_batch(rows, rest, k, tile, isa)
        if chosen is None:
            return None
        columns, batch = chosen
        loops = tuple(axis for axis in rest if axis is not columns and axis is not batch)
        return BatchAxes(rows, columns, k, batch, loops, swapped)
    return None


def _in_order(axis: TileAxis, swapped: bool) -> TileAxis:
    first, second, output = axis.strides
    return TileAxis(axis.extent, (second, first, output)) if swapped else axis


def _columns_and_batch(
    rows: TileAxis, rest: list[TileAxis], k: TileAxis, tile: ContractionTile, isa: Isa
) -> tuple[TileAxis, TileAxis] | None:
    """The columns and the batch of a product small enough to be written out."""
    still = [axis for axis in rest if not axis.strides[0] and axis.strides[1]]
    columns = max(still, key=lambda axis: axis.extent, default=STILL)
    others = [axis for axis in rest if axis is not columns]
    batch = max(others, key=lambda axis: axis.extent, default=None)
    if batch is None or batch.extent < _FEWEST_PRODUCTS:
        return None
    vectors = -(-rows.extent // _lanes(rows.extent, tile, isa))
    chained = 2 if tile.in_type.is_complex else 1
    room = _MOST_STEPS // (vectors * k.extent * chained)
    if columns.extent > room or _columns_at_once(vectors, tile, isa) == 0:
        return None
    return columns, batch


def _lanes(rows: int, tile: ContractionTile, isa: Isa) -> int:
    """Lanes of one vector: no more than half of a short row's vector is left out."""
    lanes = full_lanes(isa, tile.in_type, tile.out_type)
    while lanes > 1 and lanes // 2 >= rows:
        lanes //= 2
    return lanes


def _columns_at_once(vectors: int, tile: ContractionTile, isa: Isa) -> int:
    """The most columns whose accumulators stay in registers."""
    shapes = block_shapes(isa, tile.in_type, tile.out_type)
    return max((columns for height, columns in shapes if height == vectors), default=0)


def lower_batch_blocks(tile: ContractionTile, axes: BatchAxes, isa: Isa) -> tuple[KernelNode, ...]:
    """`BatchBlock` calls, in loops where there are further axes or very many products."""
    first, second, output = tile.operands
    operands = (second, first, output) if axes.swapped else tile.operands
    kernel, last_lanes = _kernel(tile, axes, isa)
    most = max(1, _LONGEST_RUN // (kernel.vectors * kernel.columns * kernel.depth))
    batch = axes.batch
    whole, left = divmod(batch.extent, most)
    nodes: tuple[KernelNode, ...] = ()
    if whole:
        runs = TileAxis(whole, tuple(stride * most for stride in batch.strides))
        call = Call(kernel=kernel, operands=operands, arguments=(most, *batch.strides, last_lanes))
        nodes += wrap_in_loops((runs,), operands, (call,)) if whole > 1 else (call,)
    if left:
        rest = tuple(
            Address(slot=address.slot, offset_bytes=address.offset_bytes + stride * most * whole)
            for address, stride in zip(operands, batch.strides, strict=True)
        )
        nodes += (Call(kernel=kernel, operands=rest, arguments=(left, *batch.strides, last_lanes)),)
    return wrap_in_loops(axes.loops, operands, nodes)


def _kernel(tile: ContractionTile, axes: BatchAxes, isa: Isa) -> tuple[BatchBlock, int]:
    """The kernel, and the lanes of the last vector that exist."""
    lanes = _lanes(axes.rows.extent, tile, isa)
    vectors = -(-axes.rows.extent // lanes)
    last_lanes = axes.rows.extent - (vectors - 1) * lanes
    blocks = -(-axes.columns.extent // _columns_at_once(vectors, tile, isa))
    kernel = BatchBlock(
        in_type=tile.in_type,
        out_type=tile.out_type,
        lanes=lanes,
        vectors=vectors,
        masked=last_lanes < lanes,
        columns=axes.columns.extent,
        columns_at_once=-(-axes.columns.extent // blocks),
        depth=axes.k.extent,
        a_k=axes.k.strides[0],
        b_k=axes.k.strides[1],
        b_n=axes.columns.strides[1],
        c_n=axes.columns.strides[2],
        from_zero=tile.from_zero,
    )
    return kernel, last_lanes
