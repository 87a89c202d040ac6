"""Inputs of warpgroup products: what the axes do, and each input's rows, boxes and map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from teir.backends.cuda.boxes import boxes_of
from teir.backends.cuda.kernel import MapParameter
from teir.backends.cuda.maps import MapAxis, tensor_map
from teir.backends.cuda.problem import ContractionProblem, Operand
from teir.tma.operands import Major
from teir.tma.swizzle import ROW_BYTES

STEP_BYTES = 32


class Kind(Enum):
    """What an axis does, by the operands it moves."""

    BATCH = "C"
    ROW = "M"
    COLUMN = "N"
    SUM = "K"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One input: the axes that are its rows, fastest first, with their boxes, and its tile.

    ``span_bytes`` is the swizzle: of a chunk of K where K is contiguous, of rows where they are.
    A tile of one chunk has ``loads`` instructions, ``load_bytes`` apart. The boxes may hold fewer
    rows than the tile: the others are never loaded, and nothing of them is stored.
    """

    operand: Operand
    at: int
    major: Major
    span_bytes: int
    rows: tuple[int, ...]
    boxes: tuple[int, ...]
    tile_rows: int
    map: MapParameter
    coordinates: tuple[str, ...]
    chunk: int
    shares: int
    """Into how many loads a tile that is contiguous along K is cut: one per block of a cluster."""

    @property
    def box_rows(self) -> int:
        """Rows of the tile that are loaded."""
        return prod(self.boxes)

    @property
    def chunk_bytes(self) -> int:
        return self.tile_rows * self.chunk * self.operand.data_type.width

    @property
    def loaded_bytes(self) -> int:
        """Bytes that arrive for one chunk."""
        return self.box_rows * self.chunk * self.operand.data_type.width

    @property
    def loads(self) -> int:
        if self.major is Major.K:
            return self.shares
        return self.box_rows * self.operand.data_type.width // self.span_bytes

    @property
    def load_bytes(self) -> int:
        return self.loaded_bytes // self.loads

    def descriptor_bits(self) -> int:
        """The descriptor of the tile without its start address (PTX ISA)."""
        mode = {128: 1, 64: 2, 32: 3}[self.span_bytes]
        leading = 16 if self.major is Major.K else self.chunk * self.span_bytes
        return leading // 16 << 16 | 8 * self.span_bytes // 16 << 32 | mode << 62

    def start_of_rows(self, row: int) -> int:
        """Bytes from the start of a chunk's tile to row ``row``, a multiple of 64 or the span."""
        if self.major is Major.K:
            return row * self.span_bytes
        per_load = self.span_bytes // self.operand.data_type.width
        return row // per_load * self.load_bytes

    def start_of_step(self, step: int) -> int:
        """Bytes to the ``step``-th 32 bytes of K."""
        if self.major is Major.K:
            return step * STEP_BYTES
        return step * (STEP_BYTES // self.operand.data_type.width) * self.span_bytes


def kinds_of(problem: ContractionProblem) -> tuple[Kind, ...]:
    """The kind of every axis."""
    found = []
    for axis in problem.axes:
        left, right, out = axis.strides
        if not out:
            found.append(Kind.SUM)
        elif bool(left) == bool(right):
            found.append(Kind.BATCH)
        else:
            found.append(Kind.ROW if left else Kind.COLUMN)
    return tuple(found)


def side_of(
    problem: ContractionProblem,
    kinds: Sequence[Kind],
    at: int,
    kind: Kind,
    tile_rows: int,
    chunk_axis: int,
    chunk: int,
    shares: int,
) -> Side | None:
    """One input's rows, boxes and map; None where tile loads cannot bring it."""
    operand, axes = problem.operands[at], problem.axes
    width = operand.data_type.width
    rows = [one for one, found in enumerate(kinds) if found is kind]
    rows.sort(key=lambda one: axes[one].strides[at])
    is_k = axes[chunk_axis].strides[at] == width
    is_mn = bool(rows) and axes[rows[0]].strides[at] == width and width == 2
    if is_k == is_mn:
        return None
    unit = axes[rows[0]].extent * width if is_mn else chunk * width
    span = next((one for one in (32, 64) if unit <= one), ROW_BYTES)
    least = span // width if is_mn else 1
    extents = [axes[one].extent for one in rows]
    boxes = boxes_of(extents, tile_rows, least, exact=shares > 1)
    if boxes is None:
        return None
    boxed = dict(zip(rows, boxes, strict=True)) if is_k else {rows[0]: span // width}
    shared = _shared_boxes(rows, boxed, tile_rows, shares) if is_k else boxed
    if shared is None:
        return None
    found = _map_of(problem, at, {**shared, chunk_axis: chunk}, span)
    if found is None:
        return None
    return Side(
        operand=operand,
        at=at,
        major=Major.K if is_k else Major.MN,
        span_bytes=span,
        rows=tuple(rows),
        boxes=boxes,
        tile_rows=tile_rows,
        map=found[0],
        coordinates=found[1],
        chunk=chunk,
        shares=shares,
    )


def _shared_boxes(
    rows: Sequence[int], boxed: dict[int, int], tile_rows: int, shares: int
) -> dict[int, int] | None:
    """The boxes of one share of the rows; None where they cannot be cut into ``shares``."""
    if shares == 1:
        return boxed
    outer = max((at for at in rows if boxed[at] > 1), key=rows.index, default=rows[-1])
    # A share is a run of rows, and starts where the pattern of the swizzle does.
    if boxed[outer] % shares or tile_rows // shares % 8:
        return None
    return {**boxed, outer: boxed[outer] // shares}


def _map_of(
    problem: ContractionProblem, at: int, boxed: dict[int, int], span: int
) -> tuple[MapParameter, tuple[str, ...]] | None:
    """The map of operand ``at`` and the coordinates of a box; axes in no box have one index."""
    axes = [
        MapAxis(name=f"c{one}", extent=axis.extent, stride=axis.strides[at], box=boxed.get(one, 1))
        for one, axis in enumerate(problem.axes)
    ]
    return tensor_map(problem.operands[at], axes, span)
