"""The box of a turned copy by plain loads, and how many threads and blocks walk it.

A box is judged by what it costs to move an element: the sectors that its runs begin and end in the
middle of, and the instructions of threads with nothing to do. Axes that end just above a limit are
taken whole, since the run then goes on into the next axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from teir.backends.cuda.kernel import (
    MULTIPROCESSORS,
    SHARED_LIMIT_BYTES,
    SHARED_RESERVED_BYTES,
)
from teir.backends.cuda.problem import MapProblem
from teir.lower.axes import TileAxis

THREADS = tuple(range(128, 257, 32))
LEAST_REGISTERS = 48
"""What every thread may have; a multiprocessor's 65536 then bound its blocks."""
MOST_BLOCKS = 3
"""On an H200 the copy of 211 x 211 x 211 x 27 is slower with more (0.63 to 0.55 of a plain one)."""
LARGEST_TILE = 48 * 1024
RUNS = (64, 128, 256, 512, 1024)
SECTOR = 32
BANK = 4
_WHOLE = 4
"""An axis is taken whole where that is at most so many times what a run needs of it."""
_WALKED, _BEGUN = 4.5, 150.0
"""Instructions per element and side, and per thread and tile."""
_FREE = 13.0
"""Instructions a multiprocessor has per byte while memory moves it."""
_FEW, _LATE = 2 * MULTIPROCESSORS, 0.2
"""Tiles below which multiprocessors wait, and what that costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How threads share a box in the order of one side.

    A thread has one index of every axis in ``fixed``, every ``step``th of ``strip``, and all of the
    axes in ``rest``; ``threads`` of them have work.
    """

    fixed: tuple[int, ...]
    strip: int | None
    step: int
    rest: tuple[int, ...]
    threads: int

    def loops(self, boxes: Sequence[int]) -> list[tuple[int, int, int]]:
        """What a thread walks, the fastest first: axis, iterations, step."""
        strips = [] if self.strip is None else [self.strip]
        found = [(at, -(-boxes[at] // self.step), self.step) for at in strips]
        return [*found, *((at, boxes[at], 1) for at in self.rest)]

    def iterations(self, boxes: Sequence[int]) -> int:
        return prod(count for _, count, _ in self.loops(boxes))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTile:
    """One extent per axis of the problem; a block's threads, and blocks of a multiprocessor.

    ``places`` says how many elements apart the box's neighbours lie in shared memory, which has
    room for ``room`` elements.
    """

    boxes: tuple[int, ...]
    threads: int
    blocks: int
    places: tuple[int, ...]
    room: int


def turn_tile(
    problem: MapProblem,
    *,
    boxes: Sequence[int] | None = None,
    threads: int | None = None,
    blocks: int | None = None,
) -> TurnTile:
    """The box that costs least; what is given is taken as it is, so that measurements vary it."""
    tried = [tuple(boxes)] if boxes else list(dict.fromkeys(_boxes(problem)))
    counts = (threads,) if threads else THREADS
    pairs = [(one, count) for one in tried for count in counts]
    found, count = min(pairs, key=lambda pair: _cost(problem, *pair))
    width = problem.operands[1].data_type.width
    places, room = _places(problem.axes, found, width)
    if blocks is None:
        fitting = SHARED_LIMIT_BYTES // (room * width + SHARED_RESERVED_BYTES)
        blocks = max(1, min(MOST_BLOCKS, fitting, 65_536 // (count * LEAST_REGISTERS)))
    return TurnTile(boxes=found, threads=count, blocks=blocks, places=places, room=room)


def share(axes: Sequence[TileAxis], boxes: Sequence[int], side: int, threads: int) -> Share:
    """Neighbouring threads take neighbours in memory on that side."""
    order = [at for at in _by_stride(axes, side) if boxes[at] > 1]
    fixed: list[int] = []
    active = 1
    for at in order:
        if active * boxes[at] > threads:
            break
        fixed.append(at)
        active *= boxes[at]
    rest = order[len(fixed) :]
    if not rest:
        return Share(fixed=tuple(fixed), strip=None, step=1, rest=(), threads=active)
    strip, *rest = rest
    iterations = -(-boxes[strip] // (threads // active))
    step = -(-boxes[strip] // iterations)
    return Share(
        fixed=tuple(fixed), strip=strip, step=step, rest=tuple(rest), threads=active * step
    )


def _by_stride(axes: Sequence[TileAxis], side: int) -> list[int]:
    return sorted(range(len(axes)), key=lambda at: abs(axes[at].strides[side]))


def _boxes(problem: MapProblem) -> Iterator[tuple[int, ...]]:
    """Boxes with enough of both sides' fastest axes for runs of several lengths."""
    width = problem.operands[1].data_type.width
    sides = [list(dict.fromkeys(_runs(problem.axes, side, width))) for side in (0, 1)]
    fewest = [min(one, key=prod) for one in sides]
    for first in sides[0]:
        for second in sides[1]:
            both = tuple(map(max, first, second))
            if prod(both) * width <= LARGEST_TILE or [first, second] == fewest:
                yield both


def _runs(axes: Sequence[TileAxis], side: int, width: int) -> Iterator[tuple[int, ...]]:
    for wanted in RUNS:
        boxes, run = [1] * len(axes), 1
        for at in _by_stride(axes, side):
            piece, extent = -(-(wanted // width) // run), axes[at].extent
            if piece <= 1:
                break
            boxes[at] = min(extent, piece)
            if piece < extent <= piece * _WHOLE:
                yield (*boxes[:at], extent, *boxes[at + 1 :])
            run *= boxes[at]
        yield tuple(boxes)


def _cost(problem: MapProblem, boxes: tuple[int, ...], threads: int) -> float:
    """Time per element in units of the memory's, the lower the better."""
    axes, width = problem.axes, problem.operands[1].data_type.width
    tiles, whole = 1, 1
    for axis, box in zip(axes, boxes, strict=True):
        tiles *= -(-axis.extent // box)
        whole *= axis.extent
    walked, sectors = 0.0, 0.0
    for side in (0, 1):
        sectors += 1 + (SECTOR - 1) / (_run(axes, boxes, side) * width)
        walked += _WALKED * share(axes, boxes, side, threads).iterations(boxes)
    instructions = (walked + _BEGUN) * threads * tiles / whole
    waiting = _LATE * max(0.0, _FEW / tiles - 1)
    return sectors + 0.5 * instructions / (_FREE * width) + waiting


def _run(axes: Sequence[TileAxis], boxes: Sequence[int], side: int) -> int:
    """Elements that lie side by side in memory."""
    order = _by_stride(axes, side)
    run, reach = 1, abs(axes[order[0]].strides[side])
    for at in order:
        if abs(axes[at].strides[side]) != reach:
            break
        run *= boxes[at]
        reach *= axes[at].extent
        if boxes[at] < axes[at].extent:
            break
    return run


def _places(
    axes: Sequence[TileAxis], boxes: Sequence[int], width: int
) -> tuple[tuple[int, ...], int]:
    """Runs of the input, padded, and behind each other in the order of the output.

    The output's neighbours then lie an odd number of banks apart, and so do those of its next axis.
    """
    first = _by_stride(axes, 1)
    run: list[int] = []
    step = 1
    for at in _by_stride(axes, 0):
        if at == first[0] or step * width >= SECTOR * BANK:
            break
        run.append(at)
        step *= boxes[at]
    places, step = [0] * len(axes), 1
    for at in run:
        places[at] = step
        step *= boxes[at]
    odd = max(1, BANK // width)
    step += -step % odd
    step += odd if step // odd % 2 == 0 else 0
    for at in first:
        if at not in run:
            places[at] = step
            step *= boxes[at]
    return tuple(places), step
