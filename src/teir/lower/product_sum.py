"""Lowering of the tiles no register block takes: any number of inputs, any strides."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.blocking import full_lanes
from teir.lower.contraction_tile import Accumulator, ContractionTile
from teir.lower.elementwise import access, accesses, lower_elementwise
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.kernels import ProductSum
from teir.target import Isa

VECTORS_AT_ONCE = 4
"""Chains in flight along the lane axis, enough to hide most of the latency of the fused
multiply-add."""
SUM_REDUCTIONS = 2
"""Reduction loops inside a ProductSum: k, batch."""

_LARGE_BYTES = 1 << 18
"""Inputs that pieces of the lane axis should not walk through one after the other."""
_STREAMED_BYTES = 16 << 20
"""Inputs that come from memory."""
_SHORT_ROW_BYTES = range(512, 8193)
_NEAR_BYTES = 1 << 14
"""Terms of short rows taken together, where a row is walked in several pieces: what one brings into
the first cache the others find there. 0.3 to 0.9 of the time beyond the second cache."""
_ROWS = 8
"""Terms of the sum taken together: as many streams as the hardware prefetchers follow, where each
has pages of its own; of short rows, which share pages, they follow one."""


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
        calls = _in_runs(tile, lane_axis, inside, accumulate, isa)
        return wrap_in_loops([*loops, *outside], tile.operands, calls)
    return _product_sum_wide(tile, isa, accumulator, lane_axis, loops, inside, outside)


def _in_runs(
    tile: ContractionTile,
    lane_axis: TileAxis,
    inside: list[TileAxis],
    accumulate: bool,
    isa: Isa,
) -> tuple[KernelNode, ...]:
    """The sum in runs of its terms, each along the whole lane axis; one run where that is as good.

    The output holds the sums between runs, so it must be as wide as they are.
    """
    batch, k = inside
    run = _run(tile, lane_axis, batch, k, full_lanes(isa, tile.in_type, tile.out_type))

    def call(start: int, extent: int, accumulate: bool) -> Call:
        near = tuple(
            Address(slot=address.slot, offset_bytes=address.offset_bytes + start * stride)
            for address, stride in zip(tile.operands, k.strides, strict=True)
        )
        terms = [batch, TileAxis(extent, k.strides)]
        return _product_sum(tile, lane_axis, terms, near, tile.out_type, accumulate, isa)

    if 2 * run > k.extent:
        return (call(0, k.extent, accumulate),)
    runs, left = divmod(k.extent, run)
    steps = TileAxis(runs - 1, tuple(run * stride for stride in k.strides))
    nodes: list[KernelNode] = [call(0, run, accumulate)]
    nodes += wrap_in_loops([steps], tile.operands, (call(run, run, True),))
    if left:
        nodes.append(call(runs * run, left, True))
    return tuple(nodes)


def _run(
    tile: ContractionTile, lane_axis: TileAxis, batch: TileAxis, k: TileAxis, lanes: int
) -> int:
    """Terms of one run."""
    pairs = zip(lane_axis.strides[:-1], k.strides[:-1], tile.widths[:-1], strict=True)
    moving = [width for lane, term, width in pairs if lane == width and term]
    row_bytes = lane_axis.extent * sum(moving)
    is_wide = tile.out_type.accumulator is tile.out_type and lane_axis.strides[-1] != 0
    if batch.extent > 1 or not is_wide or row_bytes * k.extent < _LARGE_BYTES:
        return k.extent
    if row_bytes * k.extent >= _STREAMED_BYTES and row_bytes in _SHORT_ROW_BYTES:
        return 1
    if row_bytes >= _SHORT_ROW_BYTES.start:
        return _ROWS
    is_one_piece = lane_axis.extent <= lanes or lane_axis.extent == VECTORS_AT_ONCE * lanes
    return k.extent if is_one_piece else _NEAR_BYTES // row_bytes


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
        nodes += wrap_in_loops(outside, operands, (call,))
        nodes += lower_elementwise(
            Operation.COPY, (to_narrow,), (wide, near[-1]), (wide_type, tile.out_type), isa
        )
    return wrap_in_loops(loops, tile.operands, tuple(nodes))


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
