"""What the panels of a tile ask for of the next tile's A: each a share, a few lines at a time.

    loop over blocks of columns                     PanelBlock (all blocks; every four steps asks
      PanelBlock (the first one asks for a row   ->   for some lines of its share of the rows)
                  of its own beside every step)

A core waits for lines of a far cache, or of memory, in the buffers that its loads need: asked for
by the first block alone, the lines of a panel keep those waiting. And a panel's part of a row is
a few lines, where whole rows, one after the other, are what the hardware follows. Measured on
Golden Cove, one thread, A of 13 to 66 MB: 0.84 to 1.04 of the time, 0.93 in the mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from teir.lower.axes import TileAxis
from teir.lower.kernel_program import Call
from teir.lower.kernels import PANEL_STEPS, PanelBlock
from teir.target import LINE_BYTES

_MOST_PANELS = 8
"""Panels of a tile up to which each has a call of its own."""
_MOST_LINES = 8
"""Lines beside four steps from which on all at once is as good."""
_TALL_COLUMNS = 6
_A_AHEAD = 7
"""The place of ``a_ahead`` among the arguments of a `PanelBlock`."""


class Share(msgspec.Struct, frozen=True, gc=False):
    """Some rows of the next tile's A, a row for each step of the sum: ``steps`` from ``first`` on,
    of ``row_bytes`` each. ``start_bytes``: where the panel that asks begins in a row."""

    first: int
    steps: int
    row_bytes: int
    start_bytes: int


def shares(k: int, row_bytes: int, starts_bytes: Sequence[int]) -> Iterator[Share]:
    """The share of every panel of a tile, which begin at ``starts_bytes`` in its rows; none where
    there are many panels, or more than steps of the sum."""
    panels = len(starts_bytes)
    if panels > min(_MOST_PANELS, k):
        return
    for number, start_bytes in enumerate(starts_bytes):
        first = number * k // panels
        yield Share(first, (number + 1) * k // panels - first, row_bytes, start_bytes)


def asking_columns(vectors: int, is_narrow: bool) -> int:
    """Columns of a block of so many vectors that asks, the last of them narrower or not.

    Of one more, the compiler, short of registers for places, keeps some sums on the stack.
    """
    return {1: 16, 2: 11, 3: 8}.get(vectors, _TALL_COLUMNS) - is_narrow


def asking_blocks(call: Call, axis: TileAxis, share: Share, most_products: int) -> Call | None:
    """The call that forms all blocks along ``axis`` and asks for the share beside them; None where
    the lines are no fewer at a time, or the call is longer than ``most_products``."""
    kernel, (k, a_k, *_) = call.kernel, call.arguments
    assert isinstance(kernel, PanelBlock)
    rounds = axis.extent * (k // PANEL_STEPS)
    lines = share.steps * (-(-share.row_bytes // LINE_BYTES) + 1)
    is_short = axis.extent * kernel.rows * kernel.columns * k <= most_products
    if not kernel.brings or axis.extent == 1 or lines > _MOST_LINES * rounds or not is_short:
        return None
    _, b_block, c_block = axis.strides
    arguments = list(call.arguments)
    arguments[_A_AHEAD] += share.first * a_k - share.start_bytes
    arguments += (share.steps * a_k, share.row_bytes, axis.extent, b_block, c_block)
    whole = replace(kernel, repeats=True, spreads=-(-lines // rounds))
    return replace(call, kernel=whole, arguments=tuple(arguments))
