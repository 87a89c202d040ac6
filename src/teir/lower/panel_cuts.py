"""Where the rows and columns of a tile are cut into register blocks of panels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import msgspec

from teir.dtypes import DataType
from teir.lower.block_shapes import block_shapes
from teir.target import MANY_REGISTERS, VECTORS_IN_A_ROW, Isa

TALLEST = 3
"""Vectors of a block where that many divide the rows no worse than four do."""
_LONG = (6, 9)
"""Vectors of a block whose columns are written past the caches: long runs of whole lines."""


class PanelCut(msgspec.Struct, frozen=True, gc=False):
    """``count`` blocks of ``size`` vectors or columns from ``start`` on; lanes of the last one."""

    start: int
    size: int
    count: int
    last_lanes: int


def one_by_one(cut: PanelCut) -> Iterator[PanelCut]:
    for number in range(cut.count):
        yield PanelCut(cut.start + number * cut.size, cut.size, 1, cut.last_lanes)


def block_rows(cut: PanelCut, lanes: int) -> int:
    """Rows of the last block of a cut."""
    return (cut.size - 1) * lanes + cut.last_lanes


@cache
def row_cuts(rows: int, lanes: int, is_run: bool, isa: Isa) -> tuple[PanelCut, ...]:
    """``is_run``: columns are written past the caches; in few registers, where that says nothing:
    they follow one another, in whole vectors."""
    vectors, left = -(-rows // lanes), rows % lanes
    tallest = 4 if vectors % 4 == 0 and vectors % TALLEST else TALLEST
    if is_run and vectors in _LONG:
        tallest = vectors
    if isa.vector_registers < MANY_REGISTERS:
        tallest = 3 if vectors == 3 else 2
        if is_run and vectors in VECTORS_IN_A_ROW:
            tallest = vectors
    cuts = list(_even(vectors, tallest, lanes))
    if not left:
        return tuple(cuts)
    last = cuts.pop()
    if last.count > 1:
        cuts.append(PanelCut(last.start, last.size, last.count - 1, lanes))
    start = last.start + (last.count - 1) * last.size
    return (*cuts, PanelCut(start, last.size, 1, left))


def _even(length: int, largest: int, lanes: int) -> Iterator[PanelCut]:
    pieces = -(-length // largest)
    size, longer = divmod(length, pieces)
    if longer:
        yield PanelCut(0, size + 1, longer, lanes)
    yield PanelCut(longer * (size + 1), size, pieces - longer, lanes)


@cache
def column_cuts(
    columns: int, vectors: int, isa: Isa, element: DataType, most: int
) -> tuple[PanelCut, ...]:
    """Blocks of ``most`` columns at most, of panels of so many vectors."""
    widest = max(
        (width for tall, width in block_shapes(isa, element, element) if tall == vectors),
        default=max(1, (isa.vector_registers - _beside_sums(vectors, isa)) // vectors),
    )
    return tuple(_even(columns, min(widest, most), 1))


def _beside_sums(vectors: int, isa: Isa) -> int:
    """Registers that sums leave: the vectors of A and a factor, or where there are few the factors
    and one vector at a time."""
    return 1 + vectors if isa.vector_registers >= MANY_REGISTERS else 4
