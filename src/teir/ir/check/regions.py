"""Sets of bytes as boxes, begin + sum of stride * index, and whether boxes cover a box."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from teir.ir.check.collision import Budget

_PASSES = 8
"""Joining stops here; what is left is compared run by run."""


class Region(msgspec.Struct, frozen=True, order=True, gc=False):
    """The elements at begin + sum of stride * index; ``dims`` has (stride, extent), descending."""

    begin: int
    dims: tuple[tuple[int, int], ...]

    @property
    def end(self) -> int:
        """The address of the highest element."""
        end = self.begin
        for stride, extent in self.dims:
            end += stride * (extent - 1)
        return end


def region(begin: int, dims: Iterable[tuple[int, int]]) -> Region:
    """A region with neighbouring dims merged: ((32, 4), (4, 8)) is ((4, 32),)."""
    merged: list[tuple[int, int]] = []
    step = count = 0
    for stride, extent in sorted(dims):
        if stride == 0 or extent == 1:
            continue
        if stride == step * count:
            count *= extent
            continue
        if step:
            merged.append((step, count))
        step, count = stride, extent
    if step:
        merged.append((step, count))
    merged.reverse()
    return Region(begin, tuple(merged))


def is_covered(read: Region, written: Sequence[Region], width: int, budget: Budget) -> bool:
    """True if every byte of ``read`` lies in some region of ``written``.

    Exact for one region in the usual case and for several by their runs of adjacent bytes.
    Raises BudgetSpentError where there are too many runs.
    """
    budget.spend(len(written))
    for box in written:
        if _contains(read, box):
            return True
    low, high = read.begin, read.end
    near = [box for box in written if box.begin <= high and box.end >= low]
    if not near:
        return False
    boxes = joined(near)
    if any(_contains(read, box) for box in boxes):
        return True
    begins, ends = _union([run for box in boxes for run in _runs(box, width, budget)])
    for begin, end in _runs(read, width, budget):
        position = bisect_right(begins, begin) - 1
        if position < 0 or ends[position] < end:
            return False
    return True


def _contains(read: Region, box: Region) -> bool:
    """True if each dim of ``read`` runs along one dim of ``box`` and stays inside it."""
    rest = read.begin - box.begin
    if rest < 0:
        return False
    room = []
    for stride, extent in box.dims:
        index = min(rest // stride, extent - 1)
        rest -= index * stride
        room.append(extent - 1 - index)
    if rest:
        return False
    for stride, extent in read.dims:
        for position, (step, _) in enumerate(box.dims):
            if stride % step == 0:
                room[position] -= stride // step * (extent - 1)
                if room[position] < 0:
                    return False
                break
        else:
            return False
    return True


def joined(boxes: Iterable[Region]) -> list[Region]:
    """The same elements in fewer boxes: each is joined to the one before it where they fit.

    Repeated while it helps: four quarters first make two halves.
    """
    fewer = sorted(boxes)
    for _ in range(_PASSES):
        before, fewer = fewer, []
        for box in before:
            both = _join(fewer[-1], box) if fewer else None
            if both is None:
                fewer.append(box)
            else:
                fewer[-1] = both
        if len(fewer) == len(before):
            break
    return fewer


def _join(first: Region, second: Region) -> Region | None:
    """Two boxes as one that has exactly their elements, None where they do not fit together.

    They fit if they differ along one stride only, and the second begins inside or right after the
    first: main and remainder branches, and the halves of a split axis.
    """
    mine, theirs = dict(first.dims), dict(second.dims)
    if len(mine) != len(first.dims) or len(theirs) != len(second.dims):
        return None
    different = [
        stride for stride in {**mine, **theirs} if mine.get(stride, 1) != theirs.get(stride, 1)
    ]
    distance = second.begin - first.begin
    if len(different) > 1:
        return None
    for stride in different or [*mine, distance]:
        steps = distance // stride if stride else 0
        if steps * stride == distance and steps <= mine.get(stride, 1):
            extent = max(mine.get(stride, 1), steps + theirs.get(stride, 1))
            return region(first.begin, {**mine, stride: extent}.items())
    return None


def _runs(box: Region, width: int, budget: Budget) -> list[tuple[int, int]]:
    """The box as intervals of adjacent bytes."""
    dims = list(box.dims)
    length = width
    if dims and dims[-1][0] == width:
        length = width * dims.pop()[1]
    count = 1
    for _, extent in dims:
        count *= extent
    budget.spend(count)
    begins = [box.begin]
    for stride, extent in dims:
        begins = [begin + stride * index for begin in begins for index in range(extent)]
    return [(begin, begin + length) for begin in begins]


def _union(runs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    begins: list[int] = []
    ends: list[int] = []
    for begin, end in sorted(runs):
        if ends and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            begins.append(begin)
            ends.append(end)
    return begins, ends
