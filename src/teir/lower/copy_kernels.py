"""The kernels that copy what lies in another order, as values (see `teir.lower.kernels`)."""

from __future__ import annotations

import msgspec

from teir.passes.long_sides import SIDE_AXES
from teir.target import Isa


class TransposeCopy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[m, n] = in[m, n] where the input is adjacent along m and the output along n.

    In-register transposes of ``lanes`` by ``lanes`` elements of ``element_bytes`` bytes each.
    ``grouped``: the rows of the output lie in groups of so many, a power of two that divides m;
    row i lies at (i div grouped) * out_m + (i mod grouped) * out_row.
    ``aligns``: all rows of the output lie alike in their lines, and the second tile along n begins
    where a line does.
    ``columns``: n, where rows of the output are turned whole; 0 where squares are.
    ``step``: elements from one to the next along m on the input, where squares are turned and rows
    are not in groups.

    Operands: input, output. Arguments, in order: m, n, in_n, out_m, and out_row where grouped > 1.
    """

    element_bytes: int
    lanes: int
    grouped: int = 1
    aligns: bool = False
    columns: int = 0
    step: int = 1


class JoinedTranspose(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[o, m, n1, n0] = in[o, m, n1, n0]: the input adjacent along m, the output along n0, n1.

    The rows of the output, n0 * n1 elements, are turned as if they were along one axis, in
    squares of ``lanes`` by ``lanes`` elements, a power of two of at least 8 bytes. There are at
    least ``lanes`` elements in a row, and as many rows.

    Operands: input, output. Arguments, in order: m, n0, n1, in_n0, in_n1, out_m, o, in_o, out_o.
    """

    element_bytes: int
    lanes: int


SHORT_SIDES = range(2, 13)
"""Elements of the short side of a `ShortTranspose`."""


class ShortTranspose(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[o, n, s] = in[o, n, s] with few elements s, so many as ``side``, next to each other.

    With ``joins`` they are so on the output, whose rows of ``side`` elements follow one another
    along n, and the input is adjacent along n; without it input and output change places. So many
    vectors of ``lanes`` elements, at most n, are taken apart or put together in registers at once.
    ``step``: elements of the input from one to the next, where what is said to be adjacent is not.

    Operands: input, output. Arguments, in order: n, the stride of s where n is adjacent, o, in_o,
    out_o.
    """

    element_bytes: int
    side: int
    lanes: int
    joins: bool
    step: int = 1


STEPS = range(2, 9)
"""Elements from one to the next of a `SteppedCopy`."""


class SteppedCopy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[o, n] = in[o, n], the output adjacent along n, the input every ``step``-th element.

    A vector of ``lanes`` elements, at most n, is picked from ``step`` vectors of the input, of
    which only its elements are loaded.

    Operands: input, output. Arguments, in order: n, o, in_o, out_o.
    """

    element_bytes: int
    step: int
    lanes: int


MOST_PIECES = 8
"""Pieces of a row of a `RowCopy`."""


class RowCopy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[o, n, b] = in[o, n, b], the bytes b of a row adjacent on both sides.

    A row is copied in ``pieces`` pieces of ``piece_bytes``, a power of two, the last of which ends
    where the row does and may overlap the one before: rows have more than ``pieces`` - 1 times
    ``piece_bytes`` bytes and at most ``pieces`` times as many, with one piece just so many.

    Operands: input, output. Arguments, in order: row_bytes, n, in_n, out_n, o, in_o, out_o.
    """

    piece_bytes: int
    pieces: int


class StreamRows(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[o, n, e] = in[o, n, e], the elements e of a row adjacent on both sides.

    Rows are copied one after another, in lines written past the caches where the output's elements
    are aligned, what is before the first and behind the last line of a row too.

    Operands: input, output. Arguments: those of `RowCopy`.
    """

    element_bytes: int


PERMUTE_AXES = SIDE_AXES
"""Axes a `PermuteCopy` fuses into its rows, and into its columns."""
PERMUTE_OUTER_AXES = 2
"""Axes a `PermuteCopy` walks around its rows and columns."""
MOST_PERMUTED = 2048
"""Rows and columns of one call of a `PermuteCopy` at most: their offsets are kept in a table."""
_PERMUTE_SCRATCH_BYTES = 64 * 1024
_LARGE_PERMUTE_SCRATCH_BYTES = 320 * 1024


def permute_scratch_bytes(isa: Isa) -> int:
    """Bytes of one tile of a `PermuteCopy` at most; two are in use."""
    return _LARGE_PERMUTE_SCRATCH_BYTES if isa.follows_few_rows else _PERMUTE_SCRATCH_BYTES


def permute_room_bytes(isa: Isa) -> int:
    """Bytes of scratch of a `PermuteCopy` at a multiple of 64: two tables of offsets, two tiles."""
    return 2 * (8 * MOST_PERMUTED + permute_scratch_bytes(isa))


class PermuteCopy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[o, c, r] = in[o, c, r] where the input is adjacent along c and the output along r.

    Rows r and columns c are up to three axes each, the first fastest; together the columns walk
    the input element by element, the rows the output. Tiles of ``tile_columns`` x ``tile_rows``
    are transposed in registers into scratch, ``lanes`` x ``lanes`` elements at a time, while the
    tile before is written and the lines of the next are fetched. There are at least ``lanes`` and
    at most MOST_PERMUTED rows and columns, and ``tile_columns`` is between ``lanes`` and their
    number; ``tile_rows`` is at least ``lanes``.

    With ``group`` = g > 1 all rows make one tile, and g columns follow one another in the output:
    column c starts where column c - 1 ends unless g divides c - c0, c0 the first column of a tile.
    ``stream`` = 1: the output is written past the caches, where its alignment allows it.
    On the input ``step`` elements lead from one column to the next.

    Operands: input, output, room (`permute_room_bytes` of scratch that nobody else uses meanwhile).
    Arguments, in order: r0, r1, r2 (extents of the rows' axes), r_in0, r_in1, r_in2, c0, c1, c2,
    c_out0, c_out1, c_out2, o0, o1 (outer axes), o_in0, o_in1, o_out0, o_out1, tile_rows,
    tile_columns, group, stream.
    """

    element_bytes: int
    lanes: int
    step: int = 1


class RunCopy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[o, c, r, e] = in[o, c, r, e]: as `PermuteCopy` with a run of elements for every element.

    Input and output are adjacent along e; the columns walk the input run by run, the rows the
    output. Vectors of ``lanes`` elements, at most a run. There are at most MOST_PERMUTED rows and
    columns.

    Operands and arguments: those of `PermuteCopy`, then run, the extent of e.
    """

    element_bytes: int
    lanes: int


class StreamCopy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[o, c, r] = in[o, c, r]: as `PermuteCopy`, without tiles, lines written past the caches.

    Two squares of rows are read side by side along all columns, so a row should reach far. There
    are at least as many columns as elements in a line; tables hold STREAMED_ROWS rows and
    STREAMED_COLUMNS columns.

    Operands: input, output, room (`stream_copy_room_bytes` of scratch at a multiple of 64).
    Arguments: those of `PermuteCopy` up to o_out1.
    """

    element_bytes: int


class StreamRuns(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[o, c, r, e] = in[o, c, r, e]: as `RunCopy`, without tiles, lines written past the caches.

    A run is a line at least. Some rows are read side by side along all columns; tables hold
    STREAMED_ROWS rows and STREAMED_COLUMNS columns.

    Operands: those of `StreamCopy`. Arguments: those of `StreamCopy`, then run, the extent of e.
    """

    element_bytes: int


CELL_AXES = 12
"""Axes of a cell of a `CellCopy`."""
WALK_AXES = 12
"""Axes of its walk from cell to cell."""
MOST_IN_CELL = 1024
MOST_CELLS = 4096
"""Elements of a cell and cells of a walk at most: their offsets are kept in tables."""
CELL_GROUP = 4
"""Elements of a cell that are copied together; the last one is copied again to fill a group."""


def cell_copy_room_bytes() -> int:
    """Bytes of scratch of a `CellCopy`: offsets on input and output of elements and of cells."""
    return 2 * 8 * (MOST_IN_CELL + CELL_GROUP + MOST_CELLS)


class CellCopy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[w, e] = in[w, e] along many short axes: the axes e make a cell, the axes w a walk.

    Both take the first axis fastest. Cells have at most MOST_IN_CELL elements, walks MOST_CELLS
    cells.

    Operands: input, output, room (`cell_copy_room_bytes` of scratch that nobody else uses
    meanwhile). Arguments: the extents of CELL_AXES axes of a cell, their strides on the input, on
    the output, then the same of the WALK_AXES axes of the walk.
    """

    element_bytes: int


TurningCopy = (
    TransposeCopy
    | JoinedTranspose
    | ShortTranspose
    | SteppedCopy
    | PermuteCopy
    | RunCopy
    | StreamCopy
    | StreamRuns
    | StreamRows
    | CellCopy
)
"""Copies of elements that lie otherwise on the output."""
