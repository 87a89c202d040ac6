"""Packing of rows: A in panels of some rows, whose lanes are adjacent.

    [outer rows][panel][k][row]

Short rows lie side by side in a panel; where they follow one another in the output too they are one
axis from then on: 12 rows of 5 are 60 rows, and 2 rows of 2 rows of 6 are 24.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from teir.ir.memory_hints import NO_HINTS, MemoryHints
from teir.ir.nodes import Tensor
from teir.search.emission import Body, Emission
from teir.search.packing import (
    Packed,
    Piece,
    blocks_along,
    copies_into,
    follow,
    shifted,
    stacked,
    whole_and_inside,
)
from teir.search.shape import extent_of
from teir.search.step import Span
from teir.target import ARRAY_START_BYTES, LINE_BYTES, PAGE_BYTES, in_lines

_PAIR = 2


def pack_a(
    emission: Emission,
    source: Tensor,
    outer: tuple[Span, ...],
    rows: Span,
    k: tuple[Span, ...],
    panel: int,
    out: str,
    is_shared: bool,
    is_asked_for: bool,
    turns_rows: bool,
    whole_lines: bool,
) -> Packed:
    """Copy the rows of ``outer`` x ``rows`` and the depth ``k`` into panels of ``panel`` rows.

    ``out`` is the tensor the rows are meant for. ``is_shared``: threads share the work.
    ``is_asked_for``: rows are read in pieces so far apart that they are asked for ahead.
    ``whole_lines``: every step along ``k`` begins with a line, so that no vector of a line lies in
    two: 351 rows of FP32 took 0.87 of the time (Golden Cove).
    ``turns_rows``: where panels are whole vectors, all are copied once more behind the last one,
    rows taken round, for blocks that begin with the first whole line of the output.
    """
    asked = frozenset((source.name,))
    hints = MemoryHints(streams=False, prefetched=asked) if is_asked_for else NO_HINTS
    if outer and follow(outer[-1], rows, out) and panel // rows.extent > 1:
        whole = _whole_axes(outer, rows, panel, out)
        return _pack_following(
            emission, source, outer, rows, k, panel, whole, is_shared, hints, whole_lines
        )
    if outer and rows_together(rows, outer[-1], panel) > 1:
        count = panel // rows.extent
        return _pack_together(emission, source, outer, rows, k, count, is_shared, hints, turns_rows)
    target = Tensor(name=emission.name(f"{source.name}_packed"), data_type=source.data_type)
    width = source.data_type.width
    height = min(panel, rows.extent)
    turns_rows = turns_rows and height * width % LINE_BYTES == 0 and rows.extent % height == 0
    # Measured: 3 to 5 % less time than without a line between the steps, where rows are 3 lines.
    step_bytes = _step_bytes(height * width, whole_lines) + LINE_BYTES * turns_rows
    k_packed, panel_bytes = stacked(k, target.name, step_bytes)
    parts = blocks_along(rows, height, target.name, width, panel_bytes)
    pieces = tuple(Piece(loops, tile) for loops, tile in parts)
    outer_packed, end = stacked(outer, target.name, -(-rows.extent // height) * panel_bytes)
    copied = (*pieces, *_turned(pieces, source, target, end)) if turns_rows else pieces
    copies = copies_into(emission, source, target, outer_packed, copied, k_packed, is_shared, hints)
    return Packed(
        Body(copies.nodes, (target,)),
        target,
        outer_packed,
        pieces,
        k_packed,
    )


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


def _whole_axes(outer: Sequence[Span], rows: Span, panel: int, out: str) -> int:
    """How many of the innermost axes a panel holds whole with rows of the next one beside them."""
    extent, whole = rows.extent * outer[-1].extent, 0
    for axis in reversed(outer[:-1]):
        if axis.stride(out) != extent * rows.stride(out) or panel // extent < 2:
            break
        extent *= axis.extent
        whole += 1
    return whole


def _pack_following(
    emission: Emission,
    source: Tensor,
    outer: tuple[Span, ...],
    rows: Span,
    k: tuple[Span, ...],
    panel: int,
    whole: int,
    is_shared: bool,
    hints: MemoryHints,
    whole_lines: bool,
) -> Packed:
    """As `pack_a`, short rows of the innermost outer axes made one axis of the tile: of ``whole``
    axes all of them, of the next one as many as the panel holds."""
    target = Tensor(name=emission.name(f"{source.name}_packed"), data_type=source.data_type)
    width = source.data_type.width
    place = len(outer) - 1 - whole
    last = outer[place]
    (*within, row), row_bytes = stacked((*outer[place + 1 :], rows), target.name, width)
    count = min(panel * width // row_bytes, last.extent)
    step_bytes = _step_bytes(count * row_bytes, whole_lines)
    k_packed, panel_bytes = stacked(k, target.name, step_bytes)
    outer_packed, _ = stacked(outer[:place], target.name, -(-last.extent // count) * panel_bytes)
    parts = blocks_along(last, count, target.name, row_bytes, panel_bytes)
    copied = [Piece(loops, row, (part, *within)) for loops, part in parts]
    copies = copies_into(emission, source, target, outer_packed, copied, k_packed, is_shared, hints)
    pieces = tuple(
        Piece(loops, reduce(_one_axis, reversed((part, *within)), row)) for loops, part in parts
    )
    return Packed(Body(copies.nodes, (target,)), target, outer_packed, pieces, k_packed)


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


def _pack_together(
    emission: Emission,
    source: Tensor,
    outer: tuple[Span, ...],
    rows: Span,
    k: tuple[Span, ...],
    count: int,
    is_shared: bool,
    hints: MemoryHints,
    turns_rows: bool,
) -> Packed:
    """As `pack_a`, ``count`` short rows of the innermost outer axis side by side in a panel.

    Where few rows lie along the source's elements, panels lie side by side too, so that the copy
    moves squares of elements.
    """
    target = Tensor(name=emission.name(f"{source.name}_packed"), data_type=source.data_type)
    width = source.data_type.width
    loops, inner = whole_and_inside(outer[-1], count)
    panel_bytes = count * rows.extent * width
    side_bytes = panel_bytes * extent_of((*outer[:-1], *loops))
    if outer[-1].stride(source.name) == width and side_bytes <= PAGE_BYTES:
        outer_packed, side_bytes = stacked((*outer[:-1], *loops), target.name, panel_bytes)
        k_packed, end = stacked(k, target.name, side_bytes)
    else:
        k_packed, panel_bytes = stacked(k, target.name, panel_bytes)
        outer_packed, end = stacked((*outer[:-1], *loops), target.name, panel_bytes)
    beside = inner.on(target.name, rows.extent * width)
    pieces = (Piece((), rows.on(target.name, width), (beside,)),)
    turns_rows = turns_rows and count == _PAIR and _PAIR * rows.extent * width == 3 * LINE_BYTES
    copied = (*pieces, *_turned_pair(rows, inner, source, target, end)) if turns_rows else pieces
    copies = copies_into(emission, source, target, outer_packed, copied, k_packed, is_shared, hints)
    return Packed(Body(copies.nodes, (target,)), target, outer_packed, pieces, k_packed)


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
