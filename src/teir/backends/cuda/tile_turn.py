"""The tiles of a turned copy by tile loads: which axes, how wide, how many under way.

Each span of x is a tile load of its own, into a region of its own of ``rows`` times 128 bytes: a
swizzle is no wider. Rows are a multiple of eight, so that every region begins where the swizzle
does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from teir.backends.cuda.kernel import (
    MULTIPROCESSORS,
    SHARED_LIMIT_BYTES,
    SHARED_RESERVED_BYTES,
    MapParameter,
)
from teir.backends.cuda.maps import MapAxis, tensor_map
from teir.backends.cuda.problem import MapProblem, unit_axis

SWIZZLE_ROWS = 8
LARGEST_BOX = 256
SIZES = ((512, 64 * 1024), (256, 48 * 1024), (256, 0))
"""What a tile writes in one piece, and its most bytes; none is a single span. On an H200 transposes
of 16384 x 16384 in FP32 reach 92, 90 and 84 % of a copy with these."""
MOST_ROWS = 128
LEAST_TILES = 4 * MULTIPROCESSORS
"""Tiles below which a smaller size is taken."""
SPANS = (2, 3, 4, 5)
MOST_STAGES = 4
BLOCKS = (4, 3, 2, 1)
"""Blocks on a multiprocessor, the most that leave each two stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileTurn:
    """The axes of a turned copy: x is the input's unit axis, y the output's, the rest outer.

    A tile holds ``rows`` of y and ``spans`` times ``span_bytes`` of x; a block has ``stages`` of
    them, a multiprocessor ``blocks`` of those.
    """

    x: int
    y: int
    span_bytes: int
    spans: int
    rows: int
    stages: int
    blocks: int

    @property
    def region_bytes(self) -> int:
        return self.rows * self.span_bytes

    @property
    def tile_bytes(self) -> int:
        return self.region_bytes * self.spans

    def columns(self, width: int) -> int:
        """Elements of x in a tile."""
        return self.span_bytes * self.spans // width

    @property
    def shared_bytes(self) -> int:
        return self.stages * (self.tile_bytes + 8)


def tile_turn(
    problem: MapProblem,
    *,
    rows: int | None = None,
    spans: int | None = None,
    stages: int | None = None,
    blocks: int | None = None,
) -> TileTurn | None:
    """How tile loads do this copy; None where its widths or pitches do not allow them.

    What is given is taken as it is, so that measurements may vary it; the rest is chosen.
    """
    source, target = problem.operands
    width = source.data_type.width
    if width not in (2, 4, 8) or target.data_type.width != width:
        return None
    x = unit_axis(problem, 0)
    y = len(problem.axes) - 1
    if x is None or x == y or problem.axes[x].extent * width < 32:
        return None
    x_bytes = problem.axes[x].extent * width
    span = 128 if x_bytes > 64 else 32 if x_bytes == 32 else 64
    chosen_rows, chosen_spans = _size(problem, x, span, rows)
    rows, spans = rows or chosen_rows, spans or chosen_spans
    stages, blocks = _residence(rows * span * spans, stages, blocks)
    turn = TileTurn(x=x, y=y, span_bytes=span, spans=spans, rows=rows, stages=stages, blocks=blocks)
    if rows % SWIZZLE_ROWS or turn.shared_bytes > SHARED_LIMIT_BYTES:
        return None
    return turn if span_map(problem, turn) is not None else None


def _size(problem: MapProblem, x: int, span: int, rows: int | None) -> tuple[int, int]:
    """Rows and spans of the largest tiles that keep all multiprocessors at work."""
    width = problem.operands[0].data_type.width
    *outer, y = (axis.extent for axis in problem.axes)
    needed = -(-problem.axes[x].extent * width // span)
    others = prod(outer) // problem.axes[x].extent
    found = (1, 1)
    for line, most in SIZES:
        tall = rows or _rows(y, min(MOST_ROWS, line // width))
        found = (tall, _spans(needed, tall * span, most))
        if -(-y // tall) * -(-needed // found[1]) * others >= LEAST_TILES:
            break
    return found


def _rows(extent: int, least: int) -> int:
    """Rows of a tile, ``least`` or up to twice as many: what an extent is cut into evenly.

    A long extent is cut into pieces of ``least``, whose lines are aligned; the overhang of the last
    is then a small part of all.
    """
    pieces = max(1, extent // least)
    even = least if pieces >= 4 else -(-extent // pieces)
    return min(LARGEST_BOX, -(-even // SWIZZLE_ROWS) * SWIZZLE_ROWS)


def _spans(needed: int, region_bytes: int, most_bytes: int) -> int:
    """Spans of a tile: the most of those that leave least of the last tile empty."""
    fitting = [one for one in SPANS if one <= needed and one * region_bytes <= most_bytes]
    return min(fitting, key=lambda one: (-(-needed // one) * one, -one), default=1)


def _residence(tile_bytes: int, stages: int | None, blocks: int | None) -> tuple[int, int]:
    """Stages of a block, and blocks of a multiprocessor: all of its shared memory is in flight."""
    for count in BLOCKS if blocks is None else (blocks,):
        room = (SHARED_LIMIT_BYTES + SHARED_RESERVED_BYTES) // count - SHARED_RESERVED_BYTES
        fitting = min(MOST_STAGES, room // (tile_bytes + 8))
        if blocks is not None or stages is not None or fitting >= 2:
            return stages or max(1, fitting), count
    return 1, BLOCKS[-1]


def tile_boxes(problem: MapProblem, turn: TileTurn, columns: int) -> list[int]:
    boxes = {turn.x: columns, turn.y: turn.rows}
    return [boxes.get(at, 1) for at in range(len(problem.axes))]


def span_map(problem: MapProblem, turn: TileTurn) -> tuple[MapParameter, Sequence[str]] | None:
    """The map of one span, and its coordinates; those of x are ``x``."""
    source = problem.operands[0]
    boxes = tile_boxes(problem, turn, turn.span_bytes // source.data_type.width)
    axes = [
        MapAxis(
            name="x" if at == turn.x else f"c{at}",
            extent=axis.extent,
            stride=axis.strides[0],
            box=boxes[at],
        )
        for at, axis in enumerate(problem.axes)
    ]
    return tensor_map(source, axes, turn.span_bytes)
