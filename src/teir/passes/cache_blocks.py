"""How large blocks are and which operands are packed: the rules of the passes and of the search.

Rules by numbers alone, so that a program written block by block (`teir.search`) and one that is
cut afterwards (`teir.passes`) end with the same blocks. Sums are kept in registers over as many
products as possible: what a longer panel costs in the caches near the core is less than reading and
writing the partial sums of the output again.
"""

from __future__ import annotations

import msgspec

from teir.dtypes import DataType
from teir.target import MANY_REGISTERS, PAGE_BYTES

FEWEST_COLUMNS = 12
"""The fewest columns of a block that is not packed."""
TURNING_SIDE = 64
"""Elements of one side of a transposing tile."""
WHOLE_PERMUTATION_BYTES = 8 << 20
"""Permutations of so many bytes are one tile, which the lowering cuts."""

_DEPTH = 800
_COLUMN_BYTES = 4096
"""Bytes of one column of a reduction block: some columns of B stay near the first cache."""
_NARROW_DEPTH = 2048
_WIDE = 8
"""Bytes of elements of which few share a line: fewer readers repay a copy of what lies far."""
_ALWAYS = 64
"""Times the usual readers from which a copy costs nothing."""
_CROWDED = 4
"""Columns that whole pages separate share one set of the first cache: more of them leave too few
ways for the rest."""
_MANY_WAYS = 12
"""Ways in which the columns of a register block stay beside what else they meet. A first cache
finds its sets by places in a page, so it has a way for every page. Measured on Golden Cove (12
ways), products of n x n: without a copy FP64 512 takes 4 % less time, FP32 1024 4 %, FP64 1024 1 %,
and FP64 1536 1 % more.
"""
_REPAYING = 24
"""Times the usual readers from which a copy is repaid even so."""

_LARGE_SECOND_CACHE = 2 << 20
_FAR_THIRD = 32
"""A second cache of at least so many bytes, beside a third of more than so many times its size, is
that of a server whose cores share the third over a mesh: far, and slow to read for one of them.
Measured on Golden Cove (105 MB beside 2 MB: 20 GB/s a core from the third, 10 from memory)."""
_NEAR_STRIDE_BYTES = 1024
_LARGE_PART = 8
"""Where the third cache is far: rows so far apart, of an operand that takes at least this part of
the second cache, are packed. Vectors that cross lines take two loads each."""
NEAR_PART = 8
"""Of the second cache: rows that stay in it while few columns at a time meet them.

Measured on Golden Cove, 1024 x 1024 x 256 in blocks of 32, beside an eighth: a quarter takes 0 to
1 % longer, a half 3 to 4 %.
"""
_REGISTER_COLUMNS = {1: 16, 2: 13, 3: 9}
_TALL_COLUMNS = 6
"""Columns of a register block by its vectors; and of one four vectors high."""
MOST_TOGETHER = 16
"""Columns of a register block: so few lie side by side whichever way they lay before."""


def is_third_cache_far(l2_bytes: int, l3_bytes: int) -> bool:
    """True where what the second cache loses is worth asking for again in time."""
    return l2_bytes >= _LARGE_SECOND_CACHE and l3_bytes > _FAR_THIRD * l2_bytes


def reduction_depth(out: DataType) -> int:
    """Products after which a sum is cut; narrow outputs are cut less: a cut needs a wide sum."""
    if out.accumulator is not out:
        return _NARROW_DEPTH
    return min(_DEPTH, _COLUMN_BYTES // out.width)


def panel_vectors(registers: int) -> int:
    """Vectors of a packed panel, as high as a block of six columns whose sums stay in registers."""
    return 4 if registers >= MANY_REGISTERS else 2


def panel_rows(vector_bytes: int, registers: int, width: int) -> int:
    """Rows of a packed panel of accumulators ``width`` bytes wide, in so many vector registers."""
    return max(4, panel_vectors(registers) * vector_bytes // max(width, 4))


def most_rows(row_bytes: int, panel: int, l2_bytes: int) -> int:
    """Rows packed together: a panel at a time comes from the second cache, the rest waits in L3.

    ``row_bytes`` are those of one row of a reduction block.
    """
    return max(panel, 2 * l2_bytes // row_bytes)


def most_columns(columns: int, column_bytes: int, l2_bytes: int) -> int:
    """All columns where half of the second cache holds them: A is walked once. Else a quarter."""
    if columns * column_bytes <= l2_bytes // 2:
        return columns
    return max(FEWEST_COLUMNS, l2_bytes // 4 // column_bytes)


class Worth(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """From where on a copy pays.

    A stride of ``far_bytes`` touches a new page or cache set at every step. Operands of fewer than
    ``elements`` elements, or read by fewer than ``readers`` rows or columns, are not worth a copy.
    """

    far_bytes: int = 2048
    elements: int = 64
    readers: int = 64


USUAL = Worth()


class Walked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the reductions of a block walk an operand, strides in bytes.

    ``side`` and ``depth`` are the indices of its rows (columns) and of its reductions, ``readers``
    those of the other operand that read each element. ``step`` is the stride of the innermost
    reduction, ``farthest`` the largest of all, ``apart`` the stride from one index of the side to
    the next, ``width`` that of an element.
    """

    side: int
    depth: int
    readers: int
    step: int
    farthest: int
    apart: int
    width: int


def is_worth_packing(a: Walked, worth: Worth) -> bool:
    """True for enough rows and reductions for a copy to pay."""
    return a.side * a.depth >= worth.elements and min(a.side, a.depth) >= 2


def packs_lanes(a: Walked, l1_bytes: int, worth: Worth) -> bool:
    """True when the lanes are not adjacent, or the rows lie far apart and are read often.

    Few lanes that are not adjacent are copied too where many columns read them: single elements, or
    lanes along the columns, whose results lie apart, took 1.4 to 2 times as long on Zen 4.
    """
    if a.apart != a.width:
        is_read_often = a.readers >= worth.readers and min(a.side, a.depth) >= 2
        return is_read_often or is_worth_packing(a, worth)
    if not is_worth_packing(a, worth):
        return False
    is_big = a.side * a.depth * a.width > l1_bytes
    is_wide = a.width >= _WIDE and a.step >= worth.far_bytes
    least = worth.readers * (1.5 if is_wide else 2)
    far = worth.far_bytes // (2 if a.readers >= _ALWAYS * worth.readers else 1)
    return is_big and a.readers >= least and a.farthest >= far


def rows_fill_second_cache(
    a: Walked, size_bytes: int, l2_bytes: int, l3_bytes: int, worth: Worth
) -> bool:
    """True for rows in short runs that many columns read, of ``size_bytes`` in all that count
    beside the second cache, where the third is far.

    Read in place they are nearly as good: no reason to lay operands otherwise.
    """
    if not is_third_cache_far(l2_bytes, l3_bytes) or _LARGE_PART * size_bytes < l2_bytes:
        return False
    is_read_often = a.readers >= 2 * worth.readers and is_worth_packing(a, worth)
    return is_read_often and a.farthest >= _NEAR_STRIDE_BYTES


def packs_columns(b: Walked, l1_bytes: int, worth: Worth) -> bool:
    """True when the reductions take long strides, or columns meet in a cache set, for many rows."""
    if b.apart % PAGE_BYTES == 0 and b.step <= b.width and b.readers >= 8 * worth.readers:
        is_tight = l1_bytes < _MANY_WAYS * PAGE_BYTES or b.readers >= _REPAYING * worth.readers
        return is_tight and b.side > _CROWDED and b.depth >= worth.elements
    if b.step <= b.width or b.side * b.depth < worth.elements:
        return False
    if b.apart != b.width:
        return b.readers >= worth.readers
    is_read_often = b.readers >= 2 * worth.readers and b.depth >= worth.elements
    return b.step >= worth.far_bytes and is_read_often


def register_columns(vectors: int) -> int:
    """Columns of a register block of so many vectors, where there are many registers."""
    return _REGISTER_COLUMNS.get(vectors, _TALL_COLUMNS)


def near_rows(row_bytes: int, l2_bytes: int) -> int:
    """Rows, or tiles of them, of ``row_bytes`` each that stay in the second cache."""
    return max(1, l2_bytes // NEAR_PART // row_bytes)


def packs_few_columns(b: Walked, l2_bytes: int, l3_bytes: int, worth: Worth) -> bool:
    """True for the columns of one register block in short pieces, where the third cache is far.

    Each piece is a stream of its own. Side by side all are one, which can be asked for ahead.
    """
    if not is_third_cache_far(l2_bytes, l3_bytes) or not 2 <= b.side <= MOST_TOGETHER:
        return False
    is_read_often = b.readers >= 8 * worth.readers and b.depth >= 2 * worth.elements
    return is_read_often and b.farthest >= _NEAR_STRIDE_BYTES
