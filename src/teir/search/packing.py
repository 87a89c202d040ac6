"""Packing: a Copy of a block of an operand into scratch, in the order the kernels read it.

A (rows, lanes adjacent) becomes panels of some rows: [outer rows][panel][k][row]. Short rows lie
side by side in a panel; where they follow one another in the output too they are one axis from then
on: 12 rows of 5 are 60 rows.
B becomes [outer columns][column][k], or [outer columns][block][k][column] where B is adjacent
along the columns already, and where few columns make a block. Sums are not touched, so packing
changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import msgspec

from teir.dtypes import DataType
from teir.ir.memory_hints import NO_HINTS, MemoryHints
from teir.ir.nodes import Operation, Tensor
from teir.passes.cache_blocks import MOST_TOGETHER
from teir.passes.extents import even_block
from teir.search.emission import Body, Emission, Roles
from teir.search.shape import extent_of
from teir.search.step import Span
from teir.target import ARRAY_START_BYTES, LINE_BYTES, PAGE_BYTES, in_lines, rows_apart

_SHARES = 8
"""The fewest parts of a copy that threads share."""
_PAIR = 2


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A part of a side: loops around one tile axis (None: a side without axes).

    ``beside`` is an axis of short rows that follow one another in a packed panel.
    """

    loops: tuple[Span, ...]
    tile: Span | None
    beside: tuple[Span, ...] = ()


class Packed(msgspec.Struct, frozen=True, gc=False):
    """A packed operand: the copies that fill it, and the axes that walk it."""

    body: Body
    tensor: Tensor
    outer: tuple[Span, ...]
    pieces: tuple[Piece, ...]
    k: tuple[Span, ...]


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
        count = min(panel // rows.extent, outer[-1].extent)
        return _pack_following(
            emission, source, outer, rows, k, count, is_shared, hints, whole_lines
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
    k_packed, panel_bytes = _stack(k, target.name, step_bytes)
    parts = _blocks(rows, height, target.name, width, panel_bytes)
    pieces = tuple(Piece(loops, tile) for loops, tile in parts)
    outer_packed, end = _stack(outer, target.name, -(-rows.extent // height) * panel_bytes)
    copied = (*pieces, *_turned(pieces, source, target, end)) if turns_rows else pieces
    copies = _copies(emission, source, target, outer_packed, copied, k_packed, is_shared, hints)
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
        late = _shifted(late, source.name, begin + first * step)
        early = Span(rows.label, first, rows.strides, rows.offsets)
        yield Piece(piece.loops, _shifted(late, target.name, at_bytes))
        end = at_bytes + (rows.extent - first) * width
        yield Piece(piece.loops, _shifted(early, target.name, end))


def rows_together(rows: Span, outer: Span, panel: int) -> int:
    """How many rows of ``outer`` fill a panel, 1 where they do not fill it exactly."""
    count, left = divmod(panel, rows.extent)
    return count if left == 0 and outer.extent % max(count, 1) == 0 else 1


def follow(outer: Span, rows: Span, out: str) -> bool:
    """True where the rows of ``outer`` lie one after the other in the output."""
    return outer.stride(out) == rows.extent * rows.stride(out)


def all_follow(axes: Sequence[Span], tensor: str) -> bool:
    """True where the axes, outermost first, move a tensor as one of all their extents would."""
    return all(follow(outer, inner, tensor) for outer, inner in pairwise(axes))


def _pack_following(
    emission: Emission,
    source: Tensor,
    outer: tuple[Span, ...],
    rows: Span,
    k: tuple[Span, ...],
    count: int,
    is_shared: bool,
    hints: MemoryHints,
    whole_lines: bool,
) -> Packed:
    """As `pack_a`, ``count`` short rows of the innermost outer axis made one axis of the tile."""
    target = Tensor(name=emission.name(f"{source.name}_packed"), data_type=source.data_type)
    width = source.data_type.width
    last = outer[-1]
    step_bytes = _step_bytes(count * rows.extent * width, whole_lines)
    k_packed, panel_bytes = _stack(k, target.name, step_bytes)
    outer_packed, _ = _stack(outer[:-1], target.name, -(-last.extent // count) * panel_bytes)
    row = rows.on(target.name, width)
    parts = _blocks(last, count, target.name, rows.extent * width, panel_bytes)
    copied = [Piece(loops, row, (beside,)) for loops, beside in parts]
    copies = _copies(emission, source, target, outer_packed, copied, k_packed, is_shared, hints)
    pieces = tuple(Piece(loops, _one_axis(beside, row)) for loops, beside in parts)
    return Packed(Body(copies.nodes, (target,)), target, outer_packed, pieces, k_packed)


def _one_axis(outer: Span, inner: Span) -> Span:
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
    loops, inner = _split(outer[-1], count)
    panel_bytes = count * rows.extent * width
    side_bytes = panel_bytes * extent_of((*outer[:-1], *loops))
    if outer[-1].stride(source.name) == width and side_bytes <= PAGE_BYTES:
        outer_packed, side_bytes = _stack((*outer[:-1], *loops), target.name, panel_bytes)
        k_packed, end = _stack(k, target.name, side_bytes)
    else:
        k_packed, panel_bytes = _stack(k, target.name, panel_bytes)
        outer_packed, end = _stack((*outer[:-1], *loops), target.name, panel_bytes)
    beside = inner.on(target.name, rows.extent * width)
    pieces = (Piece((), rows.on(target.name, width), (beside,)),)
    turns_rows = turns_rows and count == _PAIR and _PAIR * rows.extent * width == 3 * LINE_BYTES
    copied = (*pieces, *_turned_pair(rows, inner, source, target, end)) if turns_rows else pieces
    copies = _copies(emission, source, target, outer_packed, copied, k_packed, is_shared, hints)
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
        part = _shifted(part, source.name, begin)
        run = beside.on(target.name, apart)
        yield Piece((), _shifted(part, target.name, at_bytes + place), (run,))


def pack_b(
    emission: Emission,
    source: Tensor,
    outer: tuple[Span, ...],
    columns: Span,
    k: tuple[Span, ...],
    block: int,
    is_shared: bool,
    turns: bool,
) -> Packed:
    """Copy the columns of ``outer`` x ``columns`` and the depth ``k``; blocks of ``block``.

    ``is_shared``: threads share the work. Columns that lie side by side stay so unless ``turns``,
    or steps along k of complex numbers would be whole pages: those meet in one set of the first
    cache. Turned, two products of 1024 rows and columns took 0.85 of the time (Golden Cove).
    """
    target = Tensor(name=emission.name(f"{source.name}_packed"), data_type=source.data_type)
    width = source.data_type.width
    # Products of BF16 are taken in pairs along k, which one load brings where they are adjacent.
    keeps_k = block > MOST_TOGETHER or source.data_type is DataType.BF16
    is_crowded = source.data_type.is_complex and block * width % PAGE_BYTES == 0
    if keeps_k and (turns or is_crowded or columns.stride(source.name) != width):
        k_packed, column_bytes = _stack(k, target.name, width)
        column_bytes = rows_apart(column_bytes)
        walk = columns.on(target.name, column_bytes)
        pieces = cut(walk, block)
        end = column_bytes * columns.extent
    else:
        k_packed, block_bytes = _stack(k, target.name, block * width)
        parts = _blocks(columns, block, target.name, width, block_bytes)
        pieces = tuple(Piece(loops, tile) for loops, tile in parts)
        end = -(-columns.extent // block) * block_bytes
    outer_packed, _ = _stack(outer, target.name, end)
    copies = _copies(emission, source, target, outer_packed, pieces, k_packed, is_shared)
    return Packed(
        Body(copies.nodes, (target,)),
        target,
        outer_packed,
        pieces,
        k_packed,
    )


def cut(span: Span | None, block: int) -> tuple[Piece, ...]:
    """A side in blocks: a loop over the whole blocks, and what remains."""
    if span is None:
        return (Piece((), None),)
    whole, left = divmod(span.extent, block)
    pieces: tuple[Piece, ...] = ()
    if whole:
        loops, tile = _split(span, block)
        pieces = (Piece(loops, tile),)
    if left:
        pieces += (Piece((), span.rest(whole * block) if whole else span),)
    return pieces


def _blocks(
    span: Span, block: int, tensor: str, step_bytes: int, block_bytes: int
) -> list[tuple[tuple[Span, ...], Span]]:
    """The whole blocks of ``span`` and what remains, ``block_bytes`` apart on ``tensor``: for
    each the loops around it and the axis inside, whose elements are ``step_bytes`` apart."""
    whole, left = divmod(span.extent, block)
    parts: list[tuple[tuple[Span, ...], Span]] = []
    if whole:
        loops, inner = _split(span, block)
        outside = tuple(loop.on(tensor, block_bytes) for loop in loops)
        parts.append((outside, inner.on(tensor, step_bytes)))
    if left:
        rest = span.rest(whole * block).on(tensor, step_bytes)
        parts.append(((), _shifted(rest, tensor, whole * block_bytes)))
    return parts


def _split(span: Span, block: int) -> tuple[tuple[Span, ...], Span]:
    """The loop over whole blocks, none where there is one block only, and the axis inside."""
    if span.extent // block == 1:
        inside = Span(span.label, block, span.strides, span.offsets)
        return (), inside
    outer, inner = span.split(block)
    return (outer,), inner


def _stack(spans: tuple[Span, ...], tensor: str, stride: int) -> tuple[tuple[Span, ...], int]:
    """Give the spans dense strides on ``tensor``, the last one innermost; and the end."""
    stacked: list[Span] = []
    for span in reversed(spans):
        stacked.insert(0, span.on(tensor, stride))
        stride *= span.extent
    return tuple(stacked), stride


def _shifted(span: Span, tensor: str, offset: int) -> Span:
    offsets = dict(span.offsets)
    if offset:
        offsets[tensor] = offset
    else:
        offsets.pop(tensor, None)
    return Span(span.label, span.extent, span.strides, offsets)


def _copies(
    emission: Emission,
    source: Tensor,
    target: Tensor,
    outer: tuple[Span, ...],
    pieces: Sequence[Piece],
    k: tuple[Span, ...],
    is_shared: bool,
    hints: MemoryHints = NO_HINTS,
) -> Body:
    body = Body()
    for piece in pieces:
        inside = (*piece.beside, *(() if piece.tile is None else (piece.tile,)))
        copied = partial(emission.leaf, Operation.COPY, (source.name,), target.name, hints=hints)
        body += _copy(emission, copied, (*outer, *piece.loops), inside, k, is_shared)
    return body


def _copy(
    emission: Emission,
    copied: Callable[[Roles], Body],
    loops: tuple[Span, ...],
    inside: tuple[Span, ...],
    k: tuple[Span, ...],
    is_shared: bool,
) -> Body:
    """One copy, or a loop over panels, or over parts of the depth if any, that threads share."""
    if not is_shared:
        return copied(Roles(m=(*loops, *inside), n=k))
    shared = _leading(loops)
    if extent_of(shared) >= _SHARES or not k:
        rest = Roles(m=(*loops[len(shared) :], *inside), n=k)
        return emission.loops(shared, lambda: copied(rest), True)
    longest = max(k, key=lambda span: span.extent)
    others = tuple(span for span in k if span is not longest)
    m = (*loops, *inside)
    size = even_block(longest.extent, -(-longest.extent // _SHARES))
    return emission.blocks(longest, size, lambda part: copied(Roles(m=m, n=(*others, part))), True)


def _leading(loops: tuple[Span, ...]) -> tuple[Span, ...]:
    """The outermost loops, as many as make enough parts."""
    for number in range(len(loops)):
        if extent_of(loops[:number]) >= _SHARES:
            return loops[:number]
    return loops
