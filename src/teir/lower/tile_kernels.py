"""The kernel that multiplies by the tile registers of a matrix unit."""

from __future__ import annotations

from enum import Enum

import msgspec

from teir.dtypes import DataType


class TileRows(Enum):
    """When a `TileProduct` interleaves rows of A, and in which order they meet columns."""

    PASSING = "passing"
    """A strip of rows at a time, for the columns that are copied together."""
    NEAR = "near"
    """All, once: they stay near while tiles of columns pass by."""
    FAR = "far"
    """All, once: they pass by the columns that are copied together, which stay near."""


class TileProduct(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """C[m, n] += sum over (outer, batch, k) of A[m, ...] * B[n, ...] by tiles of a matrix unit.

    Types are BF16, C may be FP32; rows are adjacent in C, and in A unless k is (``a_adjacent``).
    ``b_adjacent``: k is adjacent in B, else n is, and the other argument of the two is read.
    Subnormal numbers count as zero.

    A sum adds groups of 32 steps of k, each from zero: the even steps are one chain of fused
    multiply-adds, the odd steps another, and the two are added. C is added at the end.
    With ``copies`` columns of B are copied into the room, else they are read where they lie: k is
    adjacent and made of whole groups. Unless rows are PASSING the room holds all of them too.
    ``packs_pairs``: two tiles of rows are interleaved at a time, step by step, else a strip of
    them, 32 steps at a time. With ``asks`` a block asks for its results while it is summed, else
    for those of the next one while it is stored.

    Operands: A, B, C, room (`teir.lower.tile_room` says how large; nobody else uses it meanwhile).
    Arguments, in order: m, n, k, a_k, b_k, batch, a_batch, b_batch, outer, a_outer, b_outer, b_n,
    c_n, accumulate (1: add C, 0: C counts as zero), piece and a_piece (A lies in pieces of so many
    steps of k, so far apart; all of k, or an even number that divides it), m_outer, a_m_outer,
    c_m_outer (more rows), n_outer, b_n_outer, c_n_outer (more columns), a_m, the tiles of rows of
    a strip, which is an even number, and the tiles of columns that are copied together.
    """

    in_type: DataType
    out_type: DataType
    b_adjacent: bool
    copies: bool
    rows: TileRows = TileRows.PASSING
    a_adjacent: bool = False
    packs_pairs: bool = False
    asks: bool = False

    @property
    def keeps_rows(self) -> bool:
        """True where the room holds all rows."""
        return self.rows is not TileRows.PASSING
