"""Boxes over several axes: how many of each axis's elements a tile holds, for the fewest tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

LARGEST_BOX = 256


def boxes_of(extents: Sequence[int], total: int, least: int, exact: bool) -> tuple[int, ...] | None:
    """The boxes with the fewest tiles: at most ``total`` elements, or ``exact``ly so many.

    The first is a multiple of ``least``. Where tiles of ``total`` elements are no more, those are
    taken, of them the ones with the least overhang: 10 x 24 in tiles of 128 is 2 tiles of 5 x 24
    and not 4 of 8 x 16.
    """
    if not extents:
        return () if total == 1 else None
    found = [boxes for boxes in _factors(len(extents), total) if max(boxes) <= LARGEST_BOX]
    if not exact:
        found += _narrower(extents, total, least)
    found = [boxes for boxes in found if boxes[0] % least == 0]
    if not found:
        return None

    def covered(boxes: tuple[int, ...]) -> tuple[int, bool, int, tuple[int, ...]]:
        counts = [-(-extent // box) for extent, box in zip(extents, boxes, strict=True)]
        whole = prod(count * box for count, box in zip(counts, boxes, strict=True))
        return prod(counts), prod(boxes) < total, whole, tuple(-box for box in boxes)

    return min(found, key=covered)


def _factors(parts: int, total: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total + 1):
        if total % first == 0:
            for rest in _factors(parts - 1, total // first):
                yield (first, *rest)


def _narrower(extents: Sequence[int], total: int, least: int) -> Iterator[tuple[int, ...]]:
    """Boxes of at most ``total`` elements, each the smallest for its number of tiles."""
    extent, *others = extents
    room = min(total, LARGEST_BOX)
    if not others:
        # The widest box, then no wider than its number of tiles needs.
        count = -(-extent // (room // least * least)) if room >= least else 0
        if count:
            yield (_multiple(-(-extent // count), least),)
        return
    counts = {-(-extent // box) for box in range(least, room + 1, least)}
    for box in sorted({_multiple(-(-extent // count), least) for count in counts}):
        for rest in _narrower(others, total // box, 1):
            yield (box, *rest)


def _multiple(number: int, of: int) -> int:
    return -(-number // of) * of
