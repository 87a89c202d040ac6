"""The space of a product by the words of the specification alone (2.6), sets of nested tuples.

Slow, and written without a look at `teir.search.sparse`: what it counts is what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from typing import Any

Pairs = frozenset[tuple[str, str]]
Schedule = tuple[Any, ...]
"""("nest", output, inputs, loops) or ("branch" or "pipeline", output, inputs, loops, halves)."""


@dataclass(frozen=True)
class Tensor:
    """A name, its indices, and which loops stand outside which others because of it."""

    name: str
    indices: tuple[str, ...]
    pairs: Pairs

    def without(self, loops: Iterable[str]) -> Tensor:
        gone = set(loops)
        return replace(
            self,
            indices=tuple(index for index in self.indices if index not in gone),
            pairs=frozenset(pair for pair in self.pairs if not gone & set(pair)),
        )

    @property
    def access(self) -> tuple[str, tuple[str, ...]]:
        return self.name, self.indices


def counts(output: Tensor, inputs: tuple[Tensor, ...]) -> tuple[int, int]:
    """The schedules of all orders of the inputs; the trees of those with temporaries of rank 2."""
    generated, trees = 0, set()
    loops = frozenset(_union((output, *inputs)))
    given = tuple(range(len(inputs)))
    for order in permutations(given):
        if order == given:
            found = _with_pipelines(output, inputs)
        elif order < order[::-1]:
            found = _schedules(output, tuple(inputs[one] for one in order), loops, 0, len(inputs))
        else:
            continue
        generated += len(found)
        trees |= {_tree(one) for one in found if _rank(one) <= 2}
    return generated, len(trees)


@cache
def _schedules(
    output: Tensor, inputs: tuple[Tensor, ...], loops: frozenset[str], first: int, last: int
) -> frozenset[Schedule]:
    orders = list(_orders(loops, (output, *inputs)))
    accesses = output.access, tuple(one.access for one in inputs)
    found: set[Schedule] = {("nest", *accesses, order) for order in orders}
    if len(inputs) < 3 or len(loops) < 2:
        return frozenset(found)
    for order in orders:
        for position in range(first + 1, last):
            for in_left in (True, False):
                for common, halves in _fused(output, inputs, order, position, in_left):
                    found.add(("branch", *accesses, common, halves))
    return frozenset(found)


def _fused(
    output: Tensor, inputs: tuple[Tensor, ...], order: tuple[str, ...], position: int, in_left: bool
) -> Iterator[tuple[tuple[str, ...], tuple[Schedule, Schedule]]]:
    left, right = inputs[:position], inputs[position:]
    made, rest = (left, right) if in_left else (right, left)
    kept = _union(made) & (_union(rest) | set(output.indices))
    produced = [index for index in order if index in _union(made)]
    consumed = [index for index in order if index in _union(rest) | kept]
    common: tuple[str, ...] = ()
    for one, other in zip(produced, consumed, strict=False):
        if one != other:
            break
        common = (*common, one)
    if not common and len(made) == 1:
        return
    temporary = Tensor("T", tuple(sorted(kept - set(common))), frozenset())
    reads = tuple(one.without(common) for one in rest)
    reads = (temporary, *reads) if in_left else (*reads, temporary)
    producers = _schedules(
        temporary,
        tuple(one.without(common) for one in made),
        frozenset(produced) - set(common),
        0,
        len(made),
    )
    consumers = _schedules(
        output.without(common),
        reads,
        frozenset(consumed) - set(common),
        1 if in_left else 0,
        len(reads) - (0 if in_left else 1),
    )
    yield from ((common, (one, other)) for one in producers for other in consumers)


def _with_pipelines(output: Tensor, inputs: tuple[Tensor, ...]) -> frozenset[Schedule]:
    loops = frozenset(_union((output, *inputs)))
    found = set(_schedules(output, inputs, loops, 0, len(inputs)))
    accesses = output.access, tuple(one.access for one in inputs)
    for position in range(1, len(inputs)) if len(inputs) > 2 else ():
        left, right = inputs[:position], inputs[position:]
        outer = set(output.indices)
        one = Tensor("L", tuple(sorted(_union(left) & (_union(right) | outer))), frozenset())
        other = Tensor("R", tuple(sorted(_union(right) & (_union(left) | outer))), frozenset())
        last = frozenset((*one.indices, *other.indices, *output.indices))
        for order in _orders(last, (output, *inputs)):
            for first in _with_pipelines(one, left):
                for second in _with_pipelines(other, right):
                    found.add(("pipeline", *accesses, order, (first, second)))
    return frozenset(found)


def _orders(loops: Iterable[str], tensors: Iterable[Tensor]) -> Iterator[tuple[str, ...]]:
    """The valid orders; none of no loops."""
    named = sorted(loops)
    pairs = {pair for one in tensors for pair in one.pairs if set(pair) <= set(named)}
    for order in permutations(named) if named else ():
        if all(order.index(before) < order.index(after) for before, after in pairs):
            yield order


def _union(tensors: Iterable[Tensor]) -> set[str]:
    return {index for one in tensors for index in one.indices}


def _tree(schedule: Schedule) -> tuple[Any, ...]:
    """The nested indices; of a pipeline those of its last nest."""
    loops: tuple[Any, ...] = schedule[3]
    return (*loops, *map(_tree, schedule[4])) if schedule[0] == "branch" else loops


def _rank(schedule: Schedule) -> int:
    """The largest temporary."""
    if schedule[0] == "nest":
        return 0
    producer, consumer = schedule[4]
    made = [producer] if schedule[0] == "branch" else [producer, consumer]
    return max(*map(_rank, (producer, consumer)), *(len(one[1][1]) for one in made))
