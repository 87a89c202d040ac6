"""What the dense search decides about one matrix-like step, as a value.

A choice fixes loops, packing and stores; it never fixes the order of a sum, which is the order of
`ProductShape.k` whatever is chosen. So all choices of a step give the same bits, but for imaginary
parts of complex numbers where kernels take the factors the other way round.
"""

from __future__ import annotations

from enum import Enum

import msgspec


class Packing(Enum):
    """How much of an operand is copied into scratch, in the order the kernels read it."""

    NONE = "none"
    BLOCKS = "blocks"
    """Blocks of rows, each before the columns that meet it.

    Of B: blocks of columns, each before the rows that meet it, which are packed whole if at all.
    """
    WHOLE = "whole"
    """All rows or columns of a reduction block, before its loops."""


class Order(Enum):
    """Which loops are outside."""

    ROWS = "rows"
    COLUMNS = "columns"
    OUTPUT = "output"
    """The larger a loop's stride on the output, the further outside it is; but blocks of columns
    are innermost."""
    LINES = "lines"
    """As the output, with blocks of columns outside the loops that write other parts of lines."""


class Sharing(Enum):
    """Which loops the threads share, the batch axes apart."""

    NONE = "none"
    ROWS = "rows"
    COLUMNS = "columns"
    PARTS = "parts"
    """None: every thread does a part of the step alone."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The decisions of one step; rows are those of A, which carries the lanes.

    ``depth`` is the most products of a reduction block. ``panel`` is the rows of a packed panel,
    ``row_block`` the rows that are packed together, or of one tile where A is not packed.
    ``column_block`` is the columns of one tile. ``streams``: the output is written past the caches
    where its place allows. ``prefetches_a``, ``_b``, ``_out``: the next tile's part is asked for.
    ``prefetches_packed``: what is packed of A is asked for ahead of its copy.
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
    prefetches_packed: bool
