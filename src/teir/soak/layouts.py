"""Random extents, memory layouts, offsets and splits of axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from teir.ir.nodes import Axis, Bytes
from teir.soak.draws import DrawInt, chance, choose, shuffled

EXTENTS = (1, 2, 7, 13, 16, 17, 31, 33, 64, 3, 5, 11, 19, 23, 29, 37, 41, 43, 47, 53)
"""The extents that find remainder mistakes, and primes."""


def draw_extents(draw: DrawInt, count: int, budget: int) -> tuple[int, ...]:
    """``count`` extents whose product is at most ``budget``."""
    extents = []
    for _ in range(count):
        allowed = [extent for extent in EXTENTS if extent <= budget]
        extents.append(choose(draw, allowed))
        budget //= extents[-1]
    return tuple(extents)


def lay_out(
    draw: DrawInt, extents: Mapping[str, int], width: int, *, shared_bytes: bool
) -> dict[str, int]:
    """Byte strides of a tensor over the named axes, in a random order with random gaps.

    Different index tuples never share a byte unless ``shared_bytes`` allows it; then an axis may
    have stride 0 or a stride smaller than what lies inside it.
    """
    strides = {}
    span = width * (choose(draw, (2, 3)) if chance(draw, 10) else 1)
    for name in shuffled(draw, tuple(extents)):
        gap = width * draw(1, 5) if chance(draw, 25) else 0
        strides[name] = span + gap
        if shared_bytes and chance(draw, 8):
            strides[name] = width * draw(0, 2)
        span = max(span, strides[name] * extents[name])
    return strides


def draw_offsets(draw: DrawInt, tensors: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Mostly none; else a few elements in either direction for each (tensor, width)."""
    if not chance(draw, 25):
        return {}
    return {name: width * draw(-9, 9) for name, width in tensors if chance(draw, 50)}


def split(axis: Axis, tile: int, names: tuple[str, str, str]) -> tuple[Axis, Axis, Axis | None]:
    """``axis`` as whole tiles, the inside of a tile, and the rest behind the last whole tile.

    outer: extent // tile tiles; inner: tile elements; rest: None when the tiles fit exactly.
    The offsets go with the inner axis, and with the rest.
    """
    whole = axis.extent // tile
    outer = Axis(
        name=names[0],
        extent=whole,
        strides=Bytes({tensor: stride * tile for tensor, stride in axis.strides.items()}),
    )
    inner = replace(axis, name=names[1], extent=tile)
    if whole * tile == axis.extent:
        return outer, inner, None
    tensors = {*axis.strides, *axis.offsets}
    behind = {name: axis.offsets[name] + axis.strides[name] * tile * whole for name in tensors}
    return (
        outer,
        inner,
        replace(axis, name=names[2], extent=axis.extent - whole * tile, offsets=Bytes(behind)),
    )
