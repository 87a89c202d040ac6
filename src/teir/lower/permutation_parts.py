"""The axes of a permutation by what they do: runs, rows, columns, and those around.

Rows are axes adjacent in the output, columns axes adjacent in the input, both taken in turn
(`teir.passes.long_sides`). Where input and output share the axis of unit stride, its elements make
a run, and rows and columns are those of runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.lower.axes import TileAxis
from teir.lower.copy_kernels import MOST_PERMUTED, PERMUTE_AXES, permute_scratch_bytes
from teir.lower.permutation_aims import aims_of
from teir.lower.stream_room import STREAMED_COLUMNS, STREAMED_ROWS
from teir.passes.long_sides import (
    STREAM_ROW_BYTES,
    balanced_sides,
    grown_sides,
    length_of,
    long_sides,
    turned_sides,
)
from teir.target import LINE_BYTES, Isa

_ROW_BYTES = 1024
"""Rows of neighbouring tiles together, written in long pieces."""
_COLUMNS_BYTES = 2048
"""Columns of neighbouring tiles together: a line where one ends is still near for the next."""
_DENSE_ROW_BYTES = 2048
"""Rows up to this long where all rows of a tile make one run."""
_LONGEST_RUN_BYTES = 6144
"""Longer runs are copied as they lie."""
_STREAM_RUN_COLUMNS_BYTES = 16 * 1024
"""Pieces of the input that all columns of runs make. On Golden Cove 0.9 to 1.02 of the time of
4 KB; rows of 8 KB took axes from columns and up to 2.5 of it."""


class Parts(msgspec.Struct, frozen=True, gc=False):
    """The axes of a permutation by what they do; strides are those on input and output.

    ``run``: elements adjacent on both, 1 where none are.
    """

    run: int

    rows: tuple[TileAxis, ...]
    columns: tuple[TileAxis, ...]
    outer: tuple[TileAxis, ...]
    is_dense: bool


def turning_parts(axes: Sequence[TileAxis], width: int, isa: Isa) -> Parts | None:
    """Rows and columns of a permutation that turns squares of elements."""
    sides = turned_sides(axes, width)
    if sides is None:
        return None
    upwards, along = sides
    rows = _rows_that_columns_follow(upwards, along[0], width)
    if rows:
        others = [axis for axis in along if axis not in rows]
        # Columns of several axes come in whole ones of the first, beside all rows of the tile.
        is_small = length_of((*rows, others[0])) * width <= permute_scratch_bytes(isa)
        aims = (0, aims_of(isa).dense_column_bytes // width if is_small else 0)
        _, columns = grown_sides(upwards, others, (aims,))
        return _parts(upwards, rows, columns, 1, True)
    aims = (_ROW_BYTES // width, _COLUMNS_BYTES // width)
    return _parts(upwards, *balanced_sides(upwards, along, aims), 1, False)


def streamed_parts(axes: Sequence[TileAxis], width: int) -> Parts | None:
    """Rows and columns as long as one call takes them, where both are long."""
    if turned_sides(axes, width) is None:
        return _streamed_run_parts(axes, width)
    sides = long_sides(axes, width, (STREAMED_ROWS, STREAMED_COLUMNS))
    if sides is None:
        return None
    upwards = sorted(axes, key=lambda axis: axis.strides[1])
    return _parts(upwards, *sides, 1, False)


def running_parts(axes: Sequence[TileAxis], width: int, isa: Isa) -> Parts | None:
    """Rows and columns of a permutation that moves runs of elements."""
    sides = _running_sides(axes, width)
    if sides is None:
        return None
    run, upwards, along = sides
    run_bytes = run.extent * width
    if run_bytes > _LONGEST_RUN_BYTES:
        return None
    # A side of as many runs as one call takes grows no further: only its last axis is cut.
    most_rows = min(MOST_PERMUTED, aims_of(isa).run_tile_bytes // run_bytes)
    aims = (most_rows, min(MOST_PERMUTED, _COLUMNS_BYTES // run_bytes))
    return _parts(upwards, *grown_sides(upwards, along, (aims,)), run.extent, False)


def _streamed_run_parts(axes: Sequence[TileAxis], width: int) -> Parts | None:
    """Rows and columns of a permutation that moves runs of a line and more."""
    sides = _running_sides(axes, width)
    if sides is None:
        return None
    run, upwards, along = sides
    run_bytes = run.extent * width
    if run_bytes < LINE_BYTES:
        return None
    aims = (STREAM_ROW_BYTES // run_bytes, _STREAM_RUN_COLUMNS_BYTES // run_bytes)
    return _parts(upwards, *grown_sides(upwards, along, (aims,)), run.extent, False)


def _running_sides(
    axes: Sequence[TileAxis], width: int
) -> tuple[TileAxis, list[TileAxis], list[TileAxis]] | None:
    """The run, the axes that follow it in the output, and those that follow it in the input."""
    upwards = sorted(axes, key=lambda axis: axis.strides[1])
    along = sorted(axes, key=lambda axis: axis.strides[0])
    run = upwards[0]
    run_bytes = run.extent * width
    if run.strides != (width, width) or run is not along[0]:
        return None
    if len(axes) == 1 or upwards[1].strides[1] != run_bytes or upwards[1].strides[0] == run_bytes:
        return None
    columns = along[1:] if along[1].strides[0] == run_bytes else [TileAxis(1, (0, 0))]
    return run, upwards[1:], columns


def _parts(
    upwards: Sequence[TileAxis],
    rows: Sequence[TileAxis],
    columns: Sequence[TileAxis],
    run: int,
    is_dense: bool,
) -> Parts:
    """Rows and columns, and what is left of the axes."""
    used = set(map(id, (*rows, *columns)))
    outer = [axis for axis in upwards if id(axis) not in used]
    return Parts(run, tuple(rows), tuple(columns), tuple(outer), is_dense)


def _rows_that_columns_follow(
    upwards: Sequence[TileAxis], column: TileAxis, width: int
) -> tuple[TileAxis, ...]:
    """The axes of short rows, where columns are adjacent runs of the output behind them; else none.

    in[c, d, e, f] -> out[d, f, e, c]: rows c and e, columns f
    """
    end = width
    for count, axis in enumerate(upwards[:PERMUTE_AXES]):
        if axis is column or axis.strides[1] != end:
            return ()
        end *= axis.extent
        if end > min(_DENSE_ROW_BYTES, MOST_PERMUTED * width):
            return ()
        if column.strides[1] == end:
            return tuple(upwards[: count + 1])
    return ()
