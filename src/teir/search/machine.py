"""The facts of a machine the dense search looks at, and the block sizes that follow from them."""

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

    def panel_rows(self, width: int) -> int:
        """Rows of a packed panel: four vectors of accumulators ``width`` bytes wide."""
        return max(4, 4 * self.vector_bytes // max(width, 4))


def even_block(extent: int, largest: int, granule: int = 1) -> int:
    """A block of at most ``largest`` indices (at least one granule) that cuts ``extent`` well.

    A block that divides the extent is preferred where it costs at most a third more blocks, else
    all blocks but the last are equal multiples of the granule.
    """
    if extent <= largest:
        return extent
    fewest = -(-extent // largest)
    for count in range(fewest, fewest + fewest // 3 + 2):
        if extent % count == 0 and (extent // count) % granule == 0:
            return extent // count
    even = -(-extent // fewest)
    return max(granule, min(-(-even // granule), largest // granule) * granule)
