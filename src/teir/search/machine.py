"""The facts of a machine the dense search looks at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Vector width and cache sizes of one core, in bytes, and the threads a program may use.

    A second thread is used where there are at least ``threaded_work`` products or elements.
    """

    vector_bytes: int
    l1_bytes: int
    l2_bytes: int
    threads: int
    threaded_work: int

    def lanes(self, width: int) -> int:
        """Accumulators ``width`` bytes wide in one vector."""
        return max(1, self.vector_bytes // width)

    def panel_rows(self, width: int) -> int:
        """Rows of a packed panel: four vectors of accumulators ``width`` bytes wide."""
        return max(4, 4 * self.vector_bytes // max(width, 4))
