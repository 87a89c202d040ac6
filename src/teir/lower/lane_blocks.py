"""Lowering of products whose lanes lie along an axis of all three operands (role C).

The rows are the axes only in0 and the output move along, the columns those of in1 and the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.dtypes import DataType
from teir.lower.axes import STILL, TileAxis, wrap_in_loops
from teir.lower.blocking import full_lanes
from teir.lower.contraction_tile import ContractionTile
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.kernels import LaneBlock
from teir.target import Isa

LANE_REDUCTIONS = 3
"""Reduction loops inside a LaneBlock: k, batch, outer."""

_FEWEST_LANES = 4
_PLAIN_TYPES = (DataType.FP32, DataType.FP64)


@dataclass(frozen=True, slots=True)
class LaneAxes:
    """The axes of a tile by what they do; ``loops`` are the other free axes."""

    lanes: TileAxis
    rows: TileAxis
    columns: TileAxis
    loops: tuple[TileAxis, ...]


def lane_axes(tile: ContractionTile) -> LaneAxes | None:
    """The axes of a tile whose lanes all three operands share; None where another kernel serves."""
    if len(tile.operands) != 3:
        return None
    is_narrow = tile.out_type.accumulator is not tile.out_type
    if is_narrow and len(tile.reductions) > LANE_REDUCTIONS:
        return None
    widths = tile.widths
    adjacent = [axis for axis in tile.free if axis.strides == widths]
    if not adjacent or adjacent[0].extent < _FEWEST_LANES:
        return None
    lanes = adjacent[0]
    rest = [axis for axis in tile.free if axis is not lanes]
    rows = [axis for axis in rest if not axis.strides[1] and axis.strides[0]]
    columns = [axis for axis in rest if not axis.strides[0] and axis.strides[1]]
    row = max(rows, key=lambda axis: axis.extent, default=STILL)
    column = max(columns, key=lambda axis: axis.extent, default=STILL)
    if row.extent * column.extent == 1:
        return None
    loops = tuple(axis for axis in rest if axis is not row and axis is not column)
    return LaneAxes(lanes, row, column, loops)


def lower_lane_blocks(tile: ContractionTile, axes: LaneAxes, isa: Isa) -> tuple[KernelNode, ...]:
    """Loops around `LaneBlock` calls, one per block of rows and columns."""
    inside = tile.reductions[-LANE_REDUCTIONS:]
    outside = tile.reductions[:-LANE_REDUCTIONS]
    accumulate = not (tile.from_zero and not outside)
    most_rows, most_columns = _block(axes, isa, tile.in_type)
    nodes: tuple[KernelNode, ...] = ()
    for rows in _cuts(axes.rows, most_rows):
        for columns in _cuts(axes.columns, most_columns):
            call = _call(tile, axes, inside, (rows, columns), accumulate, isa)
            around = (rows.blocks(axes.rows), columns.blocks(axes.columns))
            loops = [axis for axis in around if axis.extent > 1]
            nodes += wrap_in_loops([*loops, *outside], tile.operands, (call,))
    return wrap_in_loops(axes.loops, tile.operands, nodes)


@dataclass(frozen=True, slots=True)
class _Cut:
    """``count`` blocks of ``size`` indices, the first one beginning at ``start``."""

    start: int
    size: int
    count: int

    def blocks(self, axis: TileAxis) -> TileAxis:
        """The walk from block to block."""
        return TileAxis(self.count, tuple(stride * self.size for stride in axis.strides))


def _cuts(axis: TileAxis, largest: int) -> Iterator[_Cut]:
    """As few blocks as can be, their sizes differing by at most one."""
    pieces = -(-axis.extent // largest)
    size, longer = divmod(axis.extent, pieces)
    if longer:
        yield _Cut(0, size + 1, longer)
    yield _Cut(longer * (size + 1), size, pieces - longer)


def _block(axes: LaneAxes, isa: Isa, in_type: DataType) -> tuple[int, int]:
    """The most rows and columns whose accumulators, and the rows of A, stay in registers."""
    wide_file = isa.is_avx512 or isa is Isa.NEON
    is_plain = in_type in _PLAIN_TYPES
    alone = 2 * ((4 if wide_file else 3) - (not is_plain))
    if axes.columns.extent == 1:
        return alone, 1
    if axes.rows.extent == 1:
        return 1, alone
    # 25 sums, five rows of A and one of B are one register less than there are.
    side = 5 if wide_file and is_plain else alone // 2
    return side, side


def _call(
    tile: ContractionTile,
    axes: LaneAxes,
    inside: tuple[TileAxis, ...],
    cuts: tuple[_Cut, _Cut],
    accumulate: bool,
    isa: Isa,
) -> Call:
    rows, columns = cuts
    kernel = LaneBlock(
        in_type=tile.in_type,
        out_type=tile.out_type,
        lanes=full_lanes(isa, tile.in_type, tile.out_type),
        rows=rows.size,
        columns=columns.size,
        one_loop=len(inside) <= 1,
    )
    still = (STILL,) * (LANE_REDUCTIONS - len(inside))
    reduction = [
        value for axis in reversed((*still, *inside)) for value in (axis.extent, *axis.strides[:2])
    ]
    starts = zip(axes.rows.strides, axes.columns.strides, strict=True)
    operands = tuple(
        Address(
            slot=address.slot,
            offset_bytes=address.offset_bytes + row * rows.start + column * columns.start,
        )
        for address, (row, column) in zip(tile.operands, starts, strict=True)
    )
    arguments = (
        axes.lanes.extent,
        *reduction,
        axes.rows.strides[0],
        axes.columns.strides[1],
        axes.rows.strides[2],
        axes.columns.strides[2],
        int(accumulate),
    )
    return Call(kernel=kernel, operands=operands, arguments=arguments)
