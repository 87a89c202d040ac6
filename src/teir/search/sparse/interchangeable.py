"""Loops that may change places without a change of the iterations, kept in one order.

    A[a,b,c,d,e] = M[s,a] N[t,b] P[s,t,c,d,e]     5040 orders of the loops; 840 with c, d, e in turn

Loops over indices of the same tensors differ by their extents alone, unless one of them is the
adjacent index of a tensor. So of the schedules that differ by their places one is enough: the one
with the longest loop outermost, whose temporaries are smallest, and the adjacent one innermost.
On one core of Golden Cove the product above is searched in 0.24 s instead of 1.15, a matrix times a
tensor of seven dense axes in 0.02 instead of 2.14, both for the same schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, islice

from teir.search.sparse.loop_orders import orders_of
from teir.search.sparse.statement import Pairs, Statement, first_order


def in_turn(statement: Statement, symbols: Mapping[str, float]) -> Pairs:
    """(a, b): loops that may change places, of which the one over ``a`` stays outside."""
    return tuple(
        pair for run in _interchangeable(statement, symbols) for pair in combinations(run, 2)
    )


def has_more_orders(statement: Statement, pairs: Pairs, most: int) -> bool:
    """Whether the loops of a linear nest have more than ``most`` orders that keep ``pairs`` too.

    Not counted to the end, for there are 362,880 of nine free loops.
    """
    bits = {index: 1 << number for number, index in enumerate(statement.indices)}
    every = (*statement.order_pairs(access.tensor for access in statement.accesses), *pairs)
    orders = orders_of(sum(bits.values()), tuple((bits[one], bits[two]) for one, two in every))
    return next(islice(orders, most, None), None) is not None


def _interchangeable(
    statement: Statement, symbols: Mapping[str, float]
) -> Iterator[tuple[str, ...]]:
    """Loops over indices of the same tensors, outermost first, an adjacent one at most the last.

    Levels of sparse tensors keep their order, which is that of `first_order`.
    """
    order = first_order(statement)
    assert order is not None
    stored = {
        index
        for access, fmt in zip(statement.accesses, statement.formats, strict=True)
        for index in access.indices
        if fmt.is_sparse
    }
    adjacent = {
        statement.level_indices(one.tensor)[-1] for one in statement.accesses if one.indices
    }
    groups: dict[frozenset[str], list[str]] = {}
    for index in order:
        used = frozenset(one.tensor for one in statement.accesses if index in one.indices)
        groups.setdefault(used, []).append(index)
    for group in groups.values():
        if group[0] not in stored:
            group.sort(key=lambda index: (index in adjacent, -symbols[index]))
        ends = [place for place, index in enumerate(group, 1) if index in adjacent]
        for start, end in zip((0, *ends), (*ends, len(group)), strict=True):
            yield tuple(group[start:end])
