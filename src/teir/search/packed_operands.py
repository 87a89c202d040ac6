"""Whether the operands of one matrix-like step are copied into scratch, and what fits where."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.passes.cache_blocks import (
    USUAL,
    Walked,
    is_worth_packing,
    packs_columns,
    packs_lanes,
    rows_fill_second_cache,
)
from teir.search.choice import Choice, Order, Packing
from teir.search.machine import BEYOND_L2, FROM_MEMORY, Machine
from teir.search.packing import following
from teir.search.pair_panels import turns_columns
from teir.search.panel_rows import gains_by_following
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span, is_adjacent
from teir.target import LINE_BYTES, PAGE_BYTES

_ASKED_PANELS = 5
_ASKED_PANELS_OF_A_SUM = 3
"""Panels of rows from which on asking for the next one while the present one is used pays; and
where one axis is summed in one block."""
_ASKED_LINES = {DataType.FP32: 2, DataType.FP64: 3}
_ASKED_LINES_OF_A_SUM = 3
"""Lines of a panel in place that measured fastest, by the types whose rows are asked for; and
where one axis is summed in one block."""
_WIDE, _FEWEST_OF_NARROW = 8, 48
"""Bytes of elements whose sums, however short, repay a copy of lines that are taken again; and
products of a sum from which narrower ones do."""
FEW_COLUMNS = 64
_FEW_READERS = 6
"""Columns for which rows that lie along the sum are turned as they are read."""
_FEWEST_READERS = 12
"""Columns for which rows that are gathered one by one are better packed with those behind them."""
_SHORT_RUN_BYTES = 512
"""Bytes of a run along the reductions below which the processor does not read ahead in time."""
_MOST_WHOLE_BYTES, _PART_OF_A_LINE = 64 << 20, 32
"""What is packed as a whole because blocks of it would take less of every line. Measured on Zen 4:
0.1 to 0.3 of the time."""
_MANY_PAGES, _FEWEST_OF_PAGES = 1024, 32
"""Pages of B that one outer column meets, half of what a Golden Cove core keeps the addresses of;
and products of a sum, shorter ones of which took 0.8 to 2.4 of the time on two threads."""
_FEW_SETS_APART, _PANELS_OF_FEW_SETS = 512, 4
"""Bytes between all elements of B that leave it few sets of a cache, and panels that meet
it from which it is packed. Measured on Zen 4: 0.12 to 0.9 of the time."""
_MANY = 640
"""Rows and columns from which moving an operand once more costs little."""


def wants_packed_a(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where the rule of lanes says so, or where rows that follow one another fill vectors.

    A few rows that are not adjacent count with those of the other axes where many columns gather
    them, and with those that follow them in the result where some do.
    """
    if shape.m is None or not k:
        return False
    if machine.has_far_third_cache and _are_turned_in_registers(shape, shape.m, k):
        return False
    walk = _walked(shape.a, shape.m, k, shape.columns)
    if walk.apart != walk.width and walk.readers >= _FEWEST_READERS:
        is_read_often = walk.readers >= USUAL.readers
        side = shape.rows if is_read_often else rows_in_a_row(shape.m, shape)
        walk = msgspec.structs.replace(walk, side=side)
    if packs_lanes(walk, machine.l1_bytes, USUAL):
        return True
    # Rows that follow one another are packed as one, however few each has.
    walk = msgspec.structs.replace(walk, side=max(walk.side, rows_in_a_row(shape.m, shape)))
    return is_worth_packing(walk, USUAL) and gains_by_following(shape, machine)


def _are_turned_in_registers(shape: ProductShape, rows: Span, k: Sequence[Span]) -> bool:
    """True where few columns meet rows that are adjacent along the sum: they read such rows once,
    a copy would write them too. Asked where the third cache is far.

    Measured on Golden Cove, drawn ones in FP64, which turns squares of eight: 0.74 of the time in
    the mean (0.50 to 1.21), seven columns and more 0.5 to 1.57; FP32 0.6 to 2.0, 1.1 in the mean.
    """
    if shape.a.data_type is not DataType.FP64:
        return False
    lie_along = is_adjacent(k[-1], shape.a) and not is_adjacent(rows, shape.a)
    return lie_along and shape.columns <= _FEW_READERS


def rows_in_a_row(m: Span, shape: ProductShape) -> int:
    """Rows from one row of ``m`` on that lie next to each other in the result."""
    rows = m.extent
    for axis, inside in following(shape.m_outer, m, shape.out.name):
        rows = inside * axis.extent
    return rows


def fills_second_cache(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where the rule of rows beside the second cache says so, of one run of rows."""
    if shape.m is None or not k:
        return False
    a = _walked(shape.a, shape.m, k, shape.columns)
    size = a.side * a.depth * a.width
    return rows_fill_second_cache(a, size, machine.l2_bytes, machine.l3_bytes, USUAL)


def wants_packed_b(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where the rule of columns says so."""
    if shape.n is None or not k:
        return False
    if turns_columns(shape, machine) or (has_many(shape) and _comes_in_short_runs(shape, k)):
        return True
    is_far = machine.has_far_third_cache
    if is_far and (_takes_lines_again(shape, k, machine) or _takes_pages_again(shape, k)):
        return True
    if _crowds_sets(shape, k, machine):
        return True
    return packs_columns(_walked(shape.b, shape.n, k, shape.rows), machine.l1_bytes, USUAL)


def _takes_lines_again(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where no columns and no sums of B are adjacent, so that the lines they lie in fill half
    of the second cache, and some panels of rows meet them. Asked where the third cache is far.

    Measured on Golden Cove: 0.53 to 1.17 of the time in FP64; shorter sums of FP32 took up to 1.75.
    """
    if shape.m is None:
        return False
    b, depth = shape.b, extent_of(k)
    if b.data_type.width < _WIDE and depth < _FEWEST_OF_NARROW:
        return False
    assert shape.n is not None
    apart = min(axis.stride(b.name) for axis in (shape.n, *shape.n_outer, *k))
    lines_bytes = shape.columns * depth * min(apart, LINE_BYTES)
    is_apart = apart > b.data_type.width and 2 * lines_bytes >= machine.l2_bytes
    return is_apart and _panels(shape, machine) >= 2


def _takes_pages_again(shape: ProductShape, k: Sequence[Span]) -> bool:
    """True where outer columns are adjacent in B and each of them meets more pages than tables of
    addresses hold: the steps of the other columns and of the sums all are pages. Asked where the
    third cache is far.

    Measured on Golden Cove, drawn ones: C128 0.36 of the time in the mean (0.19 to 1.07), FP64 0.61
    (0.19 to 1.09); two threads 0.45 and 0.77 (0.17 to 1.39).
    """
    assert shape.n is not None
    if extent_of(k) < _FEWEST_OF_PAGES:
        return False
    steps = (shape.n, *k)
    if any(axis.stride(shape.b.name) <= shape.b.data_type.width for axis in steps):
        return False
    far = [axis for axis in steps if axis.stride(shape.b.name) >= PAGE_BYTES]
    return extent_of(far) >= _MANY_PAGES


def _crowds_sets(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where all columns and sums of B lie in so few sets of the first cache that it loses
    lines before the next panel of rows meets them, as strides of powers of two do."""
    assert shape.n is not None
    steps = (shape.n, *k)
    apart = gcd(PAGE_BYTES, *(axis.stride(shape.b.name) for axis in steps))
    if apart < _FEW_SETS_APART or _panels(shape, machine) < _PANELS_OF_FEW_SETS:
        return False
    ways = machine.l1_bytes // PAGE_BYTES
    return extent_of(steps) > PAGE_BYTES // apart * ways


def _panels(shape: ProductShape, machine: Machine) -> int:
    """Panels of rows that meet B."""
    if shape.m is None:
        return 1
    panel = machine.panel_rows(shape.b.data_type.accumulator.width)
    return extent_of(shape.m_outer) * -(-shape.m.extent // panel)


def has_many(shape: ProductShape) -> bool:
    """True where every element of both operands is read by so many columns or rows."""
    return shape.rows >= _MANY and shape.columns >= _MANY


def _comes_in_short_runs(shape: ProductShape, k: Sequence[Span]) -> bool:
    """True where the reductions walk B in runs of a few lines, far from each other."""
    kind = shape.b.data_type
    return kind.accumulator is kind and kind.width < column_run_bytes(shape, k) < _SHORT_RUN_BYTES


def column_run_bytes(shape: ProductShape, k: Sequence[Span]) -> int:
    """Bytes of B that lie together along the reductions; 0 where all of a column do."""
    run = shape.b.data_type.width
    for axis in reversed(k):
        if axis.stride(shape.b.name) != run:
            return run
        run *= axis.extent
    return 0


def _walked(tensor: Tensor, side: Span, k: Sequence[Span], readers: int) -> Walked:
    """How a block of reductions walks an operand."""
    strides = [axis.strides.get(tensor.name, 0) for axis in k]
    return Walked(
        side=side.extent,
        depth=extent_of(k),
        readers=readers,
        step=strides[-1],
        farthest=max(strides),
        apart=side.strides.get(tensor.name, 0),
        width=tensor.data_type.width,
    )


def fits_whole(shape: ProductShape, k: Sequence[Span], machine: Machine, times: int = 1) -> bool:
    """True where a reduction block of A takes at most half of L2 so many times."""
    step_bytes = extent_of(k) * shape.a.data_type.width
    return shape.rows * step_bytes <= times * machine.l2_bytes // 2


def is_read_across(shape: ProductShape, k: Sequence[Span], choice: Choice) -> bool:
    """True where blocks of rows each take a few elements of every line of A."""
    width, rows = shape.a.data_type.width, 1 if shape.m is None else shape.m.extent
    if shape.rows * extent_of(k) * width > _MOST_WHOLE_BYTES:
        return False
    for axis in reversed(shape.m_outer):
        if is_adjacent(axis, shape.a):
            taken = max(1, choice.row_block // rows) * width
            return taken < min(axis.extent * width, _PART_OF_A_LINE)
        rows *= axis.extent
    return False


def columns_stay(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where half of L2 holds a reduction block of B while every panel of A meets it.

    A panel then is packed when it is needed: it fits beside B, and the next one takes its place.
    Not where A comes from memory, which is read in longer runs, nor for types narrower than sums.
    """
    kind = shape.a.data_type
    size = shape.rows * extent_of(shape.k) * kind.width
    if size >= FROM_MEMORY * machine.l2_bytes or kind.accumulator is not kind:
        return False
    return shape.columns * extent_of(k) * kind.width <= machine.l2_bytes // 2


def packs_columns_when_met(
    shape: ProductShape, k: Sequence[Span], choice: Choice, machine: Machine
) -> bool:
    """True where each block of columns of B is packed just before the rows that meet it.

    All rows are packed together and the columns are walked once, so a block is read from the second
    cache, where it was written. Only lines are moved: what is turned is turned faster as a whole.
    """
    if shape.n is None or choice.packed_b is Packing.NONE or choice.order is not Order.COLUMNS:
        return False
    width = shape.b.data_type.width
    moves_lines = shape.n.stride(shape.b.name) == width
    is_far = shape.columns * extent_of(k) * width > machine.l2_bytes // 2
    return moves_lines and is_far and shape.rows <= choice.row_block


def asked_panel(shape: ProductShape, machine: Machine) -> int:
    """Rows of a panel that is read in place while the next one is asked for: lines, where vectors
    are shorter."""
    kind = shape.a.data_type
    lines = _ASKED_LINES_OF_A_SUM if len(shape.k) == 1 else _ASKED_LINES[kind]
    return lines * max(machine.vector_bytes, LINE_BYTES) // kind.width


def is_asked_for(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where a large A is as good in place as packed once its next rows are asked for.

    Its rows are adjacent and many, and all columns of a block stay in or near the second cache.
    Not where the third is far and every step of the sum is on another page, to where the hardware
    follows no stream: packed, such products took 0.84 of the time (Golden Cove, FP64).

    Where requests are kept and the third cache is near, rows from there gain too, and sums of one
    axis that is cut: on Zen 4, 66 to 500 columns, 0.69 to 1.1 of the time, 0.9 in the mean.

    Not in few registers: low panels wait for what they ask for, packed ones took 0.55 to 0.9 of
    the time (Zen 3).
    """
    if machine.has_few_registers:
        return False
    if shape.m is None or shape.n is None or shape.n_outer or not 1 <= len(shape.k) <= 3:
        return False
    kind = shape.a.data_type
    if kind not in _ASKED_LINES or shape.m.stride(shape.a.name) != kind.width:
        return False
    is_cut = extent_of(k) < extent_of(shape.k)
    if len(shape.k) == 1 and is_cut and not machine.keeps_near_requests:
        return False
    if machine.has_far_third_cache and shape.k[-1].stride(shape.a.name) >= PAGE_BYTES:
        return False
    panels = _ASKED_PANELS_OF_A_SUM if len(shape.k) == 1 else _ASKED_PANELS
    size = shape.rows * extent_of(shape.k) * kind.width
    columns = shape.n.extent * extent_of(k) * kind.width
    least = BEYOND_L2 if machine.keeps_near_requests else FROM_MEMORY
    is_far = size >= least * machine.l2_bytes and columns <= 5 * machine.l2_bytes // 4
    has_many = shape.m.extent >= panels * asked_panel(shape, machine)
    return is_far and has_many and shape.columns > FEW_COLUMNS
