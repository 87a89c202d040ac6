"""Tiles: the bytes one invocation touches of a tensor, by the axes its primitive consumes.

Every proof starts from them, so they are computed once per primitive and tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from teir.ir.nodes import Primitive

if TYPE_CHECKING:
    from teir.ir.check.resolved import Resolved


class Tile(NamedTuple):
    """The addresses of the first bytes of elements: begin + sum of stride * index.

    ``terms`` holds (stride, extent) of every consumed axis that moves the tensor, in the order of
    the roles; ``end`` is the highest of the addresses.
    """

    begin: int
    terms: tuple[tuple[int, int], ...]
    end: int


def tile_of(resolved: Resolved, primitive: Primitive, tensor: str) -> Tile:
    """What one invocation of ``primitive`` touches of ``tensor``, loops apart."""
    key = (primitive.name, tensor)
    known = resolved.tiles.get(key)
    if known is not None:
        return known
    axes = resolved.axes
    begin = reach = 0
    terms = []
    for name in primitive.axes:
        axis = axes[name]
        begin += axis.offsets[tensor]
        stride, extent = axis.strides[tensor], axis.extent
        if stride and extent > 1:
            terms.append((stride, extent))
            reach += stride * (extent - 1)
    tile = resolved.tiles[key] = Tile(begin, tuple(terms), begin + reach)
    return tile
