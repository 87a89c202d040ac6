"""How an extent is cut: exact splits by the rules of sections 5.5.2 and 5.5.4, and even blocks."""

from __future__ import annotations

from functools import lru_cache

from teir.ir.nodes import Role

_GRANULES: dict[Role, tuple[int, ...]] = {
    Role.M: (16, 12, 8, 2),
    Role.N: (4, 2),
    Role.K: (1,),
    Role.C: (1,),
}
"""Block sizes are multiples of the first of these that divides the extent well."""

_FEW = 1024
"""Candidates that are tried one by one; among more, only divisors of the extent are."""

_MOST_TRIED = 1 << 16
"""Prime factors are looked for up to here; below its square all are found."""


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
        blocks = range(largest // granule * granule, max(granule, fewest) - 1, -granule)
        is_long = blocks.start > _FEW * granule
        for block in _divisors_among(extent, blocks) if is_long else blocks:
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
    counts = range(fewest, fewest + fewest // 3 + 2)
    for count in counts if fewest <= 3 * _FEW else _divisors_among(extent, counts):
        if extent % count == 0 and (extent // count) % granule == 0:
            return extent // count
    even = -(-extent // fewest)
    return max(granule, min(-(-even // granule), largest // granule) * granule)


def largest_divisor(extent: int, most: int) -> int:
    """The largest divisor of an extent up to ``most``, 1 at least."""
    return next(size for size in range(min(extent, max(1, most)), 0, -1) if extent % size == 0)


def uneven_block(extent: int, role: Role, largest: int, smallest: int) -> int | None:
    """A block of ``smallest`` to ``largest`` indices that leaves none or at least ``smallest``.

    The blocks suit the role as those of `best_split` where such ones do. None where no block does,
    or none among those that make the fewest blocks.

        34, M, largest 32, smallest 16    18, which leaves 16
        33, M, largest 24, smallest 8     24, which leaves 9
        33, M, largest 32, smallest 20    None
    """
    fewest = max(1, extent // largest)
    for granule in (*_GRANULES[role], 1):
        for count in range(fewest, min(extent // smallest, fewest + _FEW) + 1):
            for most in (-(-extent // count), (extent - smallest) // count):
                block = min(largest, most) // granule * granule
                left = extent % block if block >= smallest else -1
                if left == 0 or left >= smallest:
                    return block
    return None


def _divisors_among(extent: int, candidates: range) -> tuple[int, ...]:
    """The divisors of the extent that are candidates, in the order of these."""
    divisors = _divisors(extent)
    ordered = reversed(divisors) if candidates.step < 0 else divisors
    return tuple(one for one in ordered if one in candidates)


@lru_cache(maxsize=1024)
def _divisors(extent: int) -> tuple[int, ...]:
    """The divisors of the extent, ascending.

    What is left of an extent without its prime factors up to ``_MOST_TRIED`` counts as one prime:
    no plan could wait for the factors of a product of two larger ones.
    """
    divisors, left, factor = [1], extent, 2
    while factor * factor <= left and factor <= _MOST_TRIED:
        powers = [1]
        while left % factor == 0:
            left //= factor
            powers.append(powers[-1] * factor)
        if len(powers) > 1:
            divisors = [one * power for power in powers for one in divisors]
        factor += 1 + factor % 2
    if left > 1:
        divisors += [one * left for one in divisors]
    return tuple(sorted(divisors))
