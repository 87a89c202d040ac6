"""The lines a tile brings to the first cache, where rows are met by block after block of columns.

    for every panel of A             its lines stay while they find room in their sets
      for every block of columns     B comes again for every panel, C is brought and written

A cache of 12 ways has 64 sets, and lines 4096 bytes apart share one: a panel of 32 doubles whose
steps of the sum are 1024 bytes apart lies in a quarter of the sets. (Few columns outside the
panels, which keep B near instead, are no better: all of A comes again for each of them.) Measured
on Golden Cove, one thread, products of 56 to 400 rows and columns and 32 to 256 products per
result, 7 to 19 blocks of each: those chosen so take 1.0 % longer than the best and 8 % at worst,
those chosen by all lines alike 3 and 16 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.passes.line_sets import SETS, lines_of_step, lines_per_set
from teir.target import LINE_BYTES

_LOST_FROM, _LOST_AT = 8, 13
"""Lines of a set that a panel and what meets it take, of 12 a set holds, from which on some lines
of the panel are gone when the next columns meet them, and all: no cache knows exactly which line
it used last. Fitted with the costs below."""
_PANEL_LINE = 2.0
_COLUMN_LINE = 1.0
_RESULT_LINE = 14.0
"""Cost of a line of A that is brought again, of B, and of C, in loads and multiply-adds: results
are waited for, written, and lie apart."""

Pieces = tuple[int, int]
"""A size and how often it occurs."""


class PanelWalk(msgspec.Struct, frozen=True, gc=False):
    """``depth`` steps of a sum, ``step_bytes`` apart in A, over numbers of ``width`` bytes."""

    depth: int
    step_bytes: int
    width: int

    def cost(self, heights: Sequence[Pieces], widths: Sequence[Pieces]) -> float:
        """What the lines cost of a tile cut into panels of vectors and blocks of columns, both the
        larger ones first."""
        blocks = sum(count for _, count in widths)
        columns = sum(size * count for size, count in widths)
        lost = self._part_lost(heights[0][0], widths[0][0])
        total = 0.0
        for vectors, count in heights:
            again = lost * (blocks - 1) * self.depth * lines_of_step(vectors, self.step_bytes)
            near = columns * self.depth * self.width / LINE_BYTES
            results = columns * (vectors + 1)
            total += count * (_PANEL_LINE * again + _COLUMN_LINE * near + _RESULT_LINE * results)
        return total

    def _part_lost(self, vectors: int, columns: int) -> float:
        """The part of a panel's lines that makes room for others before it is met again."""
        near = columns * (self.depth * self.width / LINE_BYTES + vectors + 2) / SETS
        ways = lines_per_set(self.depth, self.step_bytes, vectors) + near
        return min(1.0, max(0.0, (ways - _LOST_FROM) / (_LOST_AT - _LOST_FROM)))
