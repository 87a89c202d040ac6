"""Do two sets of addresses meet? An exact search over bounded integers with a work budget.

The question is a linear equation, sum of stride * index = target with every index in a range.
Strides are taken from the largest to the smallest; what the smaller ones can still reach, and
their greatest common divisor, leave few indices to try. On nested strides (each at least the span
of all smaller ones, as every tensor layout has them) that is the mixed-radix test and takes one
step per stride; on others it is a search, and the budget bounds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

import msgspec

Term = tuple[int, int, int]
"""A stride above zero, and the lowest and the highest index."""


class BudgetSpentError(Exception):
    """The search was stopped; whether the addresses meet is not known."""


class Budget(msgspec.Struct, eq=False):
    """Steps that may still be taken."""

    steps: int

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise BudgetSpentError


def solve(terms: list[Term], target: int, budget: Budget) -> list[int] | None:
    """Indices with sum of stride * index = ``target``, None where there are none.

    The indices come in the order of ``terms``. Raises BudgetSpentError.
    """
    order = sorted(range(len(terms)), key=lambda position: -terms[position][0])
    search = _Search([terms[position] for position in order], budget)
    found = search.run(target)
    if found is None:
        return None
    indices = [0] * len(terms)
    for position, index in zip(order, found, strict=True):
        indices[position] = index
    return indices


class _Search:
    """Depth-first search without recursion; strides are descending."""

    __slots__ = ("budget", "divisors", "highest", "lowest", "terms")

    def __init__(self, terms: list[Term], budget: Budget) -> None:
        self.terms = terms
        self.budget = budget
        count = len(terms)
        self.lowest = [0] * (count + 1)
        self.highest = [0] * (count + 1)
        self.divisors = [0] * (count + 1)
        for level in range(count - 1, -1, -1):
            stride, low, high = terms[level]
            self.lowest[level] = self.lowest[level + 1] + stride * low
            self.highest[level] = self.highest[level + 1] + stride * high
            self.divisors[level] = gcd(self.divisors[level + 1], stride)

    def run(self, target: int) -> list[int] | None:
        count = len(self.terms)
        if not self.lowest[0] <= target <= self.highest[0]:
            return None
        if count == 0:
            return []
        rests = [target]
        choices = [self._choices(0, target)]
        indices: list[int] = []
        while choices:
            self.budget.spend(1)
            level = len(choices) - 1
            index = next(choices[level], None)
            if index is None:
                choices.pop()
                rests.pop()
                if indices:
                    indices.pop()
                continue
            rest = rests[level] - self.terms[level][0] * index
            indices.append(index)
            if level + 1 == count:
                if rest == 0:
                    return indices
                indices.pop()
                continue
            rests.append(rest)
            choices.append(self._choices(level + 1, rest))
        return None

    def _choices(self, level: int, rest: int) -> Iterator[int]:
        """The indices that leave a rest the smaller strides may reach, nearest to zero first."""
        stride, low, high = self.terms[level]
        below = level + 1
        first = max(low, -((self.highest[below] - rest) // stride))
        last = min(high, (rest - self.lowest[below]) // stride)
        divisor = self.divisors[below]
        if divisor == 0:
            return iter((first,)) if first <= last and stride * first == rest else iter(())
        common = gcd(stride, divisor)
        if rest % common:
            return iter(())
        step = divisor // common
        start = rest // common * pow(stride // common, -1, step) % step if step > 1 else 0
        first += (start - first) % step
        return iter(range(first, last + 1, step))


def is_injective(terms: Iterable[tuple[int, int]]) -> bool:
    """The mixed-radix test on (stride, extent) pairs: no two index tuples share an address.

    False means not shown, not disproved.
    """
    span = 0
    for stride, extent in sorted(terms):
        if extent == 1:
            continue
        if stride <= span:
            return False
        span += stride * (extent - 1)
    return True


def self_collision(terms: list[tuple[int, int]], budget: Budget) -> list[int] | None:
    """Index differences, not all zero, that leave the address as it is; None if there are none."""
    if is_injective(terms):
        return None
    for position, (stride, extent) in enumerate(terms):
        if extent == 1:
            continue
        rest = [(step, 1 - size, size - 1) for step, size in terms[position + 1 :] if step]
        if stride == 0:
            return [0] * position + [1] + [0] * (len(terms) - position - 1)
        found = solve([(stride, 1, extent - 1), *rest], 0, budget)
        if found is not None:
            values = iter(found[1:])
            tail = [next(values) if step else 0 for step, _ in terms[position + 1 :]]
            return [0] * position + [found[0], *tail]
    return None
