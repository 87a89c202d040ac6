"""What the dense search decides about one matrix-like step, as a value.

A choice fixes loops, packing and stores; it never fixes the order of a sum, which is the order of
`ProductShape.k` whatever is chosen. So all choices of a step give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import gcd

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.passes.cache_blocks import (
    FEWEST_COLUMNS,
    USUAL,
    Walked,
    is_worth_packing,
    most_columns,
    most_rows,
    packs_columns,
    packs_lanes,
    reduction_depth,
)
from teir.passes.extents import even_block
from teir.search.machine import Machine
from teir.search.packing import rows_together
from teir.search.panel_rows import gains_by_following, panel_of
from teir.search.reductions import Reductions, reductions_of
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span

_SHORT_DEPTH = 96
"""Products per result up to which writing the output is a large part of the work."""
_BEYOND_L2 = 4
"""Sizes of the second cache from which an operand counts as streaming by."""
_NEAR = 2
"""Sizes of the second cache up to which two operands may be walked in the order of the output."""
_FEW_COLUMNS = 64
_PANEL_VECTORS = 3
"""Vectors of the lowest panel of rows that is as good as higher ones."""
_FROM_MEMORY = 12
"""Sizes of the second cache from which an operand comes from memory at every run."""
_ASKED_PANELS = 6
"""Panels of rows from which on asking for the next one while the present one is used pays."""
_PANELS_OF_A_RUN = 4
"""Panels side by side where A comes from memory: longer runs are read and written faster."""
_SHARED_PACKED = 16
"""Halves of L2 that a reduction block of A may take where all threads pack it and read it."""
_CHUNKS = 4
"""Chunks of work per thread, so that an uneven machine still shares evenly."""


class Packing(Enum):
    """How much of an operand is copied into scratch, in the order the kernels read it."""

    NONE = "none"
    BLOCKS = "blocks"
    """Blocks of rows, each before the columns that meet it."""
    WHOLE = "whole"
    """All rows or columns of a reduction block, before its loops."""


class Order(Enum):
    """Which loops are outside."""

    ROWS = "rows"
    COLUMNS = "columns"
    OUTPUT = "output"
    """The larger a loop's stride on the output, the further outside it is."""


class Sharing(Enum):
    """Which loops the threads share, the batch axes apart."""

    NONE = "none"
    ROWS = "rows"
    COLUMNS = "columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The decisions of one step; rows are those of A, which carries the lanes.

    ``depth`` is the most products of a reduction block. ``panel`` is the rows of a packed panel,
    ``row_block`` the rows that are packed together, or of one tile where A is not packed.
    ``column_block`` is the columns of one tile. ``streams``: the output is written past the caches
    where its place allows. ``prefetches_a``, ``_b``, ``_out``: the next tile's part is asked for.
    """

    packed_a: Packing
    packed_b: Packing
    order: Order
    depth: int
    panel: int
    row_block: int
    column_block: int
    sharing: Sharing
    streams: bool
    prefetches_a: bool
    prefetches_b: bool
    prefetches_out: bool


def default_choice(shape: ProductShape, machine: Machine) -> Choice:
    """What the search takes where nothing has been measured."""
    depth = _depth(shape)
    k = reduction_blocks(shape).block
    if _is_short(shape, machine):
        return short_choice(shape, depth, machine)
    sharing = sharing_of(shape, machine)
    if sharing is Sharing.NONE and _is_asked_for(shape, k, machine):
        return _asking_choice(shape, k, depth, machine)
    packs_a, packs_b = wants_packed_a(shape, k, machine), wants_packed_b(shape, k)
    streams = _is_written_once(shape, depth, machine)
    is_shared = packs_a and sharing is Sharing.COLUMNS and not streams
    divides_rows = is_shared and _divides_rows(shape, machine)
    if divides_rows:
        sharing = Sharing.ROWS
    packed_a = Packing.NONE
    if packs_a:
        halves = 1 if sharing is Sharing.NONE else _SHARED_PACKED
        fits = sharing is not Sharing.ROWS and _fits_whole(shape, k, machine, halves)
        packed_a = Packing.WHOLE if fits else Packing.BLOCKS
    panel_alone = packs_a and sharing is Sharing.NONE and _columns_stay(shape, k, machine)
    if panel_alone:
        packed_a = Packing.BLOCKS
    is_long = streams and packs_a and _makes_short_sums(shape)
    panel = _written_panel(shape, machine) if is_long else panel_of(shape, machine)
    row_block = panel if panel_alone else _row_block(shape, k, sharing, machine)
    if divides_rows:
        row_block = shape.rows // machine.threads
    choice = Choice(
        packed_a=packed_a,
        packed_b=Packing.WHOLE if packs_b else Packing.NONE,
        order=_order(shape, k, packed_a, sharing, machine),
        depth=depth,
        panel=panel,
        row_block=row_block,
        column_block=_column_block(shape, k, sharing, machine),
        sharing=sharing,
        streams=streams,
        prefetches_a=False,
        prefetches_b=False,
        prefetches_out=streams,
    )
    if packs_a or not _is_read_once(shape, machine):
        return choice
    assert shape.m is not None
    assert shape.n is not None
    return replace(
        choice,
        order=Order.COLUMNS if sharing is Sharing.COLUMNS else Order.ROWS,
        row_block=even_block(shape.m.extent, _PANELS_OF_A_RUN * choice.panel, choice.panel),
        column_block=shape.n.extent,
        prefetches_a=True,
    )


def _is_asked_for(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where a large A is as good in place as packed once its next rows are asked for.

    Its rows are adjacent and many, and all columns of a block stay in or near the second cache.
    Twice as many elements of FP32 come with each line, and packing them costs less.
    """
    if shape.m is None or shape.n is None or shape.n_outer or not 2 <= len(shape.k) <= 3:
        return False
    kind = shape.a.data_type
    if kind is not DataType.FP64 or shape.m.stride(shape.a.name) != kind.width:
        return False
    panel = _PANEL_VECTORS * machine.lanes(kind.width)
    size = shape.rows * extent_of(shape.k) * kind.width
    columns = shape.n.extent * extent_of(k) * kind.width
    is_far = size >= _FROM_MEMORY * machine.l2_bytes and columns <= 5 * machine.l2_bytes // 4
    return is_far and shape.m.extent >= _ASKED_PANELS * panel and shape.columns > _FEW_COLUMNS


def _asking_choice(shape: ProductShape, k: Sequence[Span], depth: int, machine: Machine) -> Choice:
    """A in place, a panel at a time, each used by all columns; one thread."""
    assert shape.m is not None
    assert shape.n is not None
    panel = _PANEL_VECTORS * machine.lanes(shape.a.data_type.width)
    return Choice(
        packed_a=Packing.NONE,
        packed_b=Packing.WHOLE if wants_packed_b(shape, k) else Packing.NONE,
        order=Order.ROWS,
        depth=depth,
        panel=panel,
        row_block=panel,
        column_block=shape.n.extent,
        sharing=Sharing.NONE,
        streams=False,
        prefetches_a=True,
        prefetches_b=False,
        prefetches_out=False,
    )


def _is_written_once(shape: ProductShape, depth: int, machine: Machine) -> bool:
    """True for an output that no cache holds until it is read, made of whole sums."""
    results = shape.rows * shape.columns * extent_of(shape.c)
    is_large = results * shape.out.data_type.width >= _BEYOND_L2 * machine.l2_bytes
    return is_large and reductions_of(shape, depth).is_one_block


def _is_read_once(shape: ProductShape, machine: Machine) -> bool:
    """True where few columns meet a large A: a panel of A is read, used by all, and done with."""
    if shape.m is None or shape.n is None or shape.n_outer:
        return False
    size = shape.rows * extent_of(shape.k) * shape.a.data_type.width
    return shape.columns <= _FEW_COLUMNS and size >= _BEYOND_L2 * machine.l2_bytes


def _is_short(shape: ProductShape, machine: Machine) -> bool:
    """True where few products make each result of a large output of two operands that are near."""
    if shape.m is None or shape.n is None or shape.c:
        return False
    depth = extent_of(shape.k)
    width = shape.out.data_type.width
    out_bytes = shape.rows * shape.columns * width
    near = (shape.rows + shape.columns) * depth * width <= _NEAR * machine.l2_bytes
    return _makes_short_sums(shape) and out_bytes >= 2 * machine.l2_bytes and near


def _makes_short_sums(shape: ProductShape) -> bool:
    """Not of types narrower than their sums: only kernels of whole ones write past the caches."""
    is_narrow = shape.out.data_type.accumulator.width > shape.out.data_type.width
    return not is_narrow and extent_of(shape.k) <= _SHORT_DEPTH


def short_choice(shape: ProductShape, depth: int, machine: Machine) -> Choice:
    """Both operands packed whole; loops follow the output, which is written once."""
    panel = _written_panel(shape, machine)
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    rows = 1 if shape.m is None else shape.m.extent
    if shape.m is not None and shape.m_outer and rows % lanes:
        together = lanes // gcd(rows, lanes) * rows
        if together <= 4 * lanes and rows_together(shape.m, shape.m_outer[-1], together) > 1:
            panel = together
    return Choice(
        packed_a=Packing.WHOLE,
        packed_b=Packing.WHOLE,
        order=Order.OUTPUT,
        depth=depth,
        panel=panel,
        row_block=shape.rows,
        column_block=_tile_columns(shape, panel, machine),
        sharing=sharing_of(shape, machine),
        streams=True,
        prefetches_a=False,
        prefetches_b=False,
        prefetches_out=True,
    )


def _written_panel(shape: ProductShape, machine: Machine) -> int:
    """Rows of a panel whose results go past the caches.

    Long rows make long panels of few columns: whole lines of the output, one after the other.
    """
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    rows = 1 if shape.m is None else shape.m.extent
    long = (vectors * lanes for vectors in (9, 6) if rows % (vectors * lanes) == 0)
    return next(long, panel_of(shape, machine))


def choices(shape: ProductShape, machine: Machine) -> Iterator[Choice]:
    """The default, then the alternatives that may be faster, each once."""
    first = default_choice(shape, machine)
    seen = {first}
    yield first
    for other in _alternatives(first, shape, machine):
        if other not in seen:
            seen.add(other)
            yield other


def reduction_blocks(shape: ProductShape) -> Reductions:
    """How the default choice cuts the reductions."""
    return reductions_of(shape, _depth(shape))


def _depth(shape: ProductShape) -> int:
    """Narrow outputs are summed in one block where one holds everything, else in wide scratch."""
    out = shape.out.data_type
    depth = reduction_depth(out)
    return depth if reductions_of(shape, depth).is_one_block else reduction_depth(out.accumulator)


def _alternatives(first: Choice, shape: ProductShape, machine: Machine) -> Iterator[Choice]:
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    if shape.m is not None:
        yield from (replace(first, packed_a=packing) for packing in Packing)
    if shape.n is not None:
        yield from (replace(first, packed_b=one) for one in (Packing.NONE, Packing.WHOLE))
    if first.sharing is Sharing.NONE:
        yield from (replace(first, order=order) for order in Order)
    yield replace(first, depth=first.depth // 2)
    for vectors, columns in ((2, 12), (3, 8), (4, 6)):
        yield replace(first, panel=vectors * lanes, column_block=columns)
    yield replace(first, streams=not first.streams)


def wants_packed_a(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where the rule of lanes says so, or where rows that follow one another fill vectors."""
    if shape.m is None or not k:
        return False
    walk = _walked(shape.a, shape.m, k, shape.columns)
    if packs_lanes(walk, machine.l1_bytes, USUAL):
        return True
    return is_worth_packing(walk, USUAL) and gains_by_following(shape, machine)


def wants_packed_b(shape: ProductShape, k: Sequence[Span]) -> bool:
    """True where the rule of columns says so."""
    if shape.n is None or not k:
        return False
    return packs_columns(_walked(shape.b, shape.n, k, shape.rows), USUAL)


def _walked(tensor: Tensor, side: Span, k: Sequence[Span], readers: int) -> Walked:
    """How a block of reductions walks an operand."""
    strides = [axis.stride(tensor.name) for axis in k]
    return Walked(
        side=side.extent,
        depth=extent_of(k),
        readers=readers,
        step=strides[-1],
        farthest=max(strides),
        apart=side.stride(tensor.name),
        width=tensor.data_type.width,
    )


def sharing_of(shape: ProductShape, machine: Machine) -> Sharing:
    """Rows where there are enough panels, else columns; none where the batch axes are enough.

    Threads that share rows pack their own: cores that are far from each other exchange nothing.
    """
    if not _is_worth_sharing(shape, machine) or shares_batch(shape, machine):
        return Sharing.NONE
    panels = shape.rows // machine.panel_rows(shape.out.data_type.accumulator.width)
    columns = shape.columns // FEWEST_COLUMNS
    if max(panels, columns) < machine.threads:
        return Sharing.NONE
    return Sharing.ROWS if panels >= min(columns, 2 * machine.threads) else Sharing.COLUMNS


def _divides_rows(shape: ProductShape, machine: Machine) -> bool:
    """True where every thread gets the same rows, some vectors of them, in one block.

    Each packs its own then. What one thread packs comes to another by way of the third cache.
    """
    if shape.m is None or len(shape.m_outer) > 1:
        return False
    cut = (*shape.m_outer, shape.m)[0]
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    is_high = shape.rows // machine.threads >= _PANEL_VECTORS * lanes
    return is_high and cut.extent % machine.threads == 0


def shares_batch(shape: ProductShape, machine: Machine) -> bool:
    """True where the batch axes alone give every thread something to do."""
    return _is_worth_sharing(shape, machine) and extent_of(shape.c) >= machine.threads


def _is_worth_sharing(shape: ProductShape, machine: Machine) -> bool:
    work = shape.rows * shape.columns * extent_of(shape.k) * extent_of(shape.c)
    return machine.threads > 1 and work >= machine.threaded_work


def _fits_whole(shape: ProductShape, k: Sequence[Span], machine: Machine, times: int = 1) -> bool:
    """True where a reduction block of A takes at most half of L2 so many times."""
    step_bytes = extent_of(k) * shape.a.data_type.width
    return shape.rows * step_bytes <= times * machine.l2_bytes // 2


def _columns_stay(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where half of L2 holds a reduction block of B while every panel of A meets it.

    A panel then is packed when it is needed: it fits beside B, and the next one takes its place.
    Not where A comes from memory, which is read in longer runs, nor for types narrower than sums.
    """
    kind = shape.a.data_type
    size = shape.rows * extent_of(shape.k) * kind.width
    if size >= _FROM_MEMORY * machine.l2_bytes or kind.accumulator is not kind:
        return False
    return shape.columns * extent_of(k) * kind.width <= machine.l2_bytes // 2


def _order(
    shape: ProductShape,
    k: Sequence[Span],
    packed_a: Packing,
    sharing: Sharing,
    machine: Machine,
) -> Order:
    """Columns outside where A stays in half of L2, else the smaller operand is walked again."""
    if sharing is not Sharing.NONE:
        return Order.ROWS if sharing is Sharing.ROWS else Order.COLUMNS
    if packed_a is Packing.WHOLE:
        return Order.COLUMNS
    is_wide = shape.rows < shape.columns and _fits_whole(shape, k, machine)
    return Order.COLUMNS if is_wide or packed_a is Packing.BLOCKS else Order.ROWS


def _tile_columns(shape: ProductShape, panel: int, machine: Machine) -> int:
    """Columns of one register block beside a panel; a number that divides the columns if one does.

    Short rows in so many columns are whole vectors.
    Four vectors leave room for 6 columns, three for 9, two for 12.
    """
    assert shape.n is not None
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    largest = {1: 16, 2: 12, 3: 9, 4: 6, 6: 4, 9: 2}.get(-(-panel // lanes), 4)
    extent = shape.n.extent
    rows = 1 if shape.m is None else shape.m.extent
    granule = lanes // gcd(rows, lanes)
    if extent <= largest:
        return extent
    fitting = [
        size
        for size in range(largest, largest // 2, -1)
        if extent % size == 0 and size % granule == 0
    ]
    even = -(-extent // -(-extent // largest))
    return fitting[0] if fitting else even


def _row_block(shape: ProductShape, k: Sequence[Span], sharing: Sharing, machine: Machine) -> int:
    """Rows of A that are packed together at this depth; fewer where threads share them."""
    if shape.m is None:
        return 1
    step_bytes = extent_of(k) * shape.a.data_type.width
    panel = machine.panel_rows(shape.out.data_type.accumulator.width)
    largest = most_rows(step_bytes, panel, machine.l2_bytes)
    if sharing is Sharing.ROWS:
        largest = min(largest, max(panel, shape.rows // (_CHUNKS * machine.threads)))
    if largest >= shape.m.extent:
        return largest
    return even_block(shape.m.extent, largest, panel)


def _column_block(
    shape: ProductShape, k: Sequence[Span], sharing: Sharing, machine: Machine
) -> int:
    """Columns of B that stay in L2; fewer where threads share them."""
    if shape.n is None:
        return 1
    step_bytes = extent_of(k) * shape.b.data_type.width
    largest = most_columns(shape.n.extent, step_bytes, machine.l2_bytes)
    if sharing is Sharing.COLUMNS:
        shares = -(-_CHUNKS * machine.threads // extent_of(shape.n_outer))
        largest = min(largest, max(FEWEST_COLUMNS, shape.n.extent // shares))
    return even_block(shape.n.extent, largest)
