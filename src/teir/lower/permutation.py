"""Lowering of large permutations: the calls and tiles of a `PermuteCopy` and the kernels beside it.

Which axes make rows and columns is said in `permutation_parts`. What is left is walked inside the
kernel, two axes at most and so far that a call stays short, and by loops around it. Where the
output's second axis is the input's unit axis and rows are short, a tile takes all rows, so that its
columns follow one another in the output.

Where a processor follows few rows by itself, long rows and columns make no tiles: a `StreamCopy`
reads some rows side by side along all columns, `StreamRuns` the same of runs of a line and more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from msgspec.structs import replace

from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.copy_kernels import (
    MOST_PERMUTED,
    PERMUTE_AXES,
    PERMUTE_OUTER_AXES,
    PermuteCopy,
    RunCopy,
    StreamCopy,
    StreamRuns,
    permute_scratch_bytes,
)
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.permutation_aims import aims_of
from teir.lower.permutation_parts import Parts, running_parts, streamed_parts, turning_parts
from teir.lower.permutation_pieces import Piece, cut, up
from teir.lower.stream_room import STREAMED_COLUMNS, STREAMED_ROWS
from teir.passes.long_sides import length_of
from teir.target import LINE_BYTES, Isa

_DISTANCE_COST = 0.05
"""What a tile twice or half as large as aimed at costs, in shares of the work."""
_RUN_DISTANCE_COST = 0.1
"""The same of a tile of runs' columns."""
_LARGEST_SQUARE = 16
_SMALLEST_SQUARE = 4
PERMUTED_BYTES = 3 << 20
"""Smaller tiles stay in the caches, where squares go from register to memory sooner."""
_CALL_ELEMENTS = 1 << 22
"""Elements after which a call ends, so that a run can be stopped."""
_MOST_STREAMED_ELEMENTS = STREAMED_ROWS * STREAMED_COLUMNS
"""Of the rows and columns of one call that are read as streams, at most."""
_FEWEST_LINES = 5
"""Lines of rows that go past the caches, each of a column elsewhere."""
_FEWEST_STREAMED_ROWS = 16
"""Fewer rows read side by side than a kernel does would cost most of what streams gain."""


def streamed_bytes(isa: Isa) -> int:
    """Bytes of an output from which it is written past the caches."""
    return aims_of(isa).streamed_bytes


def lower_permutation(
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    width: int,
    stream: bool,
    room: Address,
    isa: Isa,
    step: int,
) -> tuple[KernelNode, ...] | None:
    """Calls that copy along ``axes``; None where it is no permutation.

    ``stream``: the output is written past the caches. ``room``: as much scratch as the calls'
    kernel needs, that nobody else uses during a call. ``step``: elements of the input from one to
    the next; where they are not adjacent, all of its strides are multiples of so many.
    """
    if not axes or any(0 in axis.strides for axis in axes):
        return None
    is_dense = step == 1
    streamed = streamed_parts(axes, width) if is_dense and stream and isa.follows_few_rows else None
    if streamed is not None:
        is_turned = streamed.run == 1
        streams = (StreamCopy if is_turned else StreamRuns)(element_bytes=width)
        return _Lowering(operands, room, streams, stream, isa).blocks(streamed)
    parts = _square_parts(axes, width, isa, step)
    if parts is None and is_dense and stream:
        parts = running_parts(axes, width, isa)
    if parts is None:
        return None
    kernel = _kernel(parts, width, isa, step)
    return None if kernel is None else _Lowering(operands, room, kernel, stream, isa).blocks(parts)


def _square_parts(axes: Sequence[TileAxis], width: int, isa: Isa, step: int) -> Parts | None:
    """Rows and columns of squares: those of an input without the elements between, as far apart as
    they are."""
    if step == 1:
        return turning_parts(axes, width, isa)
    near = [TileAxis(one.extent, (one.strides[0] // step, one.strides[1])) for one in axes]
    parts = turning_parts(near, width, isa)
    if parts is None:
        return None
    rows, columns, outer = (
        tuple(TileAxis(one.extent, (one.strides[0] * step, one.strides[1])) for one in side)
        for side in (parts.rows, parts.columns, parts.outer)
    )
    return replace(parts, rows=rows, columns=columns, outer=outer)


def _kernel(parts: Parts, width: int, isa: Isa, step: int) -> PermuteCopy | RunCopy | None:
    """The kernel with the widest vectors that rows and columns, or runs, hold."""
    widest = isa.vector_bytes // width
    if parts.run > 1:
        fitting = 1 << (parts.run.bit_length() - 1)
        return RunCopy(element_bytes=width, lanes=min(widest, fitting))
    rows, columns = length_of(parts.rows), length_of(parts.columns)
    fitting = 1 << (min(rows, columns).bit_length() - 1)
    lanes = min(widest, fitting, _LARGEST_SQUARE)
    if lanes < _SMALLEST_SQUARE:
        return None
    return PermuteCopy(element_bytes=width, lanes=lanes, step=step)


@dataclass(frozen=True, slots=True)
class _Lowering:
    """What all calls of one permutation share."""

    operands: tuple[Address, ...]
    room: Address
    kernel: PermuteCopy | RunCopy | StreamCopy | StreamRuns
    stream: bool
    isa: Isa

    def blocks(self, parts: Parts) -> tuple[KernelNode, ...]:
        """The whole permutation, rows and columns cut where there are too many for one call."""
        per_line = LINE_BYTES // self.kernel.element_bytes
        match self.kernel:
            case PermuteCopy():
                least, most_rows, most_columns = self.kernel.lanes, MOST_PERMUTED, MOST_PERMUTED
            case RunCopy():
                least, most_rows, most_columns = 1, MOST_PERMUTED, MOST_PERMUTED
            case StreamCopy():
                least, most_rows, most_columns = per_line, STREAMED_ROWS, STREAMED_COLUMNS
            case StreamRuns():
                least, (most_rows, most_columns) = 1, _most_runs(parts)
            case _:
                assert_never(self.kernel)
        nodes: tuple[KernelNode, ...] = ()
        for rows in cut(parts.rows, per_line, least, most_rows):
            for columns in cut(parts.columns, per_line, least, most_columns):
                piece = replace(parts, rows=rows.axes, columns=columns.axes)
                loops = [axis for axis in (rows.loop, columns.loop) if axis is not None]
                offsets = [sum(pair) for pair in zip(rows.offsets, columns.offsets, strict=True)]
                nodes += self.calls(piece, loops, offsets)
        return nodes

    def calls(
        self, parts: Parts, loops: Sequence[TileAxis], offsets: Sequence[int]
    ) -> tuple[KernelNode, ...]:
        """Calls inside the loops they do not run themselves: an axis of many planes is cut."""
        work = parts.run * length_of(parts.rows) * length_of(parts.columns)
        inside, around = 0, parts.outer
        while around and inside < PERMUTE_OUTER_AXES and work * around[0].extent <= _CALL_ELEMENTS:
            work *= around[0].extent
            inside, around = inside + 1, around[1:]
        planes = parts.outer[:inside]
        pieces: tuple[Piece, ...] = (Piece(planes, None, (0, 0)),)
        if around and inside < PERMUTE_OUTER_AXES and 2 * work <= _CALL_ELEMENTS:
            pieces = cut((*planes, around[0]), 1, 1, _CALL_ELEMENTS // work * length_of(planes))
            around = around[1:]
        nodes: tuple[KernelNode, ...] = ()
        for piece in pieces:
            own = () if piece.loop is None else (piece.loop,)
            starts = [sum(pair) for pair in zip(offsets, piece.offsets, strict=True)]
            outside = sorted((*around, *own, *loops), key=_output_stride, reverse=True)
            call = self.call(parts, piece.axes, starts)
            nodes += wrap_in_loops(outside, self.operands, (call,))
        return nodes

    def call(self, parts: Parts, planes: Sequence[TileAxis], offsets: Sequence[int]) -> Call:
        """One call for some planes, which begin so many bytes on."""
        return Call(
            kernel=self.kernel,
            operands=(
                *(
                    Address(slot=operand.slot, offset_bytes=operand.offset_bytes + offset)
                    for operand, offset in zip(self.operands, offsets, strict=True)
                ),
                self.room,
            ),
            arguments=(
                *_extents_and_strides(parts.rows, (0,), PERMUTE_AXES),
                *_extents_and_strides(parts.columns, (1,), PERMUTE_AXES),
                *_extents_and_strides(planes, (0, 1), PERMUTE_OUTER_AXES),
                *self.how(parts),
            ),
        )

    def how(self, parts: Parts) -> tuple[int, ...]:
        """The arguments behind the axes: tiles, whether the output is streamed, the run."""
        match self.kernel:
            case PermuteCopy():
                rows, columns, group = self.tile(parts, self.kernel.lanes)
                return rows, columns, group, int(self.stream and self.writes_lines(rows, group))
            case RunCopy():
                return (*self.tile(parts, self.kernel.lanes), int(self.stream), parts.run)
            case StreamCopy():
                return ()
            case StreamRuns():
                return (parts.run,)
            case _:
                assert_never(self.kernel)

    def writes_lines(self, rows: int, group: int) -> bool:
        """False where what follows one another in the output may hold no whole line, or few.

        Parts of lines past the caches each wait for theirs: `fxcd->cxdf` of 5 x 264 x 680 x 2
        took 4.3 times as long (Golden Cove), rows of up to 256 bytes 1.4 times in the mean.
        """
        row_bytes = rows * group * self.kernel.element_bytes
        if group == 1:
            return not self.isa.follows_few_rows or row_bytes >= _FEWEST_LINES * LINE_BYTES
        return row_bytes >= 2 * LINE_BYTES

    def run_columns(self, columns: int, aim: int) -> int:
        """Columns of a tile of runs; where pieces are long, few are copied twice at the end."""
        if not self.isa.follows_few_rows:
            return min(columns, aim)
        costs = {
            tile: -(-columns // tile) * tile / columns
            + _RUN_DISTANCE_COST * abs(math.log2(tile / aim))
            for tile in range(1, min(columns, 2 * aim) + 1)
        }
        return min(costs, key=costs.__getitem__)

    def tile(self, parts: Parts, lanes: int) -> tuple[int, int, int]:
        """Rows and columns of a tile, and how many columns follow one another in the output."""
        width = self.kernel.element_bytes
        aims = aims_of(self.isa)
        scratch_bytes = permute_scratch_bytes(self.isa)
        rows, columns = length_of(parts.rows), length_of(parts.columns)
        if parts.is_dense:
            unit = parts.columns[0].extent if len(parts.columns) > 1 else 1
            aim = max(1, aims.dense_bytes // (rows * width))
            most = scratch_bytes // (rows * width)
            tile = unit * _tile(columns // unit, max(1, aim // unit), 1, 0, most // unit)
            tile = max(tile, up(min(lanes, columns), unit))
            return rows, tile, tile if unit == 1 else unit
        per_line = LINE_BYTES // width
        if parts.run > 1:
            run_bytes = parts.run * width
            tile = self.run_columns(columns, max(1, aims.run_column_bytes // run_bytes))
            over = up(per_line, parts.run) // parts.run
            most = scratch_bytes // (run_bytes * tile) - over - 1
            return (
                _tile(rows, max(1, aims.run_tile_bytes // run_bytes // tile), 1, over, most),
                tile,
                1,
            )
        tile_rows = _tile(rows, aims.row_bytes // width, max(per_line, lanes), per_line, rows)
        pitch_bytes = (tile_rows + per_line + lanes) * width
        most = scratch_bytes // pitch_bytes // lanes * lanes
        return tile_rows, _tile(columns, aims.column_bytes // width, lanes, 0, most), 1


def _output_stride(axis: TileAxis) -> int:
    return axis.strides[1]


def _most_runs(parts: Parts) -> tuple[int, int]:
    """Rows and columns of one call that streams runs, so that it ends before long."""
    fewest = _FEWEST_STREAMED_ROWS * parts.run
    most_columns = max(1, min(STREAMED_COLUMNS, _MOST_STREAMED_ELEMENTS // fewest))
    columns = min(most_columns, length_of(parts.columns))
    most_rows = _MOST_STREAMED_ELEMENTS // (parts.run * columns)
    return max(_FEWEST_STREAMED_ROWS, min(STREAMED_ROWS, most_rows)), most_columns


def _tile(extent: int, aim: int, unit: int, over: int, most: int) -> int:
    """The extent of a tile: a multiple of ``unit`` near ``aim`` that cuts ``extent`` with least
    waste, where every tile computes ``over`` indices besides its own."""
    best, least = min(extent, most), math.inf
    for count in range(max(1, extent // (2 * aim)), 2 * extent // aim + 2):
        tile = up(up(extent, count) // count, unit)
        if tile > most:
            continue
        computed = count * (tile + over) if count > 1 else tile
        cost = computed / extent + _DISTANCE_COST * abs(math.log2(tile / aim))
        if cost < least:
            best, least = min(tile, extent), cost
    return best


def _extents_and_strides(
    axes: Sequence[TileAxis], operands: Sequence[int], room: int
) -> tuple[int, ...]:
    """Extents, then the strides on each of ``operands``, filled up to ``room`` axes."""
    missing = room - len(axes)
    words = [*[axis.extent for axis in axes], *[1] * missing]
    for operand in operands:
        words += [*[axis.strides[operand] for axis in axes], *[0] * missing]
    return tuple(words)
