"""A proof, without a solver, that one sum of products is never below another.

Every product of the smaller sum is covered by one of the larger sum that is at least as large:
symbols they share cancel, ``jpos`` cancels against ``j``, the rest is compared by the symbols'
bounds. A product of the larger sum covers as many as it is times larger.
"""

from __future__ import annotations

from math import inf

from teir.search.sparse.constraints import Bounds, Known
from teir.search.sparse.cost import FIBRE, Product, Sum


def never_below(large: Sum, small: Sum, known: Known, *, strictly: bool = False) -> bool:
    """True where ``large >= small`` (``>`` if ``strictly``) for all values the bounds admit."""
    bounds = known.bounds
    room = [1.0] * len(large)
    left = list(small)
    for place, product in enumerate(large):
        if product in left:
            left.remove(product)
            room[place] = 0.0
    for product in left:
        for place, cover in enumerate(large):
            times = _least_ratio(cover, product, bounds)
            if times > 0 and room[place] * times >= 1.0:
                room[place] -= 1.0 / times
                break
        else:
            return False
    if not strictly:
        return True
    return any(
        share > 0 and all(bounds[symbol][0] >= 1 for symbol in product)
        for share, product in zip(room, large, strict=True)
    )


def _least_ratio(large: Product, small: Product, bounds: Bounds) -> float:
    """A lower bound of large / small."""
    above, below = list(large), list(small)
    for symbol in tuple(below):
        if symbol in above:
            above.remove(symbol)
            below.remove(symbol)
    for symbol in tuple(below):
        if symbol.endswith(FIBRE) and symbol.removesuffix(FIBRE) in above:
            above.remove(symbol.removesuffix(FIBRE))
            below.remove(symbol)
    ratio = 1.0
    for symbol in above:
        ratio *= bounds[symbol][0]
    for symbol in below:
        high = bounds[symbol][1]
        if high is None and symbol.endswith(FIBRE):
            high = bounds[symbol.removesuffix(FIBRE)][1]
        ratio /= inf if high is None else max(high, 1)
    return ratio
