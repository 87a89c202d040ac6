"""The order of tiles of a permutation: blocks that run together share lines of input and output.

    tile = (other axes, group of near, far, near within its group)

``far`` is the axis along which a tile's neighbour continues the output, ``near`` the input. A group
of near tiles is walked before far moves on, so that tiles in flight make a rectangle: long pieces
of both, of which partial lines are completed while they are in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from teir.backends.cuda.text import decode, literal
from teir.lower.axes import TileAxis

GROUP = 8
"""Tiles of ``near`` side by side."""
_MOST_SHORT = 2**30
"""Tiles whose numbers, and those of the tiles loaded ahead, fit 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileOrder:
    """How many tiles there are along every axis of a problem, and the two of the rectangle."""

    counts: tuple[int, ...]
    near: int | None
    far: int | None

    @property
    def tiles(self) -> int:
        return prod(self.counts)

    @property
    def kind(self) -> str:
        return "u32" if self.tiles < _MOST_SHORT else "i64"

    @property
    def last(self) -> str:
        """The number of tiles, as a literal of their kind."""
        return literal(self.tiles, self.kind)

    def digits(self) -> list[str]:
        """Declare ``n<axis>``, which tile of an axis ``tile`` is, for every axis."""
        if self.near is None or self.far is None:
            names = {f"n{at}": count for at, count in enumerate(self.counts)}
            return decode("tile", names, first_fastest=False, kind=self.kind)
        near, far = self.counts[self.near], self.counts[self.far]
        others = [at for at in range(len(self.counts)) if at not in (self.near, self.far)]
        names = {"outer": 1} | {f"n{at}": self.counts[at] for at in others}
        return [
            f"const {self.kind} plane = tile / {near * far};",
            *decode("plane", names, first_fastest=False, kind=self.kind),
            f"const u32 within = (u32)(tile - plane * {near * far});",
            *self._rectangle(near, far),
        ]

    def _rectangle(self, near: int, far: int) -> list[str]:
        """Both digits of ``within``; the last group may be narrower than the others."""
        rest, wide = near % GROUP, min(GROUP, near)
        if near < GROUP or not rest:
            return [
                f"const u32 n{self.far} = within / {wide} % {far};",
                f"const u32 n{self.near} = within / {wide * far} * {wide} + within % {wide};",
            ]
        return [
            f"const u32 group = within / {GROUP * far}, part = within % {GROUP * far};",
            f"const bool narrow = group == {near // GROUP};",
            f"const u32 n{self.far} = narrow ? part / {rest} : part / {GROUP};",
            f"const u32 n{self.near} = group * {GROUP} "
            f"+ (narrow ? part % {rest} : part % {GROUP});",
        ]


def tile_order(axes: Sequence[TileAxis], boxes: Sequence[int]) -> TileOrder:
    """The order of tiles of a copy: ``boxes`` are their extents."""
    counts = tuple(-(-axis.extent // box) for axis, box in zip(axes, boxes, strict=True))
    many = [at for at, count in enumerate(counts) if count > 1]
    near = min(many, key=lambda at: _side(axes, at, 0), default=None)
    far = min(many, key=lambda at: _side(axes, at, 1), default=None)
    if near == far or near is None or far is None or counts[near] * counts[far] >= _MOST_SHORT:
        return TileOrder(counts=counts, near=None, far=None)
    return TileOrder(counts=counts, near=near, far=far)


def _side(axes: Sequence[TileAxis], at: int, side: int) -> int:
    return abs(axes[at].strides[side])
