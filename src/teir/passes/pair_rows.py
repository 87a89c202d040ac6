"""Rows of BF16 products that are formed two steps at a time: pairs of vectors."""

from __future__ import annotations

TWO_VECTORS = 32
"""Rows of a pair of vectors of FP32 sums."""
_LEAST_BESIDE_REST = 2


def rows_left_over(rows: int) -> int:
    """Rows of a tile that are formed otherwise: those that fill no pair of vectors, and a pair with
    them, for eight rows alone take as long as sixteen; all where that leaves fewer than two pairs.

    104 -> 40 (64 in pairs);  90 -> 90;  96 -> 0
    """
    if rows % TWO_VECTORS == 0:
        return 0
    pairs = rows // TWO_VECTORS - 1
    return rows - pairs * TWO_VECTORS if pairs >= _LEAST_BESIDE_REST else rows
