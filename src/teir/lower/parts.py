"""Rows of complex factors copied in parts, for the register blocks of many columns.

A product of complex elements needs every vector of A turned, (re, im) to (-im, re), at every step:
two instructions on the units that multiply, a fifth of the time of a block of 4 x 5. Where numbers
lie in parts (`PartCopy`) nothing is turned, and the multiply-adds are the same. Measured on Golden
Cove, operands in the first cache: blocks of 4 x 5 reach 92 instead of 78 % of the peak. On Zen 4,
which turns vectors beside its products, they reach more than that as they are.

    PartCopy      A's rows, all steps -> room
    GemmBlock     room, the first columns of B -> C, and so on

Loops that do not move A run behind the copy (`teir.lower.part_loops`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.blocking import Blocking, Cut
from teir.lower.contraction_tile import ContractionTile
from teir.lower.gemm_axes import GemmAxes
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.kernels import PartCopy
from teir.target import LEAST_COLUMNS_IN_PARTS, Isa

_MOST_PANEL_BYTES = 1 << 20
_TALLEST = 4
"""Vectors of the tallest blocks of `part_shapes`."""
MOST_NEAR_BYTES = 1 << 18
"""Rows in parts that stay in the second cache while other operands pass."""


def takes_parts(tile: ContractionTile, axes: GemmAxes, lanes: int, depth: int, isa: Isa) -> bool:
    """True where blocks of the tile read rows in parts, ``lanes`` in a vector, ``depth`` steps."""
    if not tile.in_type.is_complex or not isa.multiplies_twice_a_cycle:
        return False
    width = tile.in_type.width
    a_m, _, c_m = axes.lanes.strides
    vectors = -(-axes.lanes.extent // lanes)
    return (
        a_m == width
        and c_m == width
        and lanes * width == isa.vector_bytes
        and has_pairs(vectors)
        and axes.columns.extent >= LEAST_COLUMNS_IN_PARTS
        and min(vectors, _TALLEST) * isa.vector_bytes * depth <= _MOST_PANEL_BYTES
    )


def is_near(tile: ContractionTile, axes: GemmAxes, depth: int) -> bool:
    """True where all rows of the tile are copied before its products."""
    return axes.lanes.extent * depth * tile.in_type.width <= MOST_NEAR_BYTES


def has_pairs(vectors: int) -> bool:
    """False where the vector left over by pairs would cost what they save."""
    return vectors > 1 and vectors != 3


class PartRows(msgspec.Struct, frozen=True, gc=False):
    """Rows of A on their way to the room, panel by panel.

    ``lanes`` is the axis of the rows, its first stride that of the room: 0 for one panel.
    ``loops`` are the reductions as `GemmBlock` has them, outermost first, in A.
    """

    data_type: DataType
    a_m: int
    a: Address
    room: Address
    lanes: TileAxis
    loops: tuple[TileAxis, ...]

    def copies(self, cut: Cut, blocking: Blocking) -> tuple[KernelNode, ...]:
        """The copies of the last cut, whole panels in a loop."""
        full, rows = blocking.lanes, cut.size * blocking.lanes
        partial = blocking.last_lanes < full
        nodes: tuple[KernelNode, ...] = ()
        if cut.count > partial:
            whole = self._copy(cut.start * full, cut.size, full, full)
            steps = (self.a_m * rows, self.lanes.strides[0] * rows)
            panels = TileAxis(cut.count - partial, steps)
            loops = (panels,) if panels.extent > 1 else ()
            nodes = wrap_in_loops(loops, (self.a, self.room), (whole,))
        if partial:
            row = (cut.start + (cut.count - 1) * cut.size) * full
            nodes = (*nodes, self._copy(row, cut.size, full, blocking.last_lanes))
        return nodes

    def reductions(self, rows: int) -> tuple[TileAxis, ...]:
        """``loops`` in the room, where panels have so many rows."""
        moved = []
        distance = rows * self.data_type.width
        for axis in reversed(self.loops):
            moved.append(TileAxis(axis.extent, (distance, *axis.strides[1:])))
            distance *= axis.extent
        return tuple(reversed(moved))

    def _copy(self, row: int, vectors: int, lanes: int, last_lanes: int) -> Call:
        masked = last_lanes < lanes
        kernel = PartCopy(data_type=self.data_type, lanes=lanes, vectors=vectors, masked=masked)
        operands = tuple(
            Address(slot=place.slot, offset_bytes=place.offset_bytes + row * stride)
            for place, stride in ((self.a, self.a_m), (self.room, self.lanes.strides[0]))
        )
        steps = [value for axis in reversed(self.loops) for value in (axis.extent, axis.strides[0])]
        return Call(kernel=kernel, operands=operands, arguments=(*steps, last_lanes))


def part_rows(
    tile: ContractionTile,
    axes: GemmAxes,
    a: Address,
    room: Address,
    loops: tuple[TileAxis, ...],
    is_whole: bool,
) -> PartRows:
    """The rows of a tile; in the room every one is as long as its steps, or all panels are one."""
    a_m, *others = axes.lanes.strides
    depth = prod(axis.extent for axis in loops)
    in_room = tile.in_type.width * depth if is_whole else 0
    lanes = TileAxis(axes.lanes.extent, (in_room, *others))
    return PartRows(tile.in_type, a_m, a, room, lanes, loops)


class RowPiece(msgspec.Struct, frozen=True, gc=False):
    """``panels`` equal pieces of rows, the first of which ``blocking`` cuts alone."""

    blocking: Blocking
    panels: int


def row_pieces(blocking: Blocking, is_whole: bool) -> Iterator[RowPiece]:
    """Every cut of the rows; or one panel of each, and the last one apart where it is partial."""
    for cut in blocking.rows:
        is_last = cut is blocking.rows[-1]
        lanes = blocking.last_lanes if is_last else blocking.lanes
        if is_whole:
            yield RowPiece(replace(blocking, rows=(cut,), last_lanes=lanes), 1)
            continue
        partial = lanes < blocking.lanes
        if cut.count > partial:
            one = Cut(cut.start, cut.size, 1)
            whole = replace(blocking, rows=(one,), last_lanes=blocking.lanes)
            yield RowPiece(whole, cut.count - partial)
        if partial:
            last = Cut(cut.start + (cut.count - 1) * cut.size, cut.size, 1)
            yield RowPiece(replace(blocking, rows=(last,), last_lanes=lanes), 1)


def part_copy_bytes(call: Call) -> int:
    """Bytes of the room that a call of a `PartCopy` fills."""
    kernel = call.kernel
    assert isinstance(kernel, PartCopy)
    return kernel.vectors * kernel.lanes * kernel.data_type.width * prod(call.arguments[:6:2])
