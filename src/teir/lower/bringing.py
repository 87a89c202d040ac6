"""Asking for the rows that the next tile reads, a part of them before every block of this one.

The processor waits where it is asked for more lines at once than it can have on their way, and
takes as many as arrive during one register block in passing. So each block of columns asks for the
rows at some values of one reduction:

    loop over blocks of columns (mark += part)
      BringLines(A + what the next tile lies ahead + what the mark has moved)
      GemmBlock

A mark is a slot that moves with the loop and points nowhere; a second one stays where it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import msgspec

from teir.dtypes import DataType
from teir.lower.asking_kernels import BringLines
from teir.lower.axes import TileAxis
from teir.lower.kernel_program import Address, Call, Storage
from teir.lower.slots import ScratchRoom
from teir.target import LINE_BYTES

_LOOPS = 3
"""Loops of a `BringLines`."""
_MOST_LINES = 224
"""Lines that one block of columns may ask for."""
_MARK = "mark of what is asked for"


class Marks(msgspec.Struct, frozen=True, gc=False):
    """The slots of a mark that moves and of one that stays."""

    moving: int
    staying: int


def marks_in(room: ScratchRoom) -> Marks:
    """The marks of a program, the same for all that is asked for: each is back in the end."""
    found = [number for number, slot in enumerate(room.slots) if slot.tensor == _MARK]
    while len(found) < 2:
        found.append(room.add(_MARK, DataType.FP32, Storage.RUN, 0))
    return Marks(*found)


class Brought(msgspec.Struct, frozen=True, gc=False):
    """The rows of the next tile in ``parts`` parts, ``part_bytes`` from one to the next."""

    parts: int
    part_bytes: int
    arguments: tuple[int, ...]

    def call(self, source: Address, part: int, marks: Marks) -> Call:
        """Ask for ``part`` and as many after it as the mark has moved.

        By the last byte of each line's length: rows seldom begin with a line, and the line they
        begin in was asked for as the end of rows before them.
        """
        offset = source.offset_bytes + part * self.part_bytes + LINE_BYTES - 1
        first = Address(slot=source.slot, offset_bytes=offset)
        mark = Address(slot=marks.moving, offset_bytes=0)
        start = Address(slot=marks.staying, offset_bytes=0)
        return Call(kernel=BringLines(), operands=(first, mark, start), arguments=self.arguments)


def brought_rows(row_bytes: int, reductions: Sequence[TileAxis], blocks: int) -> Brought | None:
    """Adjacent rows of in all ``row_bytes`` bytes at every index of ``reductions``.

    In at most ``blocks`` parts; None where the parts are too large or too irregular. Strides on A
    come first.
    """
    axes = [axis for axis in reductions if axis.extent > 1]
    if not axes:
        return None
    longest = max(axes, key=lambda axis: axis.extent)
    size = -(-longest.extent // blocks)
    inside = [(-(-row_bytes // LINE_BYTES), LINE_BYTES)]
    inside += [(axis.extent, axis.strides[0]) for axis in axes if axis is not longest]
    if size > 1:
        inside.append((size, longest.strides[0]))
    if len(inside) > _LOOPS or prod(extent for extent, _ in inside) > _MOST_LINES:
        return None
    inside += [(1, 0)] * (_LOOPS - len(inside))
    return Brought(
        -(-longest.extent // size),
        size * longest.strides[0],
        tuple(word for pair in inside for word in pair),
    )
