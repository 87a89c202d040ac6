"""Stage 1: the loop trees of a space whose temporaries have at most two dimensions (5.2).

A loop tree is the nesting of loops without the statements; with primes it says which of them walk
stored coordinates and which nests stride, so that trees of different cost are different. Trees are
numbered; a number stands for (common loops, producer's tree, consumer's tree).

Of several schedules with one tree the first is kept: in the order of the inputs, then linear nests,
then by the place of the split, the producer on the left first, then by the trees below.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from teir.search.sparse.space import Bits, Expression, Fusion, Mask, Ordered, Space, Unfused

LARGEST_RANK = 2

_SHIFT = 24
_HALF = (1 << _SHIFT) - 1
_STRIDED = 1 << 62
"""Beside the loops that walk stored coordinates: the innermost one strides or gathers."""

Kept = dict[int, Fusion | None]
"""Tree number to the split of the kept schedule; None of a nest."""


class Found(msgspec.Struct, frozen=True, gc=False):
    """A kept schedule: its tree, where it was found, its first split (None of a nest), and its
    depths (5.3)."""

    tree: int
    ordered: Ordered
    source: Expression | Unfused
    split: Fusion | None
    loop_depth: int
    memory_depth: int


class LoopTrees:
    """The trees of one space and the tables that number them."""

    def __init__(self, space: Space, *, with_primes: bool) -> None:
        self._space = space
        self._primes = -1 if with_primes else 0
        self._numbers: dict[int, int] = {}
        self._keys: list[int] = []
        self._depths: list[int] = []
        self._ranks: list[int] = []
        self._sequences: dict[tuple[Bits, Mask], int] = {}
        self._loops: list[Bits] = []
        self._made: dict[int, Kept] = {}

    def kept(self, *, pipelines: bool) -> Iterator[Found]:
        """One schedule per loop tree; a pipeline has the tree of its last nest."""
        seen: set[int] = set()
        for ordered in self._space.orders:
            for tree, split in self.trees(ordered.expression).items():
                if tree not in seen:
                    seen.add(tree)
                    yield self._found(tree, ordered, split)
            for pipeline in ordered.pipelines if pipelines else ():
                yield from self._last_nests(ordered, pipeline, seen)

    def count(self) -> int:
        """The number of schedules that `kept` yields without pipelines."""
        consumers: dict[int, set[int]] = {}
        for ordered in self._space.orders:
            expression = ordered.expression
            for fusion in self.fusions(expression):
                used = self.trees(fusion.consumer)
                for _, base in self._bases(expression, fusion):
                    for producer in self.trees(fusion.producer):
                        consumers.setdefault(base | producer, set()).update(used)
        return len(self.nests()) + sum(map(len, consumers.values()))

    def nests(self) -> set[int]:
        """The trees of all linear nests."""
        expressions = (ordered.expression for ordered in self._space.orders)
        return {self.nest(one, order) for one in expressions for order in one.orders}

    def kept_of(self, wanted: Collection[int]) -> Iterator[Found]:
        """Those of `kept` that have one of these trees, in the same order."""
        left = set(wanted)
        parts = [self.parts(tree) for tree in wanted]
        producers = {producer for _, producer, _ in parts}
        consumers = {consumer for _, _, consumer in parts}
        for ordered in self._space.orders:
            for tree, split in self._within(ordered.expression, producers, consumers):
                if tree in left:
                    left.remove(tree)
                    yield self._found(tree, ordered, split)

    def _within(
        self, expression: Expression, producers: set[int | None], consumers: set[int | None]
    ) -> Iterator[tuple[int, Fusion | None]]:
        """The trees of an expression that are nests or have such halves, in the order found."""
        for order in expression.orders:
            yield self.nest(expression, order), None
        for fusion in self.fusions(expression):
            made = [tree for tree in self.trees(fusion.producer) if tree in producers]
            used = [tree for tree in self.trees(fusion.consumer) if tree in consumers]
            for tree in self.branches(expression, fusion, made, used):
                yield tree, fusion

    def _found(self, tree: int, ordered: Ordered, split: Fusion | None) -> Found:
        depth, rank = self._depths[tree], self._ranks[tree]
        return Found(tree, ordered, ordered.expression, split, depth, rank)

    def trees(self, expression: Expression) -> Kept:
        """All trees of an expression within the rank limit."""
        made = self._made.get(id(expression))
        if made is not None:
            return made
        found: Kept = {self.nest(expression, order): None for order in expression.orders}
        for fusion in self.fusions(expression):
            halves = self.trees(fusion.producer), self.trees(fusion.consumer)
            for tree in self.branches(expression, fusion, *halves):
                if tree not in found:
                    found[tree] = fusion
        self._made[id(expression)] = found
        return found

    def fusions(self, expression: Expression) -> Iterator[Fusion]:
        """Those within the rank limit."""
        for fusion in expression.fusions:
            if len(fusion.step.temporary) <= LARGEST_RANK:
                yield fusion

    def nest(self, expression: Expression, order: Bits) -> int:
        """The tree of the linear nest of an expression with this order of the loops."""
        walked = expression.walked & self._primes
        is_strided = bool(order[-1] & expression.strided & self._primes)
        return self._nest(order, walked | _STRIDED if is_strided else walked)

    def branches(
        self,
        expression: Expression,
        fusion: Fusion,
        producers: Iterable[int],
        consumers: Iterable[int],
    ) -> Iterator[int]:
        """Every pair of a producer's and a consumer's tree, under every order of common loops."""
        numbers, keys = self._numbers, self._keys
        for sequence, base in self._bases(expression, fusion):
            for producer in producers:
                high = base | producer + 1 << _SHIFT
                for consumer in consumers:
                    key = high | consumer + 1
                    tree = numbers.get(key)
                    if tree is None:
                        tree = numbers[key] = len(keys)
                        keys.append(key)
                        self._measure(fusion, len(sequence), producer, consumer)
                    yield tree

    def _measure(self, fusion: Fusion, outer: int, producer: int, consumer: int) -> None:
        depths, ranks = self._depths, self._ranks
        depths.append(outer + max(depths[producer], depths[consumer]))
        ranks.append(max(len(fusion.step.temporary), ranks[producer], ranks[consumer]))

    def _bases(self, expression: Expression, fusion: Fusion) -> Iterator[tuple[Bits, int]]:
        """The orders of the common loops, and the first part of the keys of their trees."""
        walked = expression.walked & self._primes & fusion.step.common
        for sequence in fusion.step.sequences:
            yield sequence, self._sequence(sequence, walked) << 2 * _SHIFT

    def _last_nests(self, ordered: Ordered, pipeline: Unfused, seen: set[int]) -> Iterator[Found]:
        halves = self.first_halves(pipeline)
        if halves is None:
            return
        below = max(depth for depth, _ in halves)
        rank = max(pipeline.temporary_rank, *(rank for _, rank in halves))
        for order in pipeline.orders:
            tree = self._nest(order, 0)
            if tree not in seen:
                seen.add(tree)
                yield Found(tree, ordered, pipeline, None, max(len(order), below), rank)

    def first_halves(self, pipeline: Unfused) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Loop depth and rank of the first schedule of both halves.

        None beyond the rank limit, and where a half is a product of scalars, which has no loop.
        """
        if pipeline.temporary_rank > LARGEST_RANK:
            return None
        left, right = self.trees(pipeline.left), self.trees(pipeline.right)
        if not left or not right:
            return None
        one, other = next(iter(left)), next(iter(right))
        return (self._depths[one], self._ranks[one]), (self._depths[other], self._ranks[other])

    def parts(self, tree: int) -> tuple[Bits, int | None, int | None]:
        """Loops, and the trees of producer and consumer; None twice for a nest."""
        key = self._keys[tree]
        loops = self._loops[key >> 2 * _SHIFT]
        producer, consumer = key >> _SHIFT & _HALF, key & _HALF
        return loops, producer - 1 if producer else None, consumer - 1 if consumer else None

    def _sequence(self, loops: Bits, walked: Mask) -> int:
        number = self._sequences.get((loops, walked))
        if number is None:
            number = self._sequences[loops, walked] = len(self._loops)
            self._loops.append(loops)
        return number

    def _nest(self, loops: Bits, walked: Mask) -> int:
        key = self._sequence(loops, walked) << 2 * _SHIFT
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            self._depths.append(len(loops))
            self._ranks.append(0)
        return number
