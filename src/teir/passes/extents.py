"""How an extent is cut: exact splits by the rules of sections 5.5.2 and 5.5.4, and even blocks."""

from __future__ import annotations

from teir.ir.nodes import Role

_GRANULES: dict[Role, tuple[int, ...]] = {
    Role.M: (16, 12, 8, 2),
    Role.N: (4, 2),
    Role.K: (1,),
    Role.C: (1,),
}
"""Block sizes are multiples of the first of these that divides the extent well."""


def best_split(extent: int, role: Role, largest: int, smallest: int) -> tuple[int, int] | None:
    """(blocks, block) with blocks * block = extent, as ``findBestSplit`` chooses it.

    The block is at most ``largest``; both are at least ``smallest`` and more than 1. None where no
    such split exists.

        1600, M, largest 32, smallest 16      (50, 32)
        1600, M, largest 1024, smallest 16    (20, 80)
        1600, M, largest 1024, smallest 1     (2, 800)
    """
    fewest = max(2, smallest)
    for granule in _GRANULES[role]:
        for block in range(largest // granule * granule, granule - 1, -granule):
            if block < fewest:
                break
            if extent % block == 0 and extent // block >= fewest:
                return extent // block, block
    return None


def granule_of(role: Role) -> int:
    """The number of indices that suit the kernels best along this role."""
    return _GRANULES[role][0]


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
