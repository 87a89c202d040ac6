"""Packing: a Copy of a block of an operand into scratch, in the order the kernels read it.

A (rows, lanes adjacent) becomes panels of some rows: [outer rows][panel][k][row]
(`teir.search.packed_rows`).
B becomes [outer columns][column][k], or [outer columns][block][k][column] where B is adjacent
along the columns already, and where few columns make a block. Sums are not touched, so packing
changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, starmap

import msgspec

from teir.dtypes import DataType
from teir.ir.memory_hints import NO_HINTS, MemoryHints
from teir.ir.nodes import Operation, Tensor
from teir.passes.cache_blocks import MOST_TOGETHER
from teir.passes.extents import even_block
from teir.search.emission import Body, Emission, Roles
from teir.search.shape import extent_of
from teir.search.step import Span
from teir.target import PAGE_BYTES, rows_apart

_SHARES = 8
"""The fewest parts of a copy that threads share."""


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A part of a side: loops around one tile axis (None: a side without axes).

    ``beside`` are axes of short rows that follow one another in a packed panel, outermost first.
    """

    loops: tuple[Span, ...]
    tile: Span | None
    beside: tuple[Span, ...] = ()

    @property
    def inside(self) -> tuple[Span, ...]:
        """The axes inside the loops, outermost first."""
        return self.beside if self.tile is None else (*self.beside, self.tile)


class Packed(msgspec.Struct, frozen=True, gc=False):
    """A packed operand: the copies that fill it, and the axes that walk it."""

    body: Body
    tensor: Tensor
    outer: tuple[Span, ...]
    pieces: tuple[Piece, ...]
    k: tuple[Span, ...]


class Block(msgspec.Struct, frozen=True, gc=False):
    """What is packed of an operand: ``side``, its rows or columns, those of the axes around it, and
    the depth ``k``.

    ``is_shared``: threads share the copies, which have these ``hints``.
    """

    source: Tensor
    outer: tuple[Span, ...]
    side: Span
    k: tuple[Span, ...]
    is_shared: bool
    hints: MemoryHints = NO_HINTS

    def target(self, emission: Emission) -> Tensor:
        """A tensor of scratch to pack it into."""
        name = emission.name(f"{self.source.name}_packed")
        return Tensor(name=name, data_type=self.source.data_type)


def follow(outer: Span, rows: Span, out: str) -> bool:
    """True where the rows of ``outer`` lie one after the other in the output."""
    return outer.strides.get(out, 0) == rows.extent * rows.strides.get(out, 0)


def all_follow(axes: Sequence[Span], tensor: str) -> bool:
    """True where the axes, outermost first, move a tensor as one of all their extents would."""
    return all(follow(outer, inner, tensor) for outer, inner in pairwise(axes))


def following(outer: Sequence[Span], rows: Span, tensor: str) -> list[tuple[Span, int]]:
    """The innermost outer axes that go on in a tensor where all inside them ends, innermost first,
    each with the rows inside it."""
    found: list[tuple[Span, int]] = []
    inside, step = rows.extent, rows.stride(tensor)
    for axis in reversed(outer):
        if axis.strides.get(tensor, 0) != inside * step:
            break
        found.append((axis, inside))
        inside *= axis.extent
    return found


def pack_b(emission: Emission, block: Block, together: int, turns: bool) -> Packed:
    """Copy columns, ``together`` of them to a block of columns.

    Columns that lie side by side stay so unless ``turns``, or steps along k of complex numbers
    would be whole pages: those meet in one set of the first cache. Turned, two products of 1024
    rows and columns took 0.85 of the time (Golden Cove).
    """
    source, columns, target = block.source, block.side, block.target(emission)
    width = source.data_type.width
    # Products of BF16 are taken in pairs along k, which one load brings where they are adjacent.
    keeps_k = together > MOST_TOGETHER or source.data_type is DataType.BF16
    is_crowded = together * width % PAGE_BYTES == 0 and source.data_type.is_complex
    if keeps_k and (turns or is_crowded or columns.stride(source.name) != width):
        k_packed, column_bytes = stacked(block.k, target.name, width)
        column_bytes = rows_apart(column_bytes)
        walk = columns.on(target.name, column_bytes)
        pieces = cut(walk, together)
        end = column_bytes * columns.extent
    else:
        k_packed, block_bytes = stacked(block.k, target.name, together * width)
        parts = blocks_along(columns, together, target.name, width, block_bytes)
        pieces = tuple(starmap(Piece, parts))
        end = -(-columns.extent // together) * block_bytes
    outer, _ = stacked(block.outer, target.name, end)
    return packed_into(emission, block, target, outer, pieces, k_packed)


def cut(span: Span | None, block: int) -> tuple[Piece, ...]:
    """A side in blocks: a loop over the whole blocks, and what remains."""
    if span is None:
        return (Piece((), None),)
    whole, left = divmod(span.extent, block)
    pieces: tuple[Piece, ...] = ()
    if whole:
        loops, tile = whole_and_inside(span, block)
        pieces = (Piece(loops, tile),)
    if left:
        pieces += (Piece((), span.rest(whole * block) if whole else span),)
    return pieces


def blocks_along(
    span: Span, block: int, tensor: str, step_bytes: int, block_bytes: int
) -> list[tuple[tuple[Span, ...], Span]]:
    """The whole blocks of ``span`` and what remains, ``block_bytes`` apart on ``tensor``: for
    each the loops around it and the axis inside, whose elements are ``step_bytes`` apart."""
    whole, left = divmod(span.extent, block)
    parts: list[tuple[tuple[Span, ...], Span]] = []
    if whole:
        loops, inner = whole_and_inside(span, block)
        outside, _ = stacked(loops, tensor, block_bytes)
        parts.append((outside, inner.on(tensor, step_bytes)))
    if left:
        rest = span.rest(whole * block).on(tensor, step_bytes)
        parts.append(((), shifted(rest, tensor, whole * block_bytes)))
    return parts


def whole_and_inside(span: Span, block: int) -> tuple[tuple[Span, ...], Span]:
    """The loop over whole blocks, none where there is one block only, and the axis inside."""
    if span.extent // block == 1:
        inside = Span(span.label, block, span.strides, span.offsets)
        return (), inside
    outer, inner = span.split(block)
    return (outer,), inner


def stacked(spans: tuple[Span, ...], tensor: str, stride: int) -> tuple[tuple[Span, ...], int]:
    """Give the spans dense strides on ``tensor``, the last one innermost; and the end."""
    dense: list[Span] = []
    for span in reversed(spans):
        dense.append(span.on(tensor, stride))
        stride *= span.extent
    return tuple(reversed(dense)), stride


def shifted(span: Span, tensor: str, offset: int) -> Span:
    """The same axis, beginning ``offset`` bytes into ``tensor``."""
    offsets = dict(span.offsets)
    if offset:
        offsets[tensor] = offset
    else:
        offsets.pop(tensor, None)
    return Span(span.label, span.extent, span.strides, offsets)


def packed_into(
    emission: Emission,
    block: Block,
    target: Tensor,
    outer: tuple[Span, ...],
    pieces: tuple[Piece, ...],
    k: tuple[Span, ...],
    copied: Sequence[Piece] | None = None,
) -> Packed:
    """The block in ``target``: axes that walk both tensors, and a copy of each piece, or of each
    ``copied`` one where others are."""
    copy = partial(
        emission.leaf, Operation.COPY, (block.source.name,), target.name, hints=block.hints
    )
    body = Body()
    for piece in pieces if copied is None else copied:
        loops = (*outer, *piece.loops)
        if block.is_shared:
            body += _shared_copy(emission, copy, loops, piece.inside, k)
        else:
            body += copy(Roles(m=(*loops, *piece.inside), n=k))
    return Packed(Body(body.nodes, (target,)), target, outer, pieces, k)


def _shared_copy(
    emission: Emission,
    copied: Callable[[Roles], Body],
    loops: tuple[Span, ...],
    inside: tuple[Span, ...],
    k: tuple[Span, ...],
) -> Body:
    """A copy in a loop over panels, or over parts of the depth if any, that threads share."""
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
