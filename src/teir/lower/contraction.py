"""Lowering of one Contraction invocation: to register blocks where an axis separates the inputs."""

from __future__ import annotations

from teir.lower.batch_blocks import batch_axes, lower_batch_blocks
from teir.lower.bringing import Marks
from teir.lower.contraction_tile import Accumulator, ContractionTile
from teir.lower.gemm import lower_gemm
from teir.lower.gemm_axes import gemm_axes, single_elements
from teir.lower.gemm_call import BLOCK_REDUCTIONS
from teir.lower.kernel_program import Address, KernelNode
from teir.lower.lane_blocks import LANE_REDUCTIONS, lane_axes, lower_lane_blocks
from teir.lower.low_blocks import has_outer_reduction, lower_outer_reduction
from teir.lower.packed_rows import lower_packed_rows, packs_rows
from teir.lower.pair_blocks import lower_pair_blocks, pair_axes, rest_of_rows
from teir.lower.panels import lower_panels, panel_axes
from teir.lower.product_sum import SUM_REDUCTIONS, lower_product_sum
from teir.lower.row_sweeps import lower_row_sweeps, sweep_axes
from teir.lower.sites import lower_sites, tile_sites
from teir.lower.slots import ScratchRoom
from teir.lower.widened_tiles import lower_widened, widens
from teir.target import Isa

FEWEST_INSIDE = min(BLOCK_REDUCTIONS, LANE_REDUCTIONS, SUM_REDUCTIONS)
"""Reductions that run inside a kernel whichever it is."""


def reduction_room(inputs: int) -> int:
    """How many reduction axes run inside one kernel call."""
    return BLOCK_REDUCTIONS if inputs == 2 else SUM_REDUCTIONS


def needs_accumulator(tile: ContractionTile) -> bool:
    """True when partial sums would be rounded to a narrow output between kernel calls."""
    is_narrow = tile.out_type.accumulator is not tile.out_type
    return is_narrow and len(tile.reductions) > reductions_inside(tile)


def reductions_inside(tile: ContractionTile) -> int:
    """How many of the tile's reductions, innermost first, run inside its kernel."""
    if tile.flushes:
        return BLOCK_REDUCTIONS
    if lane_axes(tile) is not None:
        return LANE_REDUCTIONS
    return BLOCK_REDUCTIONS if gemm_axes(tile) is not None else SUM_REDUCTIONS


def lower_contraction(
    tile: ContractionTile,
    isa: Isa,
    accumulator: Accumulator | None,
    marks: Marks | None = None,
    room: Address | None = None,
    slots: ScratchRoom | None = None,
) -> tuple[KernelNode, ...]:
    """Calls of the kernel that suits the tile best, in loops over the axes it does not take.

    `LaneBlock` where an axis is adjacent on all operands, `BatchBlock` for many small products,
    `RowSweep` for a vector and a large matrix, `PairBlock` for short sums of BF16, `PanelBlock`,
    `GemmBlock` or `TileProduct` where an axis separates the inputs, else `ProductSum`.

    ``accumulator`` must be given when `needs_accumulator` says so, ``marks`` where rows are worth
    asking for ahead, ``room`` where kernels may have scratch, ``slots`` where
    lowering may add some.
    """
    if tile.flushes:
        return _lower_flushing(tile, isa, accumulator, room, slots)
    has_rows, has_columns, has_shared = _kinds(tile)
    lanes = lane_axes(tile) if has_shared else None
    if lanes is not None:
        return lower_lane_blocks(tile, lanes, isa)
    sites = tile_sites(tile, isa)
    if sites is not None:
        return lower_sites(tile, sites, isa)
    is_matrix = has_rows and has_columns and len(tile.free) == 2
    batch = None if is_matrix else batch_axes(tile, isa)
    if batch is not None:
        return lower_batch_blocks(tile, batch, isa)
    sweep = None if has_rows and has_columns else sweep_axes(tile)
    if sweep is not None:
        return lower_row_sweeps(tile, sweep, isa)
    chosen = gemm_axes(tile)
    if chosen is None:
        return lower_product_sum(tile, isa, accumulator)
    if slots is not None and isa.widens_factors and widens(tile, chosen, isa):
        return lower_widened(tile, chosen, isa, slots)
    panels = panel_axes(tile, chosen, isa)
    if panels is not None:
        return lower_panels(tile, panels, isa)
    if room is not None and packs_rows(tile, chosen, isa):
        return lower_packed_rows(tile, chosen, isa, room)
    if has_outer_reduction(tile, chosen, isa):
        return lower_outer_reduction(tile, chosen, isa)
    return lower_gemm(tile, chosen, isa, accumulator, marks, room)


def _lower_flushing(
    tile: ContractionTile,
    isa: Isa,
    accumulator: Accumulator | None,
    room: Address | None,
    slots: ScratchRoom | None,
) -> tuple[KernelNode, ...]:
    """Blocks that count subnormal numbers as zero: sites or pairs where they suit, and the rows
    left."""
    axes = gemm_axes(tile) or single_elements(tile)
    if slots is not None and widens(tile, axes, isa):
        return lower_widened(tile, axes, isa, slots)
    pairs = pair_axes(tile, axes, isa)
    sites = None if pairs is not None and pairs.run.extent > 1 else tile_sites(tile, isa)
    if sites is not None:
        return lower_sites(tile, sites, isa)
    if pairs is None:
        return lower_gemm(tile, axes, isa, accumulator, None, room)
    nodes = lower_pair_blocks(tile, pairs)
    rest = rest_of_rows(tile, pairs, axes)
    if rest is None:
        return nodes
    return (*nodes, *lower_gemm(*rest, isa, accumulator, None, room))


def _kinds(tile: ContractionTile) -> tuple[bool, bool, bool]:
    """Whether some free axis moves in0 but not in1, in1 but not in0, and both."""
    has_rows = has_columns = has_shared = False
    for axis in tile.free:
        first, second = axis.strides[0], axis.strides[1]
        has_shared = has_shared or bool(first and second)
        has_rows = has_rows or bool(first and not second)
        has_columns = has_columns or bool(second and not first)
    return has_rows, has_columns, has_shared
