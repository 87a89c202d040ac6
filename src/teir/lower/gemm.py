"""Lowering of GEMM-shaped tiles to register blocks.

Blocks stand in loops over cuts of rows and of columns; which axes those are says `gemm_axes`.
"""

from __future__ import annotations

from math import prod

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.blocking import (
    BlockedTile,
    choose_blocking,
    full_lanes,
    may_overlap,
    most_columns,
    narrow_rest,
)
from teir.lower.bringing import Marks
from teir.lower.contraction_tile import Accumulator, ContractionTile
from teir.lower.gemm_axes import GemmAxes, has_adjacent_results, in_order, other_way
from teir.lower.gemm_blocks import GemmBlocks
from teir.lower.gemm_call import BLOCK_REDUCTIONS
from teir.lower.kernel_program import Address, Call, KernelNode, Loop
from teir.lower.parts import takes_parts
from teir.lower.tile_loops import tiles_of_loop
from teir.lower.tile_products import tile_product
from teir.lower.tile_room import TILE_SIDE
from teir.target import Isa


def lower_gemm(
    tile: ContractionTile,
    axes: GemmAxes,
    isa: Isa,
    accumulator: Accumulator | None,
    marks: Marks | None,
    room: Address | None,
) -> tuple[KernelNode, ...]:
    """Loops around `GemmBlock` calls; ``accumulator`` holds a narrow output between them.

    ``marks`` are given where the rows of the next tile are worth asking for, ``room`` where kernels
    may have scratch: then one `TileProduct` may take their place.
    """
    first, second, output = tile.operands
    operands = (second, first, output) if axes.swapped else tile.operands
    reductions = [in_order(axis, axes.swapped) for axis in tile.reductions]
    inside = tuple(reductions[-BLOCK_REDUCTIONS:])
    outside = tuple(reductions[:-BLOCK_REDUCTIONS])
    if not outside and isa is Isa.AMX:
        way = other_way(axes) if _fits_tiles_turned(tile, axes) else axes
        mine = operands if way is axes else (operands[1], operands[0], output)
        steps = inside if way is axes else tuple([in_order(axis, True) for axis in inside])
        whole = tile_product(tile, way, mine, steps, isa, room)
        if whole is not None:
            return _around(whole, way.loops, mine)
    depth = prod(axis.extent for axis in inside)
    lanes = full_lanes(isa, tile.in_type, tile.out_type)
    has_parts = not outside and takes_parts(tile, axes, lanes, depth, isa)
    parts_room = room if has_parts else None
    blocked = BlockedTile(
        rows=axes.lanes.extent,
        columns=axes.columns.extent,
        depth=depth,
        in_type=tile.in_type,
        out_type=tile.out_type,
        most_columns=most_columns(axes.columns.strides[1]),
        flushes=tile.flushes and tile.in_type is DataType.BF16,
        parts=parts_room is not None,
        a_step_bytes=axes.adjacent_step(inside, tile.in_type),
        results_far=tile.hints.streams or tile.hints.prefetched[-1],
        b_goes_on=bool(inside) and inside[-1].strides[1] == tile.in_type.width,
        may_overlap=may_overlap(tile, isa) and accumulator is None and parts_room is None,
    )
    rest = narrow_rest(blocked, isa) if _may_be_narrow(tile, axes, accumulator, parts_room) else 0
    blocked = replace(blocked, rows=blocked.rows - rest)
    blocking = choose_blocking(blocked, isa)
    blocks = GemmBlocks(tile, axes, operands, inside, outside, blocking, isa, accumulator, marks)
    body = blocks.panels() if parts_room is None else blocks.panels_in_parts(parts_room)
    if rest:
        body += blocks.narrow_rows(replace(blocked, rows=rest), blocked.rows)
    return wrap_in_loops(axes.loops, operands, body)


def lower_packed_gemm(
    tile: ContractionTile, axes: GemmAxes, isa: Isa, room: Address
) -> tuple[tuple[KernelNode, ...], tuple[KernelNode, ...]]:
    """Copies of plain rows panel by panel to ``room``, and the blocks that read them there."""
    first, second, output = tile.operands
    operands = (second, first, output) if axes.swapped else tile.operands
    inside = tuple([in_order(axis, axes.swapped) for axis in tile.reductions])
    blocked = BlockedTile(
        rows=axes.lanes.extent,
        columns=axes.columns.extent,
        depth=prod(axis.extent for axis in inside),
        in_type=tile.in_type,
        out_type=tile.out_type,
        most_columns=most_columns(axes.columns.strides[1]),
        b_goes_on=inside[-1].strides[1] == tile.in_type.width,
    )
    blocking = choose_blocking(blocked, isa)
    blocks = GemmBlocks(tile, axes, operands, inside, (), blocking, isa, None, None)
    return blocks.packed_panels(room)


def _fits_tiles_turned(tile: ContractionTile, axes: GemmAxes) -> bool:
    """True for lanes that lie apart in C, beside columns that do not: a few of those as rows of a
    tile take longer than adjacent lanes as a vector (1.35), and not as long as scattered ones."""
    if has_adjacent_results(tile, axes):
        return False
    is_vector = axes.lanes.strides[0] == tile.in_type.width
    return 2 * axes.columns.extent >= TILE_SIDE or not is_vector


def _may_be_narrow(
    tile: ContractionTile, axes: GemmAxes, accumulator: Accumulator | None, parts: Address | None
) -> bool:
    """True for plain numbers, rows adjacent on both sides, summed where they are kept."""
    is_plain = tile.in_type is tile.out_type and tile.in_type in (DataType.FP32, DataType.FP64)
    is_adjacent = axes.lanes.strides[0] == axes.lanes.strides[2] == tile.in_type.width
    return is_plain and is_adjacent and not tile.flushes and accumulator is None and parts is None


def _around(
    whole: Call, loops: tuple[TileAxis, ...], operands: tuple[Address, ...]
) -> tuple[KernelNode, ...]:
    """The product in its loops, those inside it that it takes."""
    body: tuple[KernelNode, ...] = (whole,)
    for axis in reversed(loops):
        body = wrap_in_loops((axis,), operands, body)
        (loop,) = body
        assert isinstance(loop, Loop)
        body = tiles_of_loop(loop) or (loop,)
    return body
