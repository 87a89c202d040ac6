"""Where there are few vector registers: rows copied panel by panel for all turns that read them.

    Loop n < 32 (in1, out move)            PartCopy(in0 -> room)
      GemmBlock(in0, in1 -> out)     ->    Loop n < 32 (in1, out move)
                                             GemmBlock(room, in1 -> out)

A low panel meets few columns at a time, and takes of rows in place parts of lines, one more where
they begin inside one. Copied it is as long as its numbers, and whole vectors lie inside lines. The
copies stand before the loops that do not move the rows (`teir.lower.part_loops`). Columns go around
panels, whose copies follow one another as memory reads ahead; long sums are cut so that a block of
columns stays in the first cache beside a panel. Sums keep their order: no bit changes. Measured on
Zen 3, configurations of section 5.3: 0.93 of the time in FP32, 0.86 in FP64.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec.structs import replace

from teir.ir.nodes import Axis
from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.contraction_tile import ContractionTile
from teir.lower.gemm import lower_packed_gemm
from teir.lower.gemm_axes import GemmAxes
from teir.lower.gemm_call import BLOCK_REDUCTIONS
from teir.lower.kernel_program import Address, KernelNode
from teir.lower.low_blocks import NEAR_PANEL_BYTES, PLAIN, first_parts, panel_bytes_in_place
from teir.lower.panel_cuts import TALLEST
from teir.lower.part_loops import room_end
from teir.lower.parts import MOST_NEAR_BYTES
from teir.target import MANY_REGISTERS, Isa

_LEAST_MEETINGS = 64
"""Columns of all turns that repay a copy."""
_PART_STEPS, _LEAST_PART = 128, 32
"""Steps of a part of the sum at most, and at least: results are read and written once for each."""


def packs_rows(tile: ContractionTile, axes: GemmAxes, isa: Isa) -> bool:
    """True for adjacent plain rows, more than one panel of them, that many columns meet and that
    take too much of the first cache where they lie."""
    kind, place, depth = tile.in_type, 1 if axes.swapped else 0, tile.products
    if isa.vector_registers >= MANY_REGISTERS or not tile.rereads or axes.loops:
        return False
    if not 0 < len(tile.reductions) <= BLOCK_REDUCTIONS:
        return False
    if kind not in PLAIN or tile.out_type is not kind or tile.hints.prefetched[place]:
        return False
    if axes.lanes.strides[0] != kind.width or axes.lanes.strides[2] != kind.width:
        return False
    rows_bytes = axes.lanes.extent * kind.width
    if rows_bytes <= TALLEST * isa.vector_bytes or rows_bytes * depth > MOST_NEAR_BYTES:
        return False
    if axes.columns.extent * tile.rereads[place] < _LEAST_MEETINGS:
        return False
    return panel_bytes_in_place(depth, tile.reductions[-1].strides[place]) > NEAR_PANEL_BYTES


def lower_packed_rows(
    tile: ContractionTile, axes: GemmAxes, isa: Isa, room: Address
) -> tuple[KernelNode, ...]:
    """All copies, then all blocks; long sums in parts, the first of which may start from zero."""
    outer, inner = _parts(tile.reductions)
    if outer is None:
        copies, blocks = lower_packed_gemm(tile, axes, isa, room)
        return (*copies, *blocks)
    first, second = first_parts(tile, outer, inner)
    copies, blocks = lower_packed_gemm(first, axes, isa, room)
    filled = room_end(copies, room.slot) - room.offset_bytes
    behind = replace(room, offset_bytes=room.offset_bytes + filled)
    more_copies, more_blocks = lower_packed_gemm(second, axes, isa, behind)
    rest = (TileAxis(outer.extent - 1, (*outer.strides, filled)),) if outer.extent > 2 else ()
    places = (*second.operands, behind)
    return (
        *copies,
        *wrap_in_loops(rest, places, more_copies),
        *blocks,
        *wrap_in_loops(rest, places, more_blocks),
    )


def _parts(reductions: tuple[TileAxis, ...]) -> tuple[TileAxis | None, tuple[TileAxis, ...]]:
    """The loop around parts of the sum, and the reductions of a part; None where it stays whole."""
    first, *others = reductions
    depth = prod(axis.extent for axis in others)
    if first.extent * depth <= _PART_STEPS:
        return None, reductions
    fitting = (
        steps
        for steps in range(1, first.extent)
        if first.extent % steps == 0 and steps * depth <= _PART_STEPS
    )
    steps = max(fitting, default=0)
    if steps * depth < _LEAST_PART:
        return None, reductions
    outer = TileAxis(first.extent // steps, tuple([stride * steps for stride in first.strides]))
    inside = (TileAxis(steps, first.strides),) if steps > 1 else ()
    return outer, (*inside, *others)


def rereads_of(names: Sequence[str], loops: Sequence[Axis]) -> tuple[int, ...]:
    """In how many turns in a row of ``loops``, those around a tile, each input is the same."""
    return tuple([_still_turns(name, loops) for name in names])


def _still_turns(name: str, loops: Sequence[Axis]) -> int:
    turns = 1
    for axis in reversed(loops):
        if axis.segments or axis.strides.get(name):
            break
        turns *= axis.extent
    return turns
