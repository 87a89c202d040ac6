"""The axes of GEMM-shaped tiles: which of them are rows, columns and loops of register blocks.

An axis is M-like when only in0 and the output move along it, N-like when only in1 and the output
do, and a reduction when the output does not move (Table 10.6.1 looks at strides, never at the
name of a role). Lanes run along the axis on which the output and one input are adjacent; if that
input is in1, the inputs are swapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import msgspec

from teir.dtypes import DataType
from teir.lower.axes import STILL, TileAxis
from teir.lower.contraction_tile import ContractionTile

_EASE = {(True, True): 1.0, (True, False): 0.6, (False, True): 0.25, (False, False): 0.05}
"""Of lanes that are adjacent on the input, and on the output."""
_SCATTER = 18
"""Products of a sum in whose time a vector of results is stored one by one, once and again.

Measured on Zen 4, sums of one product: two to twelve adjacent rows as lanes take 0.08 to 0.3 of
the time of 96 columns as lanes."""


class GemmAxes(msgspec.Struct, frozen=True, gc=False):
    """The axes of a GEMM-shaped tile; strides already in the order A, B, C."""

    lanes: TileAxis
    columns: TileAxis
    loops: tuple[TileAxis, ...]
    swapped: bool

    def adjacent_step(self, reductions: Sequence[TileAxis], in_type: DataType) -> int:
        """Bytes from one step of the longest reduction to the next in adjacent rows, or 0."""
        if self.lanes.strides[0] != in_type.width or not reductions:
            return 0
        return max(reductions, key=lambda axis: axis.extent).strides[0]


def has_adjacent_results(tile: ContractionTile, axes: GemmAxes) -> bool:
    """True where lanes follow one another in C."""
    return axes.lanes.strides[2] == tile.out_type.width


def other_way(axes: GemmAxes) -> GemmAxes:
    """Lanes as columns and columns as lanes, the operands exchanged."""
    return GemmAxes(
        lanes=in_order(axes.columns, True),
        columns=in_order(axes.lanes, True),
        loops=tuple([in_order(axis, True) for axis in axes.loops]),
        swapped=not axes.swapped,
    )


def gemm_axes(tile: ContractionTile) -> GemmAxes | None:
    """The axes a register block takes; None where no axis separates the two inputs."""
    if len(tile.operands) != 3:
        return None
    scattered = _ease_of_scatter(tile)
    lane_axis, most = None, 0.0
    for axis in tile.free:
        if (axis.strides[0] == 0) != (axis.strides[1] == 0):
            worth = _lane_worth(axis, tile, scattered)
            if worth > most:
                lane_axis, most = axis, worth
    if lane_axis is None:
        return None
    swapped = lane_axis.strides[0] == 0
    rest = list(tile.free)
    rest.remove(lane_axis)
    still = 1 if swapped else 0
    columns = STILL
    for axis in rest:
        if axis.strides[still] == 0 and axis.extent > columns.extent:
            columns = axis
    if columns is STILL and lane_axis.strides[still] != tile.in_type.width:
        return _one_lane(tile, lane_axis, rest)
    if columns is not STILL:
        rest.remove(columns)
    loops = tuple(map(in_order, rest, repeat(swapped)))
    return GemmAxes(in_order(lane_axis, swapped), in_order(columns, swapped), loops, swapped)


def single_elements(tile: ContractionTile) -> GemmAxes:
    """Blocks of one element: what fits any tile of two inputs."""
    lanes = TileAxis(1, (tile.in_type.width, 0, tile.out_type.width))
    return GemmAxes(lanes, STILL, tile.free, False)


def _one_lane(tile: ContractionTile, axis: TileAxis, rest: list[TileAxis]) -> GemmAxes:
    """A matrix by a vector along rows: one chain per row beats gathering every step's lanes."""
    lanes = TileAxis(1, (tile.in_type.width, 0, tile.out_type.width))
    swapped = axis.strides[0] != 0
    loops = tuple(in_order(other, swapped) for other in rest)
    return GemmAxes(lanes, in_order(axis, swapped), loops, swapped)


def _ease_of_scatter(tile: ContractionTile) -> float:
    """Of lanes that are adjacent on the input alone, in sums as short as those of the tile."""
    return min(_EASE[True, False], tile.products / (tile.products + _SCATTER))


def _lane_worth(axis: TileAxis, tile: ContractionTile, scattered: float) -> float:
    """Share of useful lanes times the ease of access; ties go to in0."""
    width = tile.in_type.width
    source = axis.strides[0] or axis.strides[1]
    unit_input = source == width
    unit_output = axis.strides[2] == tile.out_type.width
    ease = scattered if unit_input and not unit_output else _EASE[unit_input, unit_output]
    prefer_in0 = 1.0 if axis.strides[0] else 0.999
    return ease * min(axis.extent, 16) * prefer_in0


def in_order(axis: TileAxis, swapped: bool) -> TileAxis:
    """``axis`` with the inputs' strides in the order A, B."""
    if not swapped:
        return axis
    first, second, output = axis.strides
    return TileAxis(axis.extent, (second, first, output))
