"""Points that meet the constraints, and costs at them: witnesses that a comparison is possible.

A witness proves that something can happen; that none was found proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teir.search.sparse.constraints import Known, Polynomial, Relation
from teir.search.sparse.cost import FIBRE, Product, Sum

Values = np.ndarray[Any, np.dtype[np.float64]]

_UNBOUNDED = 1e7
"""The largest value drawn for a symbol without an upper bound."""
_DRAWN = 20_000
_KEPT = 200


def sample_points(known: Known) -> dict[str, Values]:
    """Up to 200 points, the same ones every time; symbols are drawn on a logarithmic scale."""
    draw = np.random.default_rng(2024)
    bounds = known.bounds
    points: dict[str, Values] = {}
    for symbol in known.symbols:
        low, high = bounds[symbol]
        top: Any = float(high) if high is not None else _UNBOUNDED
        if symbol.endswith(FIBRE) and symbol.removesuffix(FIBRE) in points:
            top = np.minimum(top, points[symbol.removesuffix(FIBRE)])
        least = max(low, 1)
        ratio = np.maximum(np.asarray(top) / least, 1.0)
        place = draw.random(_DRAWN)
        # Sums of products differ most where symbols are at their ends.
        place[::2] = np.round(place[::2])
        points[symbol] = np.floor(least * ratio**place + 0.5)
    is_met = np.ones(_DRAWN, bool)
    for constraint in known.constraints:
        left, right = _at(constraint.left, points), _at(constraint.right, points)
        match constraint.relation:
            case Relation.LESS:
                is_met &= left < right
            case Relation.AT_MOST:
                is_met &= left <= right
            case Relation.EQUAL:
                is_met &= left == right
    chosen = np.flatnonzero(is_met)[:_KEPT]
    return {symbol: values[chosen] for symbol, values in points.items()}


class Samples:
    """The points of one set of constraints, and every product of symbols that was asked for."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._points = sample_points(known)
        self._products: dict[Product, Values] = {}

    @property
    def count(self) -> int:
        return next(iter(self._points.values())).size

    def values(self, totals: Sequence[Sum]) -> Values:
        """Row per sum, column per point."""
        table = np.zeros((len(totals), self.count))
        for row, total in enumerate(totals):
            for product in total:
                table[row] += self._product(product)
        return table

    def _product(self, product: Product) -> Values:
        known = self._products.get(product)
        if known is None:
            known = np.ones(self.count)
            for symbol in product:
                known = known * self._points[symbol]
            self._products[product] = known
        return known


def _at(polynomial: Polynomial, points: dict[str, Values]) -> Values:
    total = np.zeros(_DRAWN)
    for product, factor in polynomial:
        term = np.full(_DRAWN, float(factor))
        for symbol in product:
            term *= points[symbol]
        total += term
    return total
