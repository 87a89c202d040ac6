"""Columns of results that follow one another, where there are few registers.

    out[n, m] = sum of A[k, m] * B[k, n], m = 24 numbers of FP64

    for two vectors of m: for six n        64 bytes of each of six columns, 192 bytes apart
    for two n: all six vectors of m        384 bytes in a row

Memory takes what is written in order as it comes, without a request for its lines.
"""

from __future__ import annotations

from teir.lower.contraction_tile import ContractionTile
from teir.lower.gemm_axes import GemmAxes
from teir.target import MANY_REGISTERS, VECTORS_IN_A_ROW, Isa

STAGGERED = range(8, 129)
"""Products per result with which storing a block is a noticeable part of its time.

Not where A comes from memory: it is read once more for the last steps, column after column.
"""


def follow_in_a_row(tile: ContractionTile, axes: GemmAxes, isa: Isa) -> bool:
    """True for short sums from zero, in few registers, whose columns are some whole vectors that
    follow one another and are asked for: a block takes whole columns, as many as registers hold,
    and asks for nothing.

    Measured on Zen 3, beside blocks of two vectors that ask for their results: 0.7 to 0.9 of the
    time.
    """
    if isa.vector_registers >= MANY_REGISTERS or not tile.from_zero:
        return False
    if len(tile.reductions) != 1 or tile.products not in STAGGERED:
        return False
    rows_bytes = axes.lanes.extent * tile.out_type.width
    vectors, left = divmod(rows_bytes, isa.vector_bytes)
    is_run = axes.columns.strides[2] == rows_bytes and left == 0 and vectors in VECTORS_IN_A_ROW
    is_far = not tile.hints.streams and tile.hints.prefetched == (False, False, True)
    return is_run and axes.columns.extent > 1 and is_far
