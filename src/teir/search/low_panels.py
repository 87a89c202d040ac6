"""Rows in place whose low panels leave the first cache, where there are few vector registers.

    in place                                packed
    for every panel of A                    for every panel of A
      for every register block of columns     copy A[panel, k] side by side
        C[panel, columns] += ...              for every register block of columns
                                                C[panel, columns] += ...

Blocks of two vectors and six columns read every vector of A after few products, and a panel of two
short vectors takes one line or two of each step of the sum, the part of a line that it does not
multiply with too. A copy is half as large, its vectors cross no lines, and it comes from the second
cache as a stream. Measured on Zen 3 (16 registers of 32 bytes), sums of 24 to 800 products of 48
to 1000 rows and 8 to 150 columns: panels beyond half of the first cache 0.58 to 1.0 of the time in
FP64 and 0.60 to 1.0 in FP32 from so many readers on, 1.0 to 1.3 of fewer; class c up to 0.55.

Columns of one register block stay in the first cache while all panels of a block of rows meet
them, a stream from the second cache (the loop nest of Goto and van de Geijn, ACM TOMS 34, 2008,
with rows and columns changed):

    for blocks of rows that half of the second cache holds: pack A[rows, k]
      for the columns of one register block
        for every panel of the rows
          C[panel, columns] += ...

Beside more columns that pass by for every panel: class c 0.58 to 1.0 of the time in FP64.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.passes.extents import even_block
from teir.passes.line_sets import lines_of_step
from teir.search.choice import Choice, Order, Packing
from teir.search.machine import Machine
from teir.search.packed_operands import columns_stay, is_read_across
from teir.search.reductions import reductions_of
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span, is_adjacent
from teir.target import LINE_BYTES, PAGE_BYTES

_READER_BYTES = 192
"""Columns that repay a copy, times the bytes of a number: 48 of FP32, 24 of FP64."""
_LARGE_SIZES, _READER_BYTES_OF_LARGE = 1.5, 128
"""First caches that a panel fills, and the same for those."""
_COLUMN_PART = 8
"""Of the first cache, that a column of a reduction block takes, at most half more."""
_ROWS_PART = 2
"""Of the second cache, that a block of rows takes."""
_FEW_BLOCKS, _BLOCKS_BESIDE = 4, 6
"""Blocks of rows up to which they are packed whole, and register blocks of columns beside them."""
_FAR_COLUMNS = 2
"""Second caches that columns fill before it is better to bring them for more rows at once."""
_READERS_OF_COLUMNS, _READERS_OF_PAGES = 100, 32
"""Rows that repay a copy of columns whose sums are not adjacent, and of those whose steps are whole
pages, which meet in a few sets of every cache: 0.5 to 1.0 of the time."""
_MEASURED = (DataType.FP32, DataType.FP64)


def gains_in_low_panels(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True for adjacent rows of plain numbers that enough columns meet, in panels that leave half
    of the first cache."""
    kind, rows = shape.a.data_type, shape.m
    if not machine.has_few_registers or rows is None or not k:
        return False
    if kind not in _MEASURED or shape.out.data_type is not kind or not is_adjacent(rows, shape.a):
        return False
    panel_bytes = min(rows.extent, machine.panel_rows(kind.width)) * kind.width
    step_bytes = k[-1].stride(shape.a.name)
    lines = lines_of_step(-(-panel_bytes // LINE_BYTES), step_bytes)
    size_bytes = extent_of(k) * lines * LINE_BYTES
    if 2 * size_bytes <= machine.l1_bytes:
        return False
    is_large = size_bytes > _LARGE_SIZES * machine.l1_bytes
    least = _READER_BYTES_OF_LARGE if is_large else _READER_BYTES
    return shape.columns * kind.width >= least


def suits_low_panels(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True for packed rows of plain numbers beside more columns than the second cache keeps.

    And of rows that are gathered: a panel takes a few numbers of every line (0.3 of the time).
    """
    kind = shape.a.data_type
    if not machine.has_few_registers or shape.m is None or shape.n is None:
        return False
    is_plain = kind in _MEASURED and shape.out.data_type is kind
    is_gathered = not is_adjacent(shape.m, shape.a)
    return is_plain and (is_gathered or not columns_stay(shape, k, machine))


def low_panels_choice(choice: Choice, shape: ProductShape, machine: Machine) -> Choice:
    """``choice`` with columns of one register block that meet a block of rows.

    All rows beside some more columns where they are few, so that the columns are walked once; more
    rows, too, where the columns come from beyond the second cache as they lie: 0.92 to 1.0 of the
    time, but 1.5 where they are near.
    """
    width = shape.a.data_type.width
    depth = min(choice.depth, machine.l1_bytes // _COLUMN_PART // width)
    k = reductions_of(shape, depth).block
    column_bytes = extent_of(k) * width
    rows = max(1, machine.l2_bytes // _ROWS_PART // (choice.panel * column_bytes)) * choice.panel
    packed_b = _packed_columns(choice, shape, k, machine)
    are_few = shape.rows <= _FEW_BLOCKS * rows
    size_bytes = shape.columns * column_bytes
    are_far = packed_b is Packing.NONE and size_bytes > _FAR_COLUMNS * machine.l2_bytes
    leave = shape.rows > rows
    choice = replace(choice, row_block=rows * (_FEW_BLOCKS if leave and are_far else 1))
    is_whole = are_few or is_read_across(shape, k, choice)
    has_several = packed_b is Packing.BLOCKS or (leave and (are_few or are_far))
    return replace(
        choice,
        packed_a=Packing.WHOLE if is_whole else Packing.BLOCKS,
        packed_b=packed_b,
        order=Order.COLUMNS,
        depth=depth,
        column_block=_columns(choice.panel, has_several, shape, machine),
        streams=False,
        prefetches_out=False,
        prefetches_packed=False,
    )


def _packed_columns(
    choice: Choice, shape: ProductShape, k: Sequence[Span], machine: Machine
) -> Packing:
    """Whole where enough rows read columns whose sums are not adjacent; some at a time where they
    fit beside all rows. Rows that fit without them walk the columns once: as they lie, but for
    steps of pages."""
    width = shape.a.data_type.width
    step_bytes = k[-1].stride(shape.b.name) if k else 0
    readers = _READERS_OF_COLUMNS if step_bytes % PAGE_BYTES else _READERS_OF_PAGES
    if step_bytes <= width or shape.rows < readers:
        return choice.packed_b
    room = machine.l2_bytes // _ROWS_PART // (extent_of(k) * width)
    beside = _BLOCKS_BESIDE * machine.columns_in_few(machine.panel_vectors)
    if shape.rows + beside <= room:
        return Packing.BLOCKS
    walks_once = shape.rows <= room and step_bytes % PAGE_BYTES > 0
    return choice.packed_b if walks_once else Packing.WHOLE


def _columns(panel: int, has_several: bool, shape: ProductShape, machine: Machine) -> int:
    """Columns of one register block, as wide as divides them; of several where it
    ``has_several``, and for panels of several register blocks."""
    assert shape.n is not None
    extent = shape.n.extent
    lanes = machine.lanes(shape.out.data_type.width)
    # The mask of part of a vector takes the place of a column.
    widest = machine.columns_in_few(-(-panel // lanes)) - (panel % lanes > 0)
    if has_several or panel > machine.highest_block * lanes:
        return even_block(extent, _BLOCKS_BESIDE * widest, widest)
    return next((size for size in (widest, widest - 1) if extent % size == 0), min(extent, widest))
