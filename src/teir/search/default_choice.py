"""The choice for one matrix-like step where nothing has been measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from teir.passes.cache_blocks import reduction_depth
from teir.passes.extents import even_block
from teir.search.asked_blocks import asked_blocks_choice
from teir.search.asked_copies import asking_in_copies
from teir.search.asked_results import asking_for_results
from teir.search.choice import Choice, Order, Packing, Sharing
from teir.search.chosen_blocks import (
    column_block,
    row_block,
    written_panel,
)
from teir.search.division import Division, Packs, division_of
from teir.search.few_columns import few_columns_choice
from teir.search.followed_rows import followed_depth
from teir.search.long_runs import is_dear_in_place, is_read_once, long_run_choice
from teir.search.low_panels import gains_in_low_panels, low_panels_choice, suits_low_panels
from teir.search.machine import Machine
from teir.search.near_rows import gains_near, near_rows_choice, rows_stay
from teir.search.one_block import one_block_depth
from teir.search.packed_operands import (
    asked_panel,
    columns_stay,
    fills_second_cache,
    fits_whole,
    has_many,
    is_asked_for,
    is_read_across,
    packs_columns_when_met,
    wants_packed_a,
    wants_packed_b,
)
from teir.search.panel_rows import panel_of
from teir.search.panel_sets import leaves_first_cache
from teir.search.reductions import Reductions, reductions_of
from teir.search.rows_in_passing import are_asked_in_passing, asking_in_passing
from teir.search.rows_in_place import rows_in_place
from teir.search.shape import ProductShape, extent_of
from teir.search.sharing import sharing_of
from teir.search.short_runs import fills_lines_later, writes_short_runs
from teir.search.short_sums import (
    SHORT_DEPTH,
    SHORT_PANEL,
    is_far,
    is_short,
    makes_short_sums,
    near_choice,
)
from teir.search.standing_rows import standing_choice
from teir.search.step import Span
from teir.search.tile_registers import (
    are_laid_for_tiles,
    are_tiles,
    is_one_sum_of_tiles,
    pads_runs,
    tile_column_block,
    tile_columns_of_call,
    tile_rows_of_call,
)
from teir.target import LINE_BYTES

_DEEP_BYTES = 12288
"""Bytes of a column of a reduction block, at most half more, where the output is far: a panel of A
and some columns still lie in the second cache."""
_PANELS_OF_A_RUN = 4
"""Panels side by side where A comes from memory: longer runs are read and written faster."""
_ASKED_COLUMNS = 24
"""Columns of a tile where A stays in place and long sums are made: tiles of all columns take 2 to
17 % longer."""
_ASKED_DEPTH = 384
"""Products of a reduction block where A stays in place and sums are cut: the columns of the next
block, which nobody asks for, are fewer beside what the next panel asks for."""
_MANY_COLUMNS = 48
"""Columns that repay rows in place where blocks of columns would bring A again for each."""
_TILES_IN_L1 = 3
_TILE_COLUMNS = 8
"""A tile of results with the lines it shares takes this part of L1; columns of one at least."""
_SHARED_PACKED = 16
"""Halves of L2 that a reduction block of A may take where all threads pack it and read it."""


def default_choice(shape: ProductShape, machine: Machine) -> Choice:
    """What the search takes where nothing has been measured."""
    standing = standing_choice(shape, machine) if shape.stands else None
    if standing is not None:
        return standing
    division = parts_of(shape, machine) if machine.threads > 1 else None
    if division is not None:
        alone = default_choice(division.part, replace(machine, threads=1))
        return replace(alone, sharing=Sharing.PARTS)
    depth = _depth(shape, machine)
    few = few_columns_choice(shape, depth, machine)
    if few is not None:
        return few
    if is_short(shape, machine):
        return rows_in_place(shape, depth, machine) or near_choice(shape, depth, machine)
    k = reductions_of(shape, depth).block
    packs_a = _packs_a(shape, k, machine)
    if sharing_of(shape, machine) is Sharing.NONE:
        both_asked = asked_blocks_choice(shape, machine)
        if both_asked is not None:
            return both_asked
        in_passing = are_asked_in_passing(shape, k, packs_a, machine)
        is_asked = is_asked_for(shape, k, machine)
        if is_asked or in_passing:
            choice = _asking_choice(shape, k, depth, machine)
            is_plain = is_asked and (len(k) == 1 or not in_passing)
            return choice if is_plain else asking_in_passing(choice, shape)
    if are_tiles(shape, machine):
        return _tile_choice(shape, k, depth, machine)
    if _is_met_again(shape, machine):
        in_place = rows_in_place(shape, depth, machine)
        if in_place is not None:
            return in_place
    if packs_a:
        choice = _packing_choice(shape, k, depth, machine)
    else:
        choice = _reading_choice(shape, k, depth, machine)
    if _has_dear_ends(choice, shape, machine):
        return _through_caches(choice, shape, machine)
    return choice


def _tile_choice(shape: ProductShape, k: Sequence[Span], depth: int, machine: Machine) -> Choice:
    """For tile registers: every block of columns copied by the kernel once, for all rows."""
    packs = _packs_a(shape, k, machine)
    choice = (_packing_choice if packs else _in_blocks)(shape, k, depth, machine)
    if choice.sharing is not Sharing.NONE:
        return choice
    if are_laid_for_tiles(shape, k):
        rows = tile_rows_of_call(shape, k)
        return replace(
            choice,
            packed_a=Packing.NONE,
            packed_b=Packing.NONE,
            order=Order.COLUMNS,
            panel=rows,
            row_block=rows,
            column_block=tile_columns_of_call(shape, k, rows),
            streams=False,
        )
    columns = tile_column_block(shape, k, machine)
    rows = max(1, choice.row_block // choice.panel) * choice.panel
    return replace(choice, order=Order.COLUMNS, row_block=rows, column_block=columns, streams=False)


def parts_of(shape: ProductShape, machine: Machine) -> Division | None:
    """The parts that each thread does alone; None where threads share loops, or nothing."""
    if sharing_of(shape, machine) is Sharing.NONE:
        return None
    k = reduction_blocks(shape, machine).block
    packs = Packs(_packs_a(shape, k, machine), _packs_b(shape, k, machine))
    return division_of(shape, machine, packs)


def _packs_a(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    if wants_packed_a(shape, k, machine) or fills_second_cache(shape, k, machine):
        return True
    if gains_in_low_panels(shape, k, machine):
        return True
    return gains_near(shape, k, machine) or leaves_first_cache(shape, k, machine)


def _packs_b(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    return wants_packed_b(shape, k, machine) or pads_runs(shape, k, machine)


def _packing_choice(shape: ProductShape, k: Sequence[Span], depth: int, machine: Machine) -> Choice:
    """A packed: whole, in blocks of rows, or a panel at a time."""
    choice = _in_blocks(shape, k, depth, machine)
    sharing, panel = choice.sharing, choice.panel
    if choice.streams and makes_short_sums(shape):
        panel = written_panel(shape, machine)
    order = Order.ROWS if sharing is Sharing.ROWS else Order.COLUMNS
    choice = replace(choice, packed_a=Packing.BLOCKS, order=order, panel=panel)
    match sharing:
        case Sharing.ROWS:
            return choice
        case Sharing.COLUMNS:
            if fits_whole(shape, k, machine, _SHARED_PACKED):
                return replace(choice, packed_a=Packing.WHOLE)
            return choice
        case Sharing.NONE | Sharing.PARTS:
            if suits_low_panels(shape, k, machine):
                return low_panels_choice(choice, shape, machine)
            choice = asking_for_results(choice, shape, machine)
            choice = asking_in_copies(_packed_alone(choice, shape, k, machine), shape, k, machine)
            if makes_short_sums(shape) or not rows_stay(choice, shape, machine):
                return choice
            return near_rows_choice(choice, shape, machine)
        case _:
            assert_never(sharing)


def _packed_alone(
    choice: Choice, shape: ProductShape, k: Sequence[Span], machine: Machine
) -> Choice:
    """A packed for one thread: a panel when it is met, whole, or in blocks of rows."""
    if columns_stay(shape, k, machine):
        return replace(choice, row_block=choice.panel)
    if fits_whole(shape, k, machine) or is_read_across(shape, k, choice):
        choice = replace(choice, packed_a=Packing.WHOLE)
    if packs_columns_when_met(shape, k, choice, machine):
        return replace(choice, packed_a=Packing.WHOLE, packed_b=Packing.BLOCKS)
    return choice


def _reading_choice(shape: ProductShape, k: Sequence[Span], depth: int, machine: Machine) -> Choice:
    """A read where it lies, in runs of panels where it comes from memory once."""
    choice = _in_blocks(shape, k, depth, machine)
    if machine.has_few_registers or not is_read_once(shape, machine):
        return choice
    if choice.sharing is Sharing.NONE and is_dear_in_place(shape, k, machine):
        return long_run_choice(choice, shape, k, machine)
    assert shape.m is not None
    assert shape.n is not None
    columns, has_short_sums = shape.n.extent, extent_of(shape.k) <= SHORT_DEPTH
    # Where the third cache is far, fewer columns took up to 8 % longer.
    has_all = has_short_sums or machine.has_far_third_cache
    rows = even_block(shape.m.extent, _PANELS_OF_A_RUN * choice.panel, choice.panel)
    return replace(
        choice,
        order=Order.COLUMNS if choice.sharing is Sharing.COLUMNS else Order.ROWS,
        row_block=rows,
        column_block=columns if has_all else min(columns, _ASKED_COLUMNS),
        streams=choice.streams and not writes_short_runs(rows, shape, machine),
        prefetches_a=True,
    )


def _has_dear_ends(choice: Choice, shape: ProductShape, machine: Machine) -> bool:
    """True where parts of lines at both ends of short runs go to memory and come back.

    Panels side by side meet inside a line where the output does not begin at one. Past the caches
    each part waits for its line, which a third cache keeps only where it is near. Measured on
    Golden Cove, one thread, sums of 16 to 32 products: 1 to 39 % less time; panels of six vectors
    and sums of 64 took 11 % more, so they stay.
    """
    if not machine.has_far_third_cache or not choice.streams or shape.is_kept:
        return False
    is_plain = choice.sharing is Sharing.NONE and choice.packed_b is Packing.NONE
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    has_ends = choice.panel <= SHORT_PANEL * lanes and makes_short_sums(shape)
    return is_plain and has_ends and not choice.prefetches_a


def _through_caches(choice: Choice, shape: ProductShape, machine: Machine) -> Choice:
    """Columns so few that the next panel finds the lines it shares with this one in L1."""
    run_bytes = choice.panel * shape.out.data_type.width + LINE_BYTES
    columns = max(_TILE_COLUMNS, machine.l1_bytes // (_TILES_IN_L1 * run_bytes))
    return replace(choice, streams=False, column_block=min(choice.column_block, columns))


def _in_blocks(shape: ProductShape, k: Sequence[Span], depth: int, machine: Machine) -> Choice:
    """A read where it lies, in blocks that the caches hold."""
    sharing = sharing_of(shape, machine)
    streams = _is_written_once(shape, depth, machine)
    return Choice(
        packed_a=Packing.NONE,
        packed_b=Packing.WHOLE if _packs_b(shape, k, machine) else Packing.NONE,
        order=_order(shape, k, sharing, machine),
        depth=depth,
        panel=panel_of(shape, machine),
        row_block=row_block(shape, k, sharing, machine),
        column_block=column_block(shape, k, sharing, machine),
        sharing=sharing,
        streams=streams,
        prefetches_a=False,
        prefetches_b=False,
        prefetches_out=streams,
        prefetches_packed=False,
    )


def _order(shape: ProductShape, k: Sequence[Span], sharing: Sharing, machine: Machine) -> Order:
    """The loops that are shared outside, else the smaller operand is walked again."""
    if sharing is not Sharing.NONE:
        return Order.ROWS if sharing is Sharing.ROWS else Order.COLUMNS
    is_wide = shape.rows < shape.columns and fits_whole(shape, k, machine)
    return Order.COLUMNS if is_wide else Order.ROWS


def _asking_choice(shape: ProductShape, k: Sequence[Span], depth: int, machine: Machine) -> Choice:
    """A in place, a panel at a time, each used by all columns; one thread.

    Tiles take all columns that are adjacent in B: some of them would take parts of its lines.
    """
    assert shape.m is not None
    assert shape.n is not None
    if not reductions_of(shape, depth).is_one_block:
        depth = min(depth, _ASKED_DEPTH)
    panel = asked_panel(shape, machine)
    streams = _is_written_once(shape, depth, machine)
    is_adjacent = shape.n.stride(shape.b.name) == shape.b.data_type.width
    columns = min(shape.n.extent, _ASKED_COLUMNS)
    return Choice(
        packed_a=Packing.NONE,
        packed_b=Packing.WHOLE if _packs_b(shape, k, machine) else Packing.NONE,
        order=Order.ROWS,
        depth=depth,
        panel=panel,
        row_block=panel,
        column_block=shape.n.extent if is_adjacent and streams else columns,
        sharing=Sharing.NONE,
        streams=streams,
        prefetches_a=True,
        prefetches_b=False,
        prefetches_out=streams,
        prefetches_packed=False,
    )


def _is_written_once(shape: ProductShape, depth: int, machine: Machine) -> bool:
    """True for an output that no cache holds until it is read, made of whole sums and lines."""
    if not machine.writes_lines or not is_far(shape, machine):
        return False
    return not fills_lines_later(shape) and reductions_of(shape, depth).is_one_block


def _is_met_again(shape: ProductShape, machine: Machine) -> bool:
    """True where short sums of many columns leave the second cache, and A is met by all at once."""
    results = shape.rows * shape.columns * shape.out.data_type.width
    leaves = results >= machine.l2_bytes and shape.columns >= _MANY_COLUMNS
    return leaves and makes_short_sums(shape) and not is_read_once(shape, machine)


def reduction_blocks(shape: ProductShape, machine: Machine) -> Reductions:
    """How the default choice cuts the reductions."""
    return reductions_of(shape, _depth(shape, machine))


def _depth(shape: ProductShape, machine: Machine) -> int:
    """Narrow outputs are summed in one block where one holds everything, else in wide scratch.

    Large ones leave the caches before the next block is added, so their blocks are long.
    """
    followed = followed_depth(shape, machine) if machine.has_far_third_cache else None
    if followed is not None:
        return followed
    out = shape.out.data_type
    depth = reduction_depth(out)
    if are_tiles(shape, machine) and is_one_sum_of_tiles(shape):
        return max(depth, extent_of(shape.k))
    if out.accumulator is not out:
        is_one_block = reductions_of(shape, depth).is_one_block
        return depth if is_one_block else reduction_depth(out.accumulator)
    if has_many(shape) and is_far(shape, machine):
        return max(depth, _DEEP_BYTES // out.width)
    return max(depth, one_block_depth(shape, machine))
