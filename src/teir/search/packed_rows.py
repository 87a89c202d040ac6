"""Packing of rows: A in panels of some rows, whose lanes are adjacent.

    [outer rows][panel][k][row]

Short rows lie side by side in a panel; where they follow one another in the output too they are one
axis from then on: 12 rows of 5 are 60 rows, and 2 rows of 2 rows of 6 are 24.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import starmap

from teir.ir.nodes import Tensor
from teir.search.emission import Emission
from teir.search.packing import (
    Block,
    Packed,
    Piece,
    blocks_along,
    following,
    packed_into,
    shifted,
    stacked,
    whole_and_inside,
)
from teir.search.shape import extent_of
from teir.search.step import Span
from teir.target import ARRAY_START_BYTES, LINE_BYTES, PAGE_BYTES, in_lines

_PAIR = 2


def pack_a(
    emission: Emission, block: Block, panel: int, out: str, turns_rows: bool, whole_lines: bool
) -> Packed:
    """Copy rows into panels of ``panel`` rows.

    ``out`` is the tensor the rows are meant for.
    ``whole_lines``: every step along ``k`` begins with a line, so that no vector of a line lies in
    two: 351 rows of FP32 took 0.87 of the time (Golden Cove).
    ``turns_rows``: where panels are whole vectors, all are copied once more behind the last one,
    rows taken round, for blocks that begin with the first whole line of the output.
    """
    outer, rows = block.outer, block.side
    joined = 0
    for _, inside in following(outer, rows, out):
        joined += 2 * inside <= panel
    if joined:
        return _pack_following(emission, block, panel, joined, whole_lines)
    if outer and rows_together(rows, outer[-1], panel) > 1:
        return _pack_together(emission, block, panel // rows.extent, turns_rows)
    source, target = block.source, block.target(emission)
    width = source.data_type.width
    height = min(panel, rows.extent)
    turns_rows = turns_rows and height * width % LINE_BYTES == 0 and rows.extent % height == 0
    # Measured: 3 to 5 % less time than without a line between the steps, where rows are 3 lines.
    step_bytes = _step_bytes(height * width, whole_lines) + LINE_BYTES * turns_rows
    k, panel_bytes = stacked(block.k, target.name, step_bytes)
    parts = blocks_along(rows, height, target.name, width, panel_bytes)
    pieces = tuple(starmap(Piece, parts))
    outer, end = stacked(outer, target.name, -(-rows.extent // height) * panel_bytes)
    copied = (*pieces, *_turned(pieces, source, target, end)) if turns_rows else pieces
    return packed_into(emission, block, target, outer, pieces, k, copied)


def _step_bytes(rows_bytes: int, whole_lines: bool) -> int:
    """From one step along k to the next in rows that take so many bytes; no page more of them.

    Rows as they are where a third of them more would be room: they would leave the second cache.
    """
    lines = in_lines(rows_bytes)
    if not whole_lines or lines == rows_bytes or 3 * lines > 4 * rows_bytes:
        return rows_bytes
    return lines if lines % PAGE_BYTES else lines + LINE_BYTES


def _turned(
    pieces: tuple[Piece, ...], source: Tensor, target: Tensor, at_bytes: int
) -> Iterator[Piece]:
    """The rows from the first whole line of the output on, then those before it; ``at_bytes``
    further on."""
    width = target.data_type.width
    first = (LINE_BYTES - ARRAY_START_BYTES) // width
    for piece in pieces:
        rows = piece.tile
        assert rows is not None
        begin, step = rows.offsets.get(source.name, 0), rows.stride(source.name)
        late = Span(rows.label, rows.extent - first, rows.strides, rows.offsets)
        late = shifted(late, source.name, begin + first * step)
        early = Span(rows.label, first, rows.strides, rows.offsets)
        yield Piece(piece.loops, shifted(late, target.name, at_bytes))
        end = at_bytes + (rows.extent - first) * width
        yield Piece(piece.loops, shifted(early, target.name, end))


def rows_together(rows: Span, outer: Span, panel: int) -> int:
    """How many rows of ``outer`` fill a panel, 1 where they do not fill it exactly."""
    count, left = divmod(panel, rows.extent)
    return count if left == 0 and outer.extent % max(count, 1) == 0 else 1


def _pack_following(
    emission: Emission, block: Block, panel: int, joined: int, whole_lines: bool
) -> Packed:
    """As `pack_a`, short rows of the ``joined`` innermost outer axes made one axis of the tile: of
    the outermost of these as many as the panel holds, of the others all."""
    target, width = block.target(emission), block.source.data_type.width
    place = len(block.outer) - joined
    last, inner = block.outer[place], block.outer[place + 1 :]
    (*within, row), row_bytes = stacked((*inner, block.side), target.name, width)
    count = min(panel * width // row_bytes, last.extent)
    step_bytes = _step_bytes(count * row_bytes, whole_lines)
    k, panel_bytes = stacked(block.k, target.name, step_bytes)
    apart_bytes = -(-last.extent // count) * panel_bytes
    outer, _ = stacked(block.outer[:place], target.name, apart_bytes)
    parts = blocks_along(last, count, target.name, row_bytes, panel_bytes)
    copied = [Piece(loops, row, (part, *within)) for loops, part in parts]
    pieces = tuple(
        Piece(loops, reduce(_one_axis, reversed((part, *within)), row)) for loops, part in parts
    )
    return packed_into(emission, block, target, outer, pieces, k, copied)


def _one_axis(inner: Span, outer: Span) -> Span:
    """Both axes as one, on the tensors where the outer one continues the inner one."""
    strides = {
        tensor: stride
        for tensor, stride in inner.strides.items()
        if outer.stride(tensor) == stride * inner.extent
    }
    offsets = {
        tensor: outer.offsets.get(tensor, 0) + inner.offsets.get(tensor, 0)
        for tensor in strides
        if tensor in outer.offsets or tensor in inner.offsets
    }
    return Span(f"{outer.label}{inner.label}", outer.extent * inner.extent, strides, offsets)


def _pack_together(emission: Emission, block: Block, count: int, turns_rows: bool) -> Packed:
    """As `pack_a`, ``count`` short rows of the innermost outer axis side by side in a panel.

    Where few rows lie along the source's elements, panels lie side by side too, so that the copy
    moves squares of elements.
    """
    source, rows, target = block.source, block.side, block.target(emission)
    width, last = source.data_type.width, block.outer[-1]
    loops, inner = whole_and_inside(last, count)
    around = (*block.outer[:-1], *loops)
    panel_bytes = count * rows.extent * width
    if last.stride(source.name) == width and panel_bytes * extent_of(around) <= PAGE_BYTES:
        outer, side_bytes = stacked(around, target.name, panel_bytes)
        k, end = stacked(block.k, target.name, side_bytes)
    else:
        k, panel_bytes = stacked(block.k, target.name, panel_bytes)
        outer, end = stacked(around, target.name, panel_bytes)
    beside = inner.on(target.name, rows.extent * width)
    pieces = (Piece((), rows.on(target.name, width), (beside,)),)
    turns_rows = turns_rows and count == _PAIR and _PAIR * rows.extent * width == 3 * LINE_BYTES
    copied = (*pieces, *_turned_pair(rows, inner, source, target, end)) if turns_rows else pieces
    return packed_into(emission, block, target, outer, pieces, k, copied)


def _turned_pair(
    rows: Span, beside: Span, source: Tensor, target: Tensor, at_bytes: int
) -> Iterator[Piece]:
    """The rows of two runs of one and a half lines from ``at_bytes`` on as `PanelBlock` takes them.

    A line each of the rows from the first whole line of the output on, with those before
    `ARRAY_START_BYTES`, then half a line each of those in between.
    """
    width = target.data_type.width
    early, late = ARRAY_START_BYTES // width, (LINE_BYTES - ARRAY_START_BYTES) // width
    for first, count, place, apart in (
        (late, rows.extent - late, 0, LINE_BYTES),
        (0, early, LINE_BYTES - ARRAY_START_BYTES, LINE_BYTES),
        (early, late - early, _PAIR * LINE_BYTES, LINE_BYTES // 2),
    ):
        part = Span(rows.label, count, rows.strides, rows.offsets).on(target.name, width)
        begin = rows.offsets.get(source.name, 0) + first * rows.stride(source.name)
        part = shifted(part, source.name, begin)
        run = beside.on(target.name, apart)
        yield Piece((), shifted(part, target.name, at_bytes + place), (run,))
