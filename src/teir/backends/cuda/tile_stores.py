"""How a tile of a product leaves by tile stores: pieces of columns, through shared memory.

    piece p: every row of the tile, as many columns as one swizzle spans
    registers -> swizzled shared memory -> one tile store; two pieces of room, so that one is
    written while the other is read

The rows of a piece lie in the order of the output, whatever their order in the input: the map of
the output is a box over the axes of its rows, and columns are a run of the output's unit axis.
What reaches beyond an axis is left out by the instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np

from teir.backends.cuda.kernel import MapParameter
from teir.backends.cuda.maps import MapAxis, tensor_map
from teir.backends.cuda.problem import ContractionProblem
from teir.backends.cuda.sides import Side
from teir.tma.banks import wavefronts
from teir.tma.swizzle import ROW_BYTES, swizzled

BUFFERS = 2
_SPANS = (ROW_BYTES, 64, 32)


class Stores(Enum):
    """How the sums of a tile reach memory."""

    TILES = "tiles"
    """Through shared memory, by tile stores."""
    REGISTERS = "registers"
    """By every thread, from its registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileStore:
    """The pieces of a tile of ``out``.

    ``row_steps`` are the bytes of a piece from one index of each row axis (in the order of the
    left input's) to the next; ``coordinates`` name the dimensions of ``map``, innermost first.
    """

    span_bytes: int
    columns: int
    pieces: int
    row_steps: tuple[int, ...]
    map: MapParameter
    coordinates: tuple[str, ...]

    @property
    def piece_bytes(self) -> int:
        return self.map.described.tile_bytes


def tile_store(problem: ContractionProblem, left: Side, right: Side) -> TileStore | None:
    """The stores of a tile; None where registers have to be stored by themselves.

    Those are sums that are added to what is there, and outputs whose unit axis is not the fastest
    of the columns, is cut unevenly, or lies in memory as no tensor map describes it.
    """
    out = problem.operands[2]
    width = out.data_type.width
    if not problem.from_zero or width not in (2, 4) or not right.rows:
        return None
    unit, run = right.rows[0], right.boxes[0]
    span = next((one for one in _SPANS if run * width % one == 0), None)
    if span is None or problem.axes[unit].strides[2] != width:
        return None
    boxes = dict(zip(left.rows, left.boxes, strict=True)) | {unit: span // width}
    axes = [
        MapAxis(name=f"c{at}", extent=axis.extent, stride=axis.strides[2], box=boxes.get(at, 1))
        for at, axis in enumerate(problem.axes)
    ]
    found = tensor_map(out, axes, span)
    if found is None:
        return None
    order = sorted(left.rows, key=lambda at: problem.axes[at].strides[2])
    steps, step = {}, span
    for at in order:
        steps[at] = step
        step *= boxes[at]
    return TileStore(
        span_bytes=span,
        columns=span // width,
        pieces=prod(right.boxes) * width // span,
        row_steps=tuple(steps[at] for at in left.rows),
        map=found[0],
        coordinates=found[1],
    )


def bank_turn(store: TileStore, width: int) -> int:
    """By how many fragments odd rows of four-byte elements run ahead, so that banks do not meet.

    A fragment is eight columns. Of two bytes each, eight rows of it lie in all banks. Of four, half
    a warp holds two units of 16 bytes of four rows, and the swizzle gives neighbouring rows the
    same two.
    """
    return 2 if width == 4 and store.span_bytes == ROW_BYTES else 0


def writes_without_conflicts(store: TileStore, left: Side, width: int) -> bool:
    """Do the sums of a warp's first fragment go to shared memory in the fewest wavefronts?

    Rows in another order than the output's lie a multiple of all banks apart.
    """
    lane = np.arange(32, dtype=np.int64)
    rest, spot = lane // 4, np.zeros(32, dtype=np.int64)
    for box, step in zip(left.boxes, store.row_steps, strict=True):
        spot += rest % box * step
        rest = rest // box
    fragment = lane // 4 % 2 * bank_turn(store, width)
    place = swizzled(spot + (fragment * 8 + lane % 4 * 2) * width, store.span_bytes)
    return wavefronts(place, 2 * width).conflicts == 0
