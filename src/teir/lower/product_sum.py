"""Lowering of the tiles no register block takes: any number of inputs, any strides."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.blocking import full_lanes
from teir.lower.contraction_tile import Accumulator, ContractionTile
from teir.lower.elementwise import access, accesses, lower_elementwise
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.kernels import Access, ProductSum
from teir.target import Isa

SUM_REDUCTIONS = 2
"""Reduction loops inside a ProductSum: k, batch."""


def lower_product_sum(
    tile: ContractionTile, isa: Isa, accumulator: Accumulator | None
) -> tuple[KernelNode, ...]:
    """Loops around `ProductSum` calls; ``accumulator`` holds a narrow output between them."""
    still = TileAxis(1, (0,) * len(tile.operands))
    lane_axis = max(
        tile.free,
        key=lambda axis: _adjacent(axis, tile) * min(axis.extent, 16),
        default=TileAxis(1, tile.widths),
    )
    loops = [axis for axis in tile.free if axis is not lane_axis]
    reductions = [still] * (SUM_REDUCTIONS - len(tile.reductions)) + list(tile.reductions)
    inside, outside = reductions[-SUM_REDUCTIONS:], reductions[:-SUM_REDUCTIONS]
    if accumulator is None or not outside:
        accumulate = not (tile.from_zero and not outside)
        call = _product_sum(tile, lane_axis, inside, tile.operands, tile.out_type, accumulate, isa)
        return wrap_in_loops([*loops, *outside], tile.slots, (call,))
    return _product_sum_wide(tile, isa, accumulator, lane_axis, loops, inside, outside)


def _product_sum_wide(
    tile: ContractionTile,
    isa: Isa,
    accumulator: Accumulator,
    lane_axis: TileAxis,
    loops: list[TileAxis],
    inside: list[TileAxis],
    outside: list[TileAxis],
) -> tuple[KernelNode, ...]:
    """As a block of `teir.lower.gemm`, for runs of at most an accumulator's lanes."""
    wide_type = tile.out_type.accumulator
    room = accumulator.bytes // wide_type.width
    wide = Address(slot=accumulator.slot, offset_bytes=0)
    nodes: list[KernelNode] = []
    for start in range(0, lane_axis.extent, room):
        run = TileAxis(min(room, lane_axis.extent - start), lane_axis.strides)
        near = tuple(
            Address(slot=address.slot, offset_bytes=address.offset_bytes + stride * start)
            for address, stride in zip(tile.operands, run.strides, strict=True)
        )
        to_wide = TileAxis(run.extent, (run.strides[-1], wide_type.width))
        to_narrow = TileAxis(run.extent, to_wide.strides[::-1])
        operands = (*near[:-1], wide)
        wide_run = TileAxis(run.extent, (*run.strides[:-1], wide_type.width))
        call = _product_sum(tile, wide_run, inside, operands, wide_type, True, isa)
        nodes += lower_elementwise(
            Operation.COPY, (to_wide,), (near[-1], wide), (tile.out_type, wide_type), isa
        )
        nodes += wrap_in_loops(outside, [address.slot for address in operands], (call,))
        nodes += lower_elementwise(
            Operation.COPY, (to_narrow,), (wide, near[-1]), (wide_type, tile.out_type), isa
        )
    return wrap_in_loops(loops, tile.slots, tuple(nodes))


def _product_sum(
    tile: ContractionTile,
    lane_axis: TileAxis,
    inside: list[TileAxis],
    operands: tuple[Address, ...],
    out_type: DataType,
    accumulate: bool,
    isa: Isa,
) -> Call:
    batch, k = inside
    widths = (*tile.widths[:-1], out_type.width)
    kernel = ProductSum(
        in_type=tile.in_type,
        out_type=out_type,
        inputs=len(operands) - 1,
        lanes=full_lanes(isa, tile.in_type, out_type),
        accesses=accesses(lane_axis, widths),
    )
    arguments = (
        lane_axis.extent,
        k.extent,
        batch.extent,
        int(accumulate),
        *lane_axis.strides,
        *k.strides[:-1],
        *batch.strides[:-1],
    )
    return Call(kernel=kernel, operands=operands, arguments=arguments)


def _adjacent(axis: TileAxis, tile: ContractionTile) -> int:
    kinds = [access(stride, width) for stride, width in zip(axis.strides, tile.widths, strict=True)]
    return 1 + sum(kind is not Access.STRIDED for kind in kinds)
