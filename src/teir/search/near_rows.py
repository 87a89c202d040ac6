"""Rows of A that stay in the second cache, met by few columns at a time, where the third is far.

    columns that stay                       rows that stay
    for every block of columns of B         for every block of rows: pack A[rows, k]
      for every panel of A                    for every few columns of B
        C[panel, columns] += ...                for every panel of the rows
                                                  C[panel, few columns] += ...

Both bring as many bytes from the second cache to the first. From the third come, on the left, a
panel of A again for every block of columns, all at once before the first of its products; on the
right, few columns of B at a time. Results are written through the caches: each run of them goes on
where the panel before ended. (The right one is the loop nest of Goto and van de Geijn, ACM TOMS 34,
2008, with rows and columns changed.) Measured on Golden Cove, one thread, FP64: 0.82 to 1.02 of the
time of products of 1024 to 1536 rows and columns and of sums of 121 to 2000 products with operands
in any order; sums of 64 took 1 to 9 % longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.passes.cache_blocks import NEAR_PART, register_columns
from teir.search.choice import Choice, Order, Packing
from teir.search.machine import Machine
from teir.search.packed_operands import fits_whole, wants_packed_b
from teir.search.packing import follow
from teir.search.panel_rows import suit_three_vectors
from teir.search.reductions import reductions_of
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span
from teir.target import LINE_BYTES

_DEPTH_BYTES = 6144
"""Bytes of a column of a reduction block, at most half more: more of them leave too few rows in the
second cache, fewer write the results once more."""
_FEWEST_PANELS = 4
"""Panels of four vectors from which on few columns, asked for by nobody, are used often enough."""
_FEWEST_READERS = 96
"""Columns that repay a copy of rows in any order."""
_FEWEST_PRODUCTS = 256
_LONG_RUN = 64
_LARGE_PART = 8
"""Sums, adjacent rows, and the part of the second cache they take, from which a copy is repaid."""
_LARGE_PART_APART, _APART_BYTES = 64, 2048
"""The same of rows so far apart, to which the first cache follows no stream: beside the line that
each shares with the next, which no later step reads. Sums of 300 to 1280 products, 96 to 200 rows:
0.83 to 0.95 of the time of rows that begin inside a line, as those of large arrays of NumPy do, and
1.03 to 1.10 of that of rows that begin with one."""
_LEAST_DEPTH = 128
"""Products of a reduction block that a panel of A leaves room for."""
_TALLEST = 4
_LINES = 3
_FAR_COLUMNS = 4
"""Lines of a step of the sum in columns that lay side by side before they were packed: shorter
pieces of them are copied slowly from beyond so many second caches. Else the columns of one register
block lie side by side, which is one stream. Measured as above, class b: 0.95 to 1.01 of the time.
"""
_EVEN = 4
"""Register blocks of columns up to which they are made of even width."""
_PLAIN = (DataType.FP32, DataType.FP64)


def gains_near(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True where long rows of plain numbers are read in place although many columns meet them.

    Their vectors cross lines, which takes two loads each. One thread, measured as above in FP64 and
    FP32, sums of 448 to 7296 products: 0.66 to 0.98 of the time; rows in runs of 40 took 7 % more.
    """
    kind = shape.a.data_type
    if shape.m is None or shape.c or machine.threads > 1 or not machine.has_far_third_cache:
        return False
    if kind not in _PLAIN or shape.out.data_type is not kind or not _has_runs(shape, k, machine):
        return False
    if shape.columns < _FEWEST_READERS:
        return False
    products = extent_of(k)
    size = shape.rows * products * kind.width
    are_apart = k[-1].stride(shape.a.name) >= _APART_BYTES
    part = _LARGE_PART_APART if are_apart else _LARGE_PART
    return products >= _FEWEST_PRODUCTS and part * size >= machine.l2_bytes


def _has_runs(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    assert shape.m is not None
    return shape.m.extent >= _LONG_RUN or _is_blocked(shape, k, machine)


def _is_blocked(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True for both operands and the output in short pieces: rows of some vectors, a panel at most,
    that do not follow one another in the output.

    Measured as above, 768 to 1280 rows and columns in blocks of 32, sums of 256 to 384 products:
    rows in place took 10 to 20 % more in FP32, and half of the second cache instead of an eighth up
    to 3 % more in FP32, 5 % in FP64. Long rows took up to 15 % more with an eighth, longer sums 2
    to 10 %.
    """
    if shape.m is None or not shape.m_outer or follow(shape.m_outer[-1], shape.m, shape.out.name):
        return False
    width, rows = shape.a.data_type.width, shape.m.extent
    lanes = machine.lanes(width)
    is_panel = rows % lanes == 0 and 2 * lanes <= rows <= machine.panel_rows(width)
    is_whole = extent_of(k) == extent_of(shape.k) and extent_of(k) * width <= _DEPTH_BYTES
    return is_panel and is_whole and wants_packed_b(shape, k, machine)


def rows_stay(choice: Choice, shape: ProductShape, machine: Machine) -> bool:
    """True for many panels of plain numbers where the third cache is far, unless all rows are
    near already and each block of columns is packed before them.

    A must be known to be packed, and its sums not to be short.
    """
    kind = shape.a.data_type
    if shape.n is None:
        return False
    if not machine.has_far_third_cache or kind not in _PLAIN or shape.out.data_type is not kind:
        return False
    is_low = choice.panel * 3 * _LEAST_DEPTH // 2 * kind.width <= machine.l2_bytes // 2
    if not is_low or shape.rows < _FEWEST_PANELS * machine.panel_rows(kind.width):
        return False
    k = reductions_of(shape, choice.depth).block
    return choice.packed_b is not Packing.BLOCKS or not fits_whole(shape, k, machine)


def near_rows_choice(choice: Choice, shape: ProductShape, machine: Machine) -> Choice:
    """``choice`` with blocks of rows that half of the second cache holds; an eighth where all lie
    in short pieces."""
    choice = replace(choice, panel=_panel(choice, shape, machine))
    depth, panel_bytes = _depth(choice, shape, machine)
    part_bytes = machine.l2_bytes // NEAR_PART
    k = reductions_of(shape, depth).block
    if part_bytes < _FEWEST_PANELS * panel_bytes or not _is_blocked(shape, k, machine):
        part_bytes = machine.l2_bytes // 2
    rows = max(1, part_bytes // panel_bytes) * choice.panel
    packed_b = Packing.NONE if choice.packed_b is Packing.NONE else Packing.WHOLE
    return replace(
        choice,
        packed_a=Packing.WHOLE if shape.rows <= rows else Packing.BLOCKS,
        packed_b=packed_b,
        order=Order.COLUMNS,
        depth=depth,
        row_block=rows,
        column_block=_columns(shape, choice.panel, packed_b, machine),
        streams=False,
    )


def _panel(choice: Choice, shape: ProductShape, machine: Machine) -> int:
    """Rows of a panel: four vectors where they divide the rows as three do.

    Fewer micro-operations a multiply-add. Measured as above beside three vectors, FP32 and FP64,
    products of 384 to 2304 rows and columns: 0.95 to 1.02 of the time, mostly 0.98.
    """
    lanes = machine.lanes(shape.a.data_type.width)
    is_three = choice.panel == 3 * lanes and not machine.has_few_registers
    if suit_three_vectors(shape, machine):
        return choice.panel
    if is_three and shape.m is not None and shape.m.extent % (_TALLEST * lanes) == 0:
        return _TALLEST * lanes
    return choice.panel


def _depth(choice: Choice, shape: ProductShape, machine: Machine) -> tuple[int, int]:
    """Products of a reduction block that leave room for a panel; and the bytes of one.

    Results beyond the second cache are brought and written again for every block: fewer, deeper
    ones took 0.84 to 1.03 of the time; of nearer results up to 1.14.
    """
    width = shape.a.data_type.width
    depth = _DEPTH_BYTES // width
    results = shape.rows * shape.columns * extent_of(shape.c) * shape.out.data_type.width
    if results < machine.l2_bytes:
        depth = min(choice.depth, depth)
    while True:
        products = extent_of(reductions_of(shape, depth).block)
        panel_bytes = products * width * choice.panel
        if panel_bytes <= machine.l2_bytes // 2 or depth <= _LEAST_DEPTH:
            return depth, panel_bytes
        depth = max(_LEAST_DEPTH, depth * 3 // 4)


def _columns(shape: ProductShape, panel: int, packed_b: Packing, machine: Machine) -> int:
    """Columns of one register block; of some side by side where lines of them are packed."""
    assert shape.n is not None
    width, extent = shape.b.data_type.width, shape.n.extent
    vectors = -(-panel // machine.lanes(width))
    columns = register_columns(_block_vectors(vectors))
    if machine.has_few_registers:
        columns = machine.columns_in_few(vectors)
    is_adjacent = packed_b is Packing.WHOLE and shape.n.stride(shape.b.name) == width
    size = shape.columns * extent_of(shape.k) * width
    is_far = size > _FAR_COLUMNS * machine.l2_bytes
    if is_adjacent and is_far:
        columns *= max(1, _LINES * LINE_BYTES // width // columns)
    if extent > _EVEN * columns:
        return columns
    return -(-extent // -(-extent // columns))


def _block_vectors(vectors: int) -> int:
    """Vectors of the register blocks that panels are cut into: four where three leave a rest."""
    tallest = _TALLEST if vectors % _TALLEST == 0 and vectors % 3 else 3
    return -(-vectors // -(-vectors // tallest))
