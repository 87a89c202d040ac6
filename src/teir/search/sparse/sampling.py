"""Points that meet the constraints, and costs at them: witnesses that a comparison is possible.

A witness proves that something can happen; that none was found proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teir.search.sparse.constraints import Known, Polynomial, Relation
from teir.search.sparse.cost import FIBRE, Sum

Values = np.ndarray[Any, np.dtype[np.float64]]

_UNBOUNDED = 1e7
"""The largest value drawn for a symbol without an upper bound."""
_DRAWN = 20_000
_KEPT = 200


def sample_points(known: Known) -> dict[str, Values]:
    """Up to 200 points, the same ones every time; symbols are drawn on a logarithmic scale."""
    draw = np.random.default_rng(2024)
    bounds = known.bounds()
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


def costs_at(totals: Sequence[Sum], points: dict[str, Values]) -> Values:
    """Row per sum, column per point."""
    count = next(iter(points.values())).size
    table = np.zeros((len(totals), count))
    products: dict[tuple[str, ...], Values] = {}
    for row, total in enumerate(totals):
        for product in total:
            if product not in products:
                values = np.ones(count)
                for symbol in product:
                    values = values * points[symbol]
                products[product] = values
            table[row] += products[product]
    return table


def _at(polynomial: Polynomial, points: dict[str, Values]) -> Values:
    total = np.zeros(_DRAWN)
    for product, factor in polynomial:
        term = np.full(_DRAWN, float(factor))
        for symbol in product:
            term *= points[symbol]
        total += term
    return total
