"""Orders of loops that respect which index of a stored tensor comes before which."""

from __future__ import annotations

from collections.abc import Iterator

from teir.search.sparse.space import BitPairs, Bits, Mask

Prefixes = tuple[tuple[Mask, tuple[Bits, ...]], ...]
"""Sets of loops, each with the orders it may have."""


class LoopOrders:
    """The orders asked for, each question answered once."""

    def __init__(self) -> None:
        self._orders: dict[tuple[Mask, BitPairs], tuple[Bits, ...]] = {}
        self._prefixes: dict[tuple[Mask, Mask, BitPairs], Prefixes] = {}

    def valid(self, loops: Mask, pairs: BitPairs) -> tuple[Bits, ...]:
        """All orders of ``loops`` in which the first of every pair comes first."""
        key = (loops, pairs)
        if key not in self._orders:
            self._orders[key] = tuple(orders_of(loops, pairs)) if loops else ()
        return self._orders[key]

    def common(self, loops: Mask, shared: Mask, pairs: BitPairs) -> Prefixes:
        """The longest prefixes of ``shared`` loops over all valid orders of ``loops``."""
        key = (loops, shared, pairs)
        known = self._prefixes.get(key)
        if known is None:
            found: dict[Mask, list[Bits]] = {}
            for prefix in _prefixes(loops, shared, pairs, ()):
                found.setdefault(sum(prefix), []).append(prefix)
            known = self._prefixes[key] = tuple((mask, tuple(found[mask])) for mask in found)
        return known


def _free(left: Mask, pairs: BitPairs) -> list[int]:
    """The loops that may come next."""
    blocked = 0
    for before, after in pairs:
        if before & left:
            blocked |= after
    bits = left & ~blocked
    return [1 << place for place in range(bits.bit_length()) if bits >> place & 1]


def orders_of(left: Mask, pairs: BitPairs) -> Iterator[Bits]:
    """The orders of loops in which the first of every pair comes first, one after the other."""
    if not left:
        yield ()
    for bit in _free(left, pairs):
        for rest in orders_of(left & ~bit, pairs):
            yield (bit, *rest)


def _prefixes(left: Mask, shared: Mask, pairs: BitPairs, prefix: Bits) -> Iterator[Bits]:
    """Sequences of shared loops that some valid order starts with and does not continue."""
    free = _free(left, pairs)
    if not left or any(not bit & shared for bit in free):
        yield prefix
    for bit in free:
        if bit & shared:
            yield from _prefixes(left & ~bit, shared, pairs, (*prefix, bit))
