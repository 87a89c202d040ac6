"""How the reductions of a step are cut into blocks.

The order of the sum is the order of `ProductShape.k`, outermost first, whatever is cut: a block is
a run of that order.
"""

from __future__ import annotations

from math import gcd

import msgspec

from teir.passes.extents import even_block
from teir.search.shape import PIECE_BYTES, ProductShape, some
from teir.search.step import Span
from teir.target import ARRAY_START_BYTES

_FEWEST = 64
"""Rows, and columns, from which A is large and often read."""
_INSIDE = 3
"""Reduction loops a Contraction of two inputs runs inside its kernel."""


class Reductions(msgspec.Struct, frozen=True, gc=False):
    """``outside`` { blocks of ``size`` of ``cut`` { ``inside`` } }, outermost first.

    A is packed for ``packed_size`` indices of ``cut`` at once, one block or several; for ``lead``
    indices first, a block of their own, after which pieces of A begin with lines of memory.
    """

    outside: tuple[Span, ...]
    cut: Span | None
    size: int
    packed_size: int
    lead: int
    inside: tuple[Span, ...]

    @property
    def is_one_block(self) -> bool:
        return not self.outside and self.cut is None

    @property
    def block(self) -> tuple[Span, ...]:
        """The reductions of one whole block."""
        if self.cut is None:
            return self.inside
        return (self.cut.split(self.size)[1], *self.inside)


def reductions_of(shape: ProductShape, depth: int) -> Reductions:
    """Up to three axes inside, with at most half more than ``depth`` products together."""
    axes = list(shape.k)
    inside: list[Span] = []
    products = 1
    while axes and len(inside) < _INSIDE and 2 * products * axes[-1].extent <= 3 * depth:
        products *= axes[-1].extent
        inside.insert(0, axes.pop())
    room = depth // products
    if not axes or room < 2 or len(inside) == _INSIDE:
        return Reductions(tuple(axes), None, 1, 1, 0, tuple(inside))
    size = even_block(axes[-1].extent, room)
    if inside:
        size = _in_pieces(size, room, axes[-1], shape)
    if inside and size == 1:
        return Reductions(tuple(axes), None, 1, 1, 0, tuple(inside))
    cut = axes.pop()
    packed_size = _packed_size(size, cut, shape)
    lead = _lead(size, packed_size, cut, shape)
    return Reductions(tuple(axes), cut, size, packed_size, lead, tuple(inside))


def _in_pieces(size: int, room: int, axis: Span, shape: ProductShape) -> int:
    """``size`` in pieces, or half pieces, of A where it is adjacent along ``axis``.

    At most half more than ``room``. In longer runs the ends hardly matter.
    """
    width = shape.a.data_type.width
    if axis.stride(shape.a.name) != width or size * width >= 2 * PIECE_BYTES:
        return size
    for piece in (PIECE_BYTES // width, PIECE_BYTES // width // 2):
        whole = max(1, (size + piece // 2) // piece) * piece
        if 2 * whole <= 3 * room and whole < axis.extent:
            return whole
    return size


def _packed_size(size: int, axis: Span, shape: ProductShape) -> int:
    """Whole lines of A where it is adjacent along ``axis`` and its rows lie across.

    Blocks that hold a part of each line would bring every line once more.
    """
    if shape.m is None or size == 1 or min(shape.rows, shape.columns) < _FEWEST:
        return size
    a, width = shape.a.name, shape.a.data_type.width
    is_across = axis.stride(a) == width and shape.m.stride(a) != width
    if not is_across or size * width >= PIECE_BYTES:
        return size
    together = PIECE_BYTES // (size * width) * size
    return together if together < axis.extent and axis.extent % size == 0 else size


def _lead(size: int, packed_size: int, axis: Span, shape: ProductShape) -> int:
    """Indices before the first line of rows of A that are packed in whole lines; 0 for none.

    Rows begin all at the same place of a line, or half of them half a line further on, where arrays
    begin as they do.
    """
    a, width = shape.a.name, shape.a.data_type.width
    if packed_size == size or width > ARRAY_START_BYTES:
        return 0
    sides = (*shape.m_outer, *some(shape.m), *shape.c, *shape.k)
    apart = gcd(PIECE_BYTES, *(one.stride(a) for one in sides if one is not axis))
    lead = (apart - ARRAY_START_BYTES) // width
    left = (axis.extent - lead) % packed_size
    is_cut_evenly = left <= size or left % size == 0
    return lead if 2 * apart >= PIECE_BYTES and is_cut_evenly and lead < axis.extent else 0
