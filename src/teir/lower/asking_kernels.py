"""The kernels that ask for memory that is read later, as values (see `kernels`)."""

from __future__ import annotations

import msgspec


class BringLines(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Asks for lines of memory that are read soon, so that they come into a near cache.

    It changes no value, and the addresses need not exist.

    Operands: what is read soon, a mark, and where the mark began; the first line lies as far beyond
    the first operand as the mark has moved. Arguments, in order, all counts at least 1: l, l_step,
    m, m_step, n, n_step: a line at every one of l x m x n places, so many bytes apart.
    """


class BeginAsking(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Lays down in a cell what register blocks that ask are to ask for: a region read later.

    It changes no value, and the addresses need not exist.

    Operands: the region, the cell, and the cell they ask from when nothing of the region is left,
    or the same one; cells are `CELL_BYTES` long. Arguments, in order, all counts at least 1:
    run_bytes, m, m_step, n, n_step: n x m runs of so many bytes, so many bytes apart.
    """


CELL_BYTES = 128
"""A cell that says what to ask for."""
