"""The path of three operands, as opt_einsum's "auto" finds it.

The first call with three operands then does not wait for opt_einsum to be imported, which takes
several times as long as planning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod

from teir.search.contraction import Path

Indices = frozenset[str]

_PAIRS = ((0, 1, 2), (0, 2, 1), (1, 2, 0))
"""Who meets first, and who is left."""


def path_of_three(
    inputs: Sequence[Sequence[str]], output: Sequence[str], extents: Mapping[str, int]
) -> Path:
    """The pair to begin with that takes the fewest operations; the first such pair.

    Operations are counted as opt_einsum counts them: a meeting of two sets of indices that was met
    before counts as it did then.
    """
    terms, wanted = [frozenset(term) for term in inputs], frozenset(output)
    known: dict[tuple[Indices, Indices], tuple[Indices, int]] = {}

    def meet(one: Indices, two: Indices, kept: Indices) -> tuple[Indices, int]:
        if (one, two) not in known:
            points = prod([extents[index] for index in one | two])
            is_summed = bool(one & two - kept)
            known[one, two] = (one | two) & kept, points * (1 + is_summed)
        return known[one, two]

    best, path = inf, _PAIRS[0]
    for pair in _PAIRS:
        first, second, left = pair
        met, before = meet(terms[first], terms[second], wanted | terms[left])
        if before < best:
            total = before + meet(terms[left], met, wanted)[1]
            if total < best:
                best, path = total, pair
    return (path[:2], (0, 1))
