"""Lowering of large permutations: which axes make rows, columns and tiles of a `PermuteCopy`.

The rows of a tile are axes adjacent in the output, from the one of unit stride upwards; the
columns are axes adjacent in the input. Both take axes in turn until a tile is filled:

    in[a, b, c, d] -> out[d, c, b, a], extents 32 x 20 x 20 x 32
    rows = a and b (adjacent in out), columns = d and c (adjacent in in)

What is left is walked inside the kernel, two axes at most and so far that a call stays short, and
by loops around it. Where the output's second axis is the input's unit axis and rows are short, a
tile takes all rows, so that its columns follow one another in the output.

Where a processor follows few rows by itself, long rows and columns make no tiles: a `StreamCopy`
reads some rows side by side along all columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import assert_never

from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.copy_kernels import (
    MOST_PERMUTED,
    PERMUTE_AXES,
    PERMUTE_OUTER_AXES,
    PermuteCopy,
    RunCopy,
    StreamCopy,
    permute_scratch_bytes,
)
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.permutation_pieces import cut, up
from teir.lower.stream_room import STREAMED_COLUMNS, STREAMED_ROWS
from teir.target import LINE_BYTES, Isa

_ROW_BYTES = 1024
"""Rows of neighbouring tiles together, written in long pieces."""
_COLUMNS_BYTES = 2048
"""Columns of neighbouring tiles together: a line where one ends is still near for the next."""
_DENSE_ROW_BYTES = 2048
"""Rows up to this long where all rows of a tile make one run."""
_DISTANCE_COST = 0.05
"""What a tile twice or half as large as aimed at costs, in shares of the work."""
_RUN_DISTANCE_COST = 0.1
"""The same of a tile of runs' columns."""
_LONGEST_RUN_BYTES = 6144
"""Longer runs are copied as they lie."""
_RUN_TILE_BYTES = 32 * 1024
"""What a tile of runs aims at."""
_STREAM_WIDTHS = (4, 8, 16)
"""Elements of which four to sixteen make a line."""
_LARGEST_SQUARE = 16
_SMALLEST_SQUARE = 4
_STREAM_ROW_BYTES = 2048
"""Shorter rows begin and end in too many lines that they share with others."""
_STREAM_COLUMNS_BYTES = 1024
"""Shorter pieces of the input do not come as streams."""
PERMUTED_BYTES = 3 << 20
"""Smaller tiles stay in the caches, where squares go from register to memory sooner."""
_CALL_ELEMENTS = 1 << 22
"""Elements after which a call ends, so that a run can be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aims:
    """What a tile aims at: pieces of the output, of the input, and where all rows make one run.

    ``streamed_bytes``: outputs from here on leave the caches before anybody reads them;
    ``dense_column_bytes``: columns of neighbouring tiles together, there; ``run_column_bytes``:
    what a tile of runs reads of the input at once.
    """

    row_bytes: int
    column_bytes: int
    dense_bytes: int
    dense_column_bytes: int
    run_column_bytes: int
    streamed_bytes: int


_NEAR_AIMS = _Aims(
    row_bytes=1024,
    column_bytes=192,
    dense_bytes=32 * 1024,
    dense_column_bytes=LINE_BYTES,
    run_column_bytes=512,
    streamed_bytes=16 << 20,
)
"""Long pieces of the output, some lines of the input; a tile lies in the first cache or near it;
outputs from half of the third level on are streamed."""
_FAR_AIMS = _Aims(
    row_bytes=512,
    column_bytes=1024,
    dense_bytes=256 * 1024,
    dense_column_bytes=1024,
    run_column_bytes=1024,
    streamed_bytes=6 << 20,
)
"""Long pieces of the input, for `Isa.follows_few_rows`: tiles lie in the second cache. Measured on
Golden Cove, 26 permutations of 48 MB: 0.52 to 1.16 of the time, 0.81 in the geometric mean. Past
the caches squares of 8 to 16 MB took 0.5 of the time; of 4 MB none gained, runs lost 1.6 times."""


def _aims(isa: Isa) -> _Aims:
    return _FAR_AIMS if isa.follows_few_rows else _NEAR_AIMS


@dataclass(frozen=True, slots=True)
class _Parts:
    """The axes of a permutation by what they do; strides are those on input and output.

    ``run``: elements adjacent on both, 1 where none are.
    """

    run: int

    rows: tuple[TileAxis, ...]
    columns: tuple[TileAxis, ...]
    outer: tuple[TileAxis, ...]
    is_dense: bool


def streamed_bytes(isa: Isa) -> int:
    """Bytes of an output from which it is written past the caches."""
    return _aims(isa).streamed_bytes


def lower_permutation(
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    width: int,
    stream: bool,
    room: Address,
    isa: Isa,
) -> tuple[KernelNode, ...] | None:
    """Calls that copy along ``axes``; None where it is no permutation.

    ``stream``: the output is written past the caches. ``room``: as much scratch as the calls'
    kernel needs, that nobody else uses during a call.
    """
    if not axes or any(0 in axis.strides for axis in axes):
        return None
    streamed = _streamed_parts(axes, width, isa) if stream else None
    if streamed is not None:
        streams = StreamCopy(element_bytes=width)
        return _Lowering(operands, room, streams, stream, isa).blocks(streamed)
    parts = _turning_parts(axes, width, isa) or (_running_parts(axes, width) if stream else None)
    if parts is None:
        return None
    kernel = _kernel(parts, width, isa)
    return None if kernel is None else _Lowering(operands, room, kernel, stream, isa).blocks(parts)


def _turned_sides(
    axes: Sequence[TileAxis], width: int
) -> tuple[list[TileAxis], list[TileAxis]] | None:
    """The axes as they follow in the output and in the input; None where one is first in both."""
    upwards = sorted(axes, key=lambda axis: axis.strides[1])
    along = sorted(axes, key=lambda axis: axis.strides[0])
    if upwards[0].strides[1] != width or along[0].strides[0] != width or upwards[0] is along[0]:
        return None
    return upwards, along


def _turning_parts(axes: Sequence[TileAxis], width: int, isa: Isa) -> _Parts | None:
    """Rows and columns of a permutation that turns squares of elements."""
    sides = _turned_sides(axes, width)
    if sides is None:
        return None
    upwards, along = sides
    is_dense = _follow_one_another(upwards[0], along[0], width)
    row_bytes = 0 if is_dense else _ROW_BYTES
    column_bytes = _aims(isa).dense_column_bytes if is_dense else _COLUMNS_BYTES
    aims = (row_bytes // width, column_bytes // width)
    return _grown(upwards, along, 1, (aims,), is_dense)


def _streamed_parts(axes: Sequence[TileAxis], width: int, isa: Isa) -> _Parts | None:
    """Rows and columns as long as one call takes them, where both are long."""
    sides = _turned_sides(axes, width)
    if sides is None:
        return None
    upwards, along = sides
    if not isa.follows_few_rows or width not in _STREAM_WIDTHS:
        return None
    enough = (_STREAM_ROW_BYTES // width, _STREAM_ROW_BYTES // width)
    parts = _grown(upwards, along, 1, (enough, (STREAMED_ROWS, STREAMED_COLUMNS)), False)
    rows, columns = (prod(axis.extent for axis in some) for some in (parts.rows, parts.columns))
    is_long = rows * width >= _STREAM_ROW_BYTES and columns * width >= _STREAM_COLUMNS_BYTES
    return parts if is_long else None


def _running_parts(axes: Sequence[TileAxis], width: int) -> _Parts | None:
    """Rows and columns of a permutation that moves runs of elements."""
    upwards = sorted(axes, key=lambda axis: axis.strides[1])
    along = sorted(axes, key=lambda axis: axis.strides[0])
    run = upwards[0]
    run_bytes = run.extent * width
    if run.strides != (width, width) or run is not along[0] or run_bytes > _LONGEST_RUN_BYTES:
        return None
    if len(axes) == 1 or upwards[1].strides[1] != run_bytes or upwards[1].strides[0] == run_bytes:
        return None
    columns = along[1:] if along[1].strides[0] == run_bytes else [TileAxis(1, (0, 0))]
    aims = (_RUN_TILE_BYTES // run_bytes, _COLUMNS_BYTES // run_bytes)
    return _grown(upwards[1:], columns, run.extent, (aims,), False)


def _grown(
    upwards: Sequence[TileAxis],
    along: Sequence[TileAxis],
    run: int,
    stages: Sequence[tuple[int, int]],
    is_dense: bool,
) -> _Parts:
    """Rows from the first axis of ``upwards`` on, columns from the first of ``along``, in turn.

    Both grow up to the aims of the first stage, then up to those of the next.
    """
    rows, columns = [upwards[0]], [along[0]]
    for aims in stages:
        while True:
            more = _following(rows, columns, upwards, 1, aims[0])
            if more is not None:
                rows.append(more)
            other = _following(columns, rows, along, 0, aims[1])
            if other is not None:
                columns.append(other)
            if more is None and other is None:
                break
    used = (*rows, *columns)
    outer = tuple(axis for axis in upwards if not any(axis is one for one in used))
    return _Parts(run, tuple(rows), tuple(columns), outer, is_dense)


def _follow_one_another(row: TileAxis, column: TileAxis, width: int) -> bool:
    """True where columns are adjacent runs of the output, and short ones."""
    run = row.extent * width
    return column.strides[1] == run and run <= _DENSE_ROW_BYTES and row.extent <= MOST_PERMUTED


def _following(
    mine: Sequence[TileAxis],
    others: Sequence[TileAxis],
    ordered: Sequence[TileAxis],
    operand: int,
    aim: int,
) -> TileAxis | None:
    """The axis that goes on where ``mine`` end, if they are short and it is free."""
    extent = prod(axis.extent for axis in mine)
    if extent >= aim or len(mine) == PERMUTE_AXES:
        return None
    end = mine[-1].strides[operand] * mine[-1].extent
    free = (axis for axis in ordered if not any(axis is other for other in others))
    return next((axis for axis in free if axis.strides[operand] == end), None)


def _kernel(parts: _Parts, width: int, isa: Isa) -> PermuteCopy | RunCopy | None:
    """The kernel with the widest vectors that rows and columns, or runs, hold."""
    widest = isa.vector_bytes // width
    if parts.run > 1:
        fitting = 1 << (parts.run.bit_length() - 1)
        return RunCopy(element_bytes=width, lanes=min(widest, fitting))
    rows, columns = (prod(axis.extent for axis in axes) for axes in (parts.rows, parts.columns))
    fitting = 1 << (min(rows, columns).bit_length() - 1)
    lanes = min(widest, fitting, _LARGEST_SQUARE)
    return PermuteCopy(element_bytes=width, lanes=lanes) if lanes >= _SMALLEST_SQUARE else None


@dataclass(frozen=True, slots=True)
class _Lowering:
    """What all calls of one permutation share."""

    operands: tuple[Address, ...]
    room: Address
    kernel: PermuteCopy | RunCopy | StreamCopy
    stream: bool
    isa: Isa

    def blocks(self, parts: _Parts) -> tuple[KernelNode, ...]:
        """The whole permutation, rows and columns cut where there are too many for one call."""
        per_line = LINE_BYTES // self.kernel.element_bytes
        match self.kernel:
            case PermuteCopy():
                least, most_rows, most_columns = self.kernel.lanes, MOST_PERMUTED, MOST_PERMUTED
            case RunCopy():
                least, most_rows, most_columns = 1, MOST_PERMUTED, MOST_PERMUTED
            case StreamCopy():
                least, most_rows, most_columns = per_line, STREAMED_ROWS, STREAMED_COLUMNS
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
        self, parts: _Parts, loops: Sequence[TileAxis], offsets: Sequence[int]
    ) -> tuple[KernelNode, ...]:
        """One call inside the loops it does not run itself."""
        inside: list[TileAxis] = []
        work = parts.run * prod(axis.extent for axis in (*parts.rows, *parts.columns))
        for axis in parts.outer[:PERMUTE_OUTER_AXES]:
            work *= axis.extent
            if work > _CALL_ELEMENTS:
                break
            inside.append(axis)
        around = sorted(
            (*parts.outer[len(inside) :], *loops), key=lambda axis: axis.strides[1], reverse=True
        )
        call = Call(
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
                *_extents_and_strides(inside, (0, 1), PERMUTE_OUTER_AXES),
                *self.how(parts),
            ),
        )
        return wrap_in_loops(around, [operand.slot for operand in self.operands], (call,))

    def how(self, parts: _Parts) -> tuple[int, ...]:
        """The arguments behind the axes: tiles, whether the output is streamed, the run."""
        match self.kernel:
            case PermuteCopy():
                return (*self.tile(parts, self.kernel.lanes), int(self.stream))
            case RunCopy():
                return (*self.tile(parts, self.kernel.lanes), int(self.stream), parts.run)
            case StreamCopy():
                return ()
            case _:
                assert_never(self.kernel)

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

    def tile(self, parts: _Parts, lanes: int) -> tuple[int, int, int]:
        """Rows and columns of a tile, and how many columns follow one another in the output."""
        width = self.kernel.element_bytes
        aims = _aims(self.isa)
        scratch_bytes = permute_scratch_bytes(self.isa)
        rows, columns = (prod(a.extent for a in axes) for axes in (parts.rows, parts.columns))
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
            return _tile(rows, max(1, _RUN_TILE_BYTES // run_bytes // tile), 1, over, most), tile, 1
        tile_rows = _tile(rows, aims.row_bytes // width, max(per_line, lanes), per_line, rows)
        pitch_bytes = (tile_rows + per_line + lanes) * width
        most = scratch_bytes // pitch_bytes // lanes * lanes
        return tile_rows, _tile(columns, aims.column_bytes // width, lanes, 0, most), 1


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
    words = [*(axis.extent for axis in axes), *[1] * missing]
    for operand in operands:
        words += [*(axis.strides[operand] for axis in axes), *[0] * missing]
    return tuple(words)
