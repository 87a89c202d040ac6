"""How large blocks are and which operands are packed: the rules of the passes and of the search.

Rules by numbers alone, so that a program written block by block (`teir.search`) and one that is
cut afterwards (`teir.passes`) end with the same blocks. Sums are kept in registers over as many
products as possible: what a longer panel costs in the caches near the core is less than reading and
writing the partial sums of the output again.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.dtypes import DataType

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


def reduction_depth(out: DataType) -> int:
    """Products after which a sum is cut; narrow outputs are cut less: a cut needs a wide sum."""
    if out.accumulator is not out:
        return _NARROW_DEPTH
    return min(_DEPTH, _COLUMN_BYTES // out.width)


def panel_rows(vector_bytes: int, width: int) -> int:
    """Rows of a packed panel: four vectors of accumulators ``width`` bytes wide."""
    return max(4, 4 * vector_bytes // max(width, 4))


def most_rows(row_bytes: int, panel: int, l2_bytes: int) -> int:
    """Rows packed together: a panel at a time comes from the second cache, the rest waits in L3.

    ``row_bytes`` are those of one row of a reduction block.
    """
    return max(panel, 2 * l2_bytes // row_bytes)


def most_columns(column_bytes: int, l2_bytes: int) -> int:
    """Columns that a quarter of the second cache holds."""
    return max(FEWEST_COLUMNS, l2_bytes // 4 // column_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """From where on a copy pays.

    A stride of ``far_bytes`` touches a new page or cache set at every step. Operands of fewer than
    ``elements`` elements, or read by fewer than ``readers`` rows or columns, are not worth a copy.
    """

    far_bytes: int = 2048
    elements: int = 64
    readers: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """How the reductions of a block walk an operand, strides in bytes.

    ``side`` and ``depth`` are the indices of its rows (columns) and of its reductions, ``readers``
    those of the other operand that read each element. ``step`` is the stride of the innermost
    reduction, ``farthest`` the largest of all. ``is_adjacent``: elements of a side lie together.
    """

    side: int
    depth: int
    readers: int
    step: int
    farthest: int
    is_adjacent: bool
    width: int


def packs_lanes(a: Walked, l1_bytes: int, worth: Worth) -> bool:
    """True when the lanes are not adjacent, or the rows lie far apart and are read often."""
    if a.side * a.depth < worth.elements or min(a.side, a.depth) < 2:
        return False
    if not a.is_adjacent:
        return True
    is_big = a.side * a.depth * a.width > l1_bytes
    return is_big and a.readers >= 2 * worth.readers and a.farthest >= worth.far_bytes


def packs_columns(b: Walked, worth: Worth) -> bool:
    """True when the reductions take long strides and many rows read them."""
    if b.step <= b.width or b.side * b.depth < worth.elements:
        return False
    if not b.is_adjacent:
        return b.readers >= worth.readers
    is_read_often = b.readers >= 2 * worth.readers and b.depth >= worth.elements
    return b.step >= worth.far_bytes and is_read_often
