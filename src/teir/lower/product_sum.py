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
_STREAMED_BYTES = 24 << 20
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
        calls = _sums(tile, lane_axis, inside, accumulate, isa)
        return wrap_in_loops([*loops, *outside], tile.operands, calls)
    return _product_sum_wide(tile, isa, accumulator, lane_axis, loops, inside, outside)


def _sums(
    tile: ContractionTile,
    lane_axis: TileAxis,
    inside: list[TileAxis],
    accumulate: bool,
    isa: Isa,
) -> tuple[KernelNode, ...]:
    """The sums over two axes; the outer one apart where rows from memory are taken one by one."""
    batch, k = inside
    run = _run(tile, lane_axis, inside, isa)
    if batch.extent == 1 or run == k.extent:
        return _in_runs(tile, tile.operands, lane_axis, inside, run, accumulate, isa)
    alone = [TileAxis(1, (0,) * len(tile.operands)), k]
    first = _in_runs(tile, tile.operands, lane_axis, alone, run, accumulate, isa)
    beyond = _moved(tile.operands, batch, 1)
    again = _in_runs(tile, beyond, lane_axis, alone, run, True, isa)
    rest = TileAxis(batch.extent - 1, batch.strides)
    return (*first, *wrap_in_loops([rest], tile.operands, again))


def _moved(operands: tuple[Address, ...], axis: TileAxis, start: int) -> tuple[Address, ...]:
    """The operands at an index of an axis."""
    return tuple(
        Address(slot=address.slot, offset_bytes=address.offset_bytes + start * stride)
        for address, stride in zip(operands, axis.strides, strict=True)
    )


def _in_runs(
    tile: ContractionTile,
    operands: tuple[Address, ...],
    lane_axis: TileAxis,
    inside: list[TileAxis],
    run: int,
    accumulate: bool,
    isa: Isa,
) -> tuple[KernelNode, ...]:
    """The sum in runs of so many terms, each along the whole lane axis.

    The output holds the sums between runs, so it must be as wide as they are.
    """
    batch, k = inside

    def call(start: int, extent: int, accumulate: bool) -> Call:
        near = _moved(operands, k, start)
        terms = [batch, TileAxis(extent, k.strides)]
        return _product_sum(tile, lane_axis, terms, near, tile.out_type, accumulate, isa)

    if 2 * run > k.extent:
        return (call(0, k.extent, accumulate),)
    runs, left = divmod(k.extent, run)
    steps = TileAxis(runs - 1, tuple(run * stride for stride in k.strides))
    nodes: list[KernelNode] = [call(0, run, accumulate)]
    nodes += wrap_in_loops([steps], operands, (call(run, run, True),))
    if left:
        nodes.append(call(runs * run, left, True))
    return tuple(nodes)


def _run(tile: ContractionTile, lane_axis: TileAxis, inside: list[TileAxis], isa: Isa) -> int:
    """Terms of one run: all where the output cannot hold sums between runs, or a kernel takes whole
    rows; one of short rows that all loops around together bring from memory."""
    batch, k = inside
    is_wide = tile.out_type.accumulator is tile.out_type and lane_axis.strides[-1] != 0
    if not is_wide or _row_vectors(tile, lane_axis, tile.out_type, isa) is not None:
        return k.extent
    row_bytes = _row_bytes(tile, lane_axis, inside)
    is_short = row_bytes in _SHORT_ROW_BYTES
    if is_short and row_bytes * batch.extent * k.extent * tile.tiles >= _STREAMED_BYTES:
        return 1
    if batch.extent > 1 or row_bytes * k.extent < _LARGE_BYTES:
        return k.extent
    if row_bytes >= _SHORT_ROW_BYTES.start:
        return _ROWS
    lanes = full_lanes(isa, tile.in_type, tile.out_type)
    is_one_piece = lane_axis.extent <= lanes or lane_axis.extent == VECTORS_AT_ONCE * lanes
    return k.extent if is_one_piece else _NEAR_BYTES // row_bytes


def _row_bytes(tile: ContractionTile, lane_axis: TileAxis, inside: list[TileAxis]) -> int:
    """The bytes of adjacent lanes that a term reads."""
    strides = zip(*(axis.strides[:-1] for axis in (lane_axis, *inside)), strict=True)
    pairs = zip(strides, tile.widths[:-1], strict=True)
    moving = [width for (lane, *terms), width in pairs if lane == width and any(terms)]
    return lane_axis.extent * sum(moving)


def _row_vectors(
    tile: ContractionTile, lane_axis: TileAxis, out_type: DataType, isa: Isa
) -> int | None:
    """The vectors of a row of one input or two, if most registers hold its sums: rows are summed
    as they come then, one after the other.

    Measured on Zen 4: 0.23 to 0.9 of the time of pieces of four vectors, which read lines of many
    rows in turn, where rows come from memory, 0.6 to 1.0 where caches hold them.
    """
    if tile.in_type is not out_type or len(tile.operands) > 3:
        return None
    if out_type.accumulator is not out_type or lane_axis.strides != tile.widths:
        return None
    vectors = -(-lane_axis.extent // full_lanes(isa, tile.in_type, out_type))
    return vectors if 1 < vectors <= 3 * isa.vector_registers // 4 else None


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
        vectors=_row_vectors(tile, lane_axis, out_type, isa),
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
