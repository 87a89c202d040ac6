"""How many coordinates of every fibre are walked before the others: the rule, by numbers alone.

So that programs that are cut (`teir.passes.gathered_parts`) and the prediction that ranks them
before (`teir.search.sparse.predicted`) agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from teir.passes.cache_blocks import is_third_cache_far
from teir.passes.facts import Facts
from teir.target import LINE_BYTES

_MOST_THREADS = 2
_SHARED_MOVES = 10
"""Times as much moving a result counts where threads share the rows: in every part another one may
have them. Two threads took 0.77 to 1.0 of the time where all parts moved a hundredth of what they
gathered, 1.14 and more where they moved seven hundredths."""
_LEAST_GATHERS = 16
"""Gathers of a row, on average."""
_PART_BYTES = 640
"""Gathered at least for a part of a fibre, on average, where parts fill half the second cache, and
as much more as its result moves: where that is 128, parts of 430 to 680 took 1.0 to 1.5 of the
time, of 1000 0.95 to 1.0, of 1840 0.87; where nothing is moved, of 430 1.02, of 680 0.89, of 1840
0.67."""
_SHARES = ((8, 1.25), (15, 2.5))
"""Sixteenths of the second cache that a part fills, and the most elements formed for all parts over
those gathered. Half of the cache: 0.5 took 0.57 of the time, 1.1 0.74, and 4.5 1.07; nearly all of
it, with half as many parts: 2.2 took 0.95."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarRows:
    """The ``rows`` of an operand, of ``row_bytes`` each, that all fibres gather ``gathers`` times.

    ``elements``: formed by all gathers. ``formed``: formed besides by one walk over all fibres,
    which moves ``moved_bytes`` of results.
    """

    row_bytes: int
    rows: int
    gathers: float
    fibres: float
    elements: float
    formed: float
    moved_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCache:
    """Bytes of the second cache that parts fill, and the threads that walk them together."""

    l2_bytes: int
    threads: int


def part_cache(facts: Facts) -> PartCache | None:
    """None where parts pay nowhere.

    One thread lists what a part holds, however many wait for it.
    """
    is_far = is_third_cache_far(facts.l2_bytes, facts.l3_bytes)
    if facts.threads > _MOST_THREADS or facts.vector_bytes != LINE_BYTES or not is_far:
        return None
    return PartCache(l2_bytes=facts.l2_bytes, threads=facts.threads)


def coordinates_of_part(far: FarRows, cache: PartCache) -> int | None:
    """The coordinates of a part; None where parts do not pay."""
    l2_bytes, size_bytes = cache.l2_bytes, far.rows * far.row_bytes
    if 2 * size_bytes < 3 * l2_bytes or far.gathers < _LEAST_GATHERS * far.rows:
        return None
    moved_bytes = far.moved_bytes * (_SHARED_MOVES if cache.threads > 1 else 1)
    part_bytes = _PART_BYTES * far.fibres + moved_bytes
    if ceil(size_bytes / (l2_bytes // 2)) * part_bytes > far.gathers * far.row_bytes:
        return None
    for share, most_work in _SHARES:
        parts = -(-size_bytes // (l2_bytes * share // 16))
        if parts * far.formed <= most_work * far.elements:
            return -(-far.rows // parts)
    return None
