"""Lowering of products of a vector and a large matrix whose rows are adjacent.

The vector may move along the rows too: then every element of a row has a sum of its own factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.lower.access import Access
from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.blocking import full_lanes
from teir.lower.contraction_tile import ContractionTile
from teir.lower.dot_rows import APART, FAR_ROWS, STREAMED_BYTES, reads_long_rows
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.kernels import RowSweep
from teir.target import Isa

_LARGE_BYTES = 1 << 19
"""A matrix from which its order in memory decides: it does not stay in the second cache. Several
whose rows follow count as one: blocks would read a stretch of every row in turn. Of those that come
from memory in 0.45 to 0.8 of the time (Zen 4)."""
_RUN_BYTES = 16 << 10
"""Sums that wait in the first cache."""
_PAIRED_RUN_BYTES = 4 << 10
"""Rows of factors besides: a page of each, so that all of them wait there too."""
_ROWS = 6
_PAIRS = 3
"""Rows at a time, alone and with rows of factors: all compete for a cache of eight ways."""
_LONG_ROW_BYTES = 8192
"""Shorter rows that come from memory are read one after the other, as those of `dot_rows` are."""
_SHORTEST_ROW_BYTES, _SHORTEST_FAR_ROW_BYTES = 1024, 513
"""Of a matrix, and of one that comes from memory, whose shorter rows one register block takes: of
longer ones blocks would read a stretch of every row in turn. Measured on Zen 4: 0.35 to 1.0 of the
time."""
_FEWEST_LONG_ROWS = 16
"""Of one matrix of several that count as one: fewer long rows leave some that go one by one."""


@dataclass(frozen=True, slots=True)
class SweepAxes:
    """The axes of a sweep; strides in the order matrix, vector, output.

    ``matrices``: as many as follow one another in the loops around the tile.
    """

    row: TileAxis
    k: TileAxis
    loops: tuple[TileAxis, ...]
    swapped: bool
    matrices: int = 1

    @property
    def b_access(self) -> Access:
        return Access.UNIT if self.row.strides[1] else Access.BROADCAST


def sweep_axes(tile: ContractionTile) -> SweepAxes | None:
    """The axes of a tile that multiplies a vector by a large matrix; None for every other tile."""
    if len(tile.operands) != 3 or len(tile.reductions) != 1:
        return None
    if tile.in_type is not tile.out_type or tile.in_type.width < 4:
        return None
    width = tile.in_type.width
    first = [axis.strides[0] for axis in tile.free]
    second = [axis.strides[1] for axis in tile.free]
    if 0 in first and 0 in second:
        # Columns meet the rows: no operand is a vector, whichever axis is the row.
        return None
    if [axis.strides for axis in tile.free] == [(width,) * 3]:
        (whole,), (k,) = tile.free, tile.reductions
        is_long = whole.extent * width >= _LONG_ROW_BYTES and k.extent >= _ROWS
        return SweepAxes(whole, k, (), swapped=False) if is_long and k.strides[0] else None
    for swapped in (False, True):
        axes = [_in_order(axis, swapped) for axis in tile.free]
        row = next((axis for axis in axes if axis.strides == (width, 0, width)), None)
        if row is None:
            continue
        k = _in_order(tile.reductions[0], swapped)
        loops = tuple(axis for axis in axes if axis is not row)
        is_vector = all(axis.strides[0] for axis in loops)
        row_bytes = row.extent * width
        is_far = row_bytes * k.extent * tile.tiles >= STREAMED_BYTES and not swapped
        shortest = _SHORTEST_FAR_ROW_BYTES if is_far else _SHORTEST_ROW_BYTES
        if not is_vector or row_bytes < shortest:
            return None
        follow = not swapped and abs(k.strides[0]) <= APART * row_bytes
        are_worth = row_bytes <= _LONG_ROW_BYTES or k.extent >= _FEWEST_LONG_ROWS
        matrices = tile.tiles if follow and are_worth else 1
        is_large = row_bytes * k.extent * matrices >= _LARGE_BYTES
        if not is_large or k.extent < _ROWS or not k.strides[0]:
            return None
        return SweepAxes(row, k, loops, swapped, matrices)
    return None


def _in_order(axis: TileAxis, swapped: bool) -> TileAxis:
    first, second, output = axis.strides
    return TileAxis(axis.extent, (second, first, output)) if swapped else axis


def _rows_at_once(axes: SweepAxes, width: int, isa: Isa) -> int:
    row_bytes = axes.row.extent * width
    read_bytes = row_bytes * axes.k.extent * axes.matrices
    follow = abs(axes.k.strides[0]) < APART * row_bytes
    if row_bytes <= _LONG_ROW_BYTES and follow and read_bytes >= STREAMED_BYTES:
        return 1
    if axes.b_access is Access.UNIT:
        return _PAIRS
    is_long = reads_long_rows(row_bytes, axes.k.extent, abs(axes.k.strides[0]), isa)
    return FAR_ROWS if is_long else _ROWS


def lower_row_sweeps(tile: ContractionTile, axes: SweepAxes, isa: Isa) -> tuple[KernelNode, ...]:
    """`RowSweep` calls, in a loop over runs of the row that leave room in the first cache."""
    first, second, output = tile.operands
    operands = (second, first, output) if axes.swapped else tile.operands
    kernel = RowSweep(
        data_type=tile.in_type,
        lanes=full_lanes(isa, tile.in_type, tile.out_type),
        rows=_rows_at_once(axes, tile.in_type.width, isa),
        b_access=axes.b_access,
    )
    nodes: tuple[KernelNode, ...] = ()
    run_bytes = _RUN_BYTES if axes.b_access is Access.BROADCAST else _PAIRED_RUN_BYTES
    for run, start, length in _runs(axes.row, run_bytes // tile.in_type.width):
        places = tuple(
            Address(slot=address.slot, offset_bytes=address.offset_bytes + stride * start)
            for address, stride in zip(operands, axes.row.strides, strict=True)
        )
        arguments = (length, axes.k.extent, *axes.k.strides[:2], int(not tile.from_zero))
        call = Call(kernel=kernel, operands=places, arguments=arguments)
        nodes += wrap_in_loops((run,), operands, (call,)) if run.extent > 1 else (call,)
    return wrap_in_loops(axes.loops, operands, nodes)


def _runs(row: TileAxis, most: int) -> Iterator[tuple[TileAxis, int, int]]:
    """The walk over runs, where the first begins, and their length: whole ones, then the rest."""
    whole, left = divmod(row.extent, most)
    if whole:
        yield TileAxis(whole, tuple(stride * most for stride in row.strides)), 0, most
    if left:
        yield TileAxis(1, row.strides), whole * most, left
