"""Stage 1: the loop trees of a space whose temporaries have at most two dimensions (5.2).

A loop tree is the nesting of loops without the statements; with primes it says which of them walk
stored coordinates and which nests stride, so that trees of different cost are different. Trees are
numbered; a number stands for (common loops, producer's tree, consumer's tree).

Of several schedules with one tree the first is kept: in the order of the inputs, then linear nests,
then by the place of the split, the producer on the left first, then by the trees below.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from teir.search.sparse.space import Bits, Expression, Fusion, Mask, Ordered, Space, Unfused

LARGEST_RANK = 2

_SHIFT = 24
_HALF = (1 << _SHIFT) - 1
_STRIDED = 1 << 62
"""Beside the loops that walk stored coordinates: the innermost one strides or gathers."""

Kept = dict[int, tuple[int, Fusion | None]]
"""Tree number to the largest rank of a temporary of the kept schedule, and its split; None of a
nest."""


class Found(msgspec.Struct, frozen=True, gc=False):
    """A kept schedule: its tree, where it was found, and its depths (5.3)."""

    tree: int
    ordered: Ordered
    source: Expression | Unfused
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
        self._sequences: dict[tuple[Bits, Mask], int] = {}
        self._loops: list[Bits] = []
        self._made: dict[int, Kept] = {}

    def kept(self, *, pipelines: bool) -> Iterator[Found]:
        """One schedule per loop tree; a pipeline has the tree of its last nest."""
        seen: set[int] = set()
        for ordered in self._space.orders:
            for tree, (rank, _) in self.trees(ordered.expression).items():
                if tree not in seen:
                    seen.add(tree)
                    depth = self._depths[tree]
                    yield Found(tree, ordered, ordered.expression, depth, rank)
            for pipeline in ordered.pipelines if pipelines else ():
                yield from self._last_nests(ordered, pipeline, seen)

    def trees(self, expression: Expression) -> Kept:
        """All trees of an expression within the rank limit."""
        made = self._made.get(id(expression))
        if made is not None:
            return made
        walked = expression.walked & self._primes
        strided = expression.strided & self._primes
        found: Kept = {
            self._nest(order, walked | _STRIDED if order[-1] & strided else walked): (0, None)
            for order in expression.orders
        }
        for fusion in expression.fusions:
            if len(fusion.step.temporary[1]) <= LARGEST_RANK:
                self._add(found, fusion, walked)
        self._made[id(expression)] = found
        return found

    def _add(self, found: Kept, fusion: Fusion, walked: Mask) -> None:
        """Every pair of a producer's and a consumer's tree, under every order of common loops."""
        producers, consumers = self.trees(fusion.producer), self.trees(fusion.consumer)
        rank = len(fusion.step.temporary[1])
        kept = [(least, fusion) for least in range(LARGEST_RANK + 1)]
        numbers, keys, depths = self._numbers, self._keys, self._depths
        for sequence in fusion.step.sequences:
            base = self._sequence(sequence, walked & fusion.step.common) << 2 * _SHIFT
            outer = len(sequence)
            for producer, (producer_rank, _) in producers.items():
                high = base | producer + 1 << _SHIFT
                least = rank if rank > producer_rank else producer_rank
                below = depths[producer]
                for consumer, (consumer_rank, _) in consumers.items():
                    key = high | consumer + 1
                    tree = numbers.get(key)
                    if tree is None:
                        tree = numbers[key] = len(keys)
                        keys.append(key)
                        after = depths[consumer]
                        depths.append(outer + (below if below > after else after))
                    if tree not in found:
                        found[tree] = kept[least if least > consumer_rank else consumer_rank]

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
                yield Found(tree, ordered, pipeline, max(len(order), below), rank)

    def first_halves(self, pipeline: Unfused) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Loop depth and rank of the first schedule of both halves.

        None beyond the rank limit, and where a half is a product of scalars, which has no loop.
        """
        if pipeline.temporary_rank > LARGEST_RANK:
            return None
        left, right = self.trees(pipeline.left), self.trees(pipeline.right)
        if not left or not right:
            return None
        one, other = next(iter(left.items())), next(iter(right.items()))
        return (self._depths[one[0]], one[1][0]), (self._depths[other[0]], other[1][0])

    def parts(self, tree: int) -> tuple[Bits, int | None, int | None]:
        """Loops, and the trees of producer and consumer; None twice for a nest."""
        key = self._keys[tree]
        loops = self._loops[key >> 2 * _SHIFT]
        producer, consumer = key >> _SHIFT & _HALF, key & _HALF
        return loops, producer - 1 if producer else None, consumer - 1 if consumer else None

    def is_nest(self, found: Found) -> bool:
        """True where the kept schedule is one linear nest."""
        return isinstance(found.source, Expression) and self.parts(found.tree)[1] is None

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
        return number
