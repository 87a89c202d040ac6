"""Rows or columns of a permutation cut into pieces that one call takes."""

from __future__ import annotations

import msgspec

from teir.lower.axes import TileAxis
from teir.passes.long_sides import length_of


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A part of rows or columns: a loop around ``axes``, and where it begins on each operand."""

    axes: tuple[TileAxis, ...]
    loop: TileAxis | None
    offsets: tuple[int, ...]


def cut(axes: tuple[TileAxis, ...], unit: int, least: int, most: int) -> tuple[Piece, ...]:
    """Pieces of at most ``most`` indices, and at least ``least``, by steps of ``unit``.

    The last axis is cut: the others together have at most ``most`` indices.
    """
    below, top = length_of(axes[:-1]), axes[-1]
    none = (0,) * len(top.strides)
    if below * top.extent <= most:
        return (Piece(axes, None, none),)
    # A rest too short for a piece of its own is added to the last whole one.
    largest = max(1, most * 3 // 4 // below)
    blocks = up(top.extent, largest) // largest
    block = up(top.extent, blocks) // blocks
    block = min(largest, up(block, unit))
    whole, left = divmod(top.extent, block)
    if left and left * below < least:
        whole, left = whole - 1, left + block
    walk = TileAxis(whole, tuple(stride * block for stride in top.strides))
    pieces = [Piece((*axes[:-1], TileAxis(block, top.strides)), walk, none)]
    if left:
        start = tuple(stride * whole * block for stride in top.strides)
        pieces.append(Piece((*axes[:-1], TileAxis(left, top.strides)), None, start))
    return tuple(pieces)


def up(number: int, unit: int) -> int:
    """The least multiple of ``unit`` that is not below ``number``."""
    return -(-number // unit) * unit
