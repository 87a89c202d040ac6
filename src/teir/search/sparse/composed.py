"""Symbolic costs of the schedules of a space, composed of those of their halves.

A schedule of a branch has the costs of its producer and its consumer, each product of loop lengths
times the common loops, and the elements of its temporary:

    i, k < T1[j]; j: ..., j: ... >   iterations i k (j + j), elements j

The costs of a half are the same in every schedule it is part of, many halves cost alike, and most
are dominated: hundreds of thousands of schedules need some thousand sums and no iteration graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from teir.search.sparse.cost import FIBRE, Product, Sum
from teir.search.sparse.dominance import not_dominated_halves
from teir.search.sparse.loop_trees import LoopTrees
from teir.search.sparse.sampling import Samples
from teir.search.sparse.space import Bits, Expression, Fusion, Mask, Space

Costs = tuple[Sum, Sum, Sum]
"""Iterations, strided iterations, elements of temporaries: as `Costing` has them of a graph."""


class ComposedCosts:
    """The costs of the schedules of one space that `LoopTrees.kept` finds with primes.

    Where a half is never better than another of the same expression and worse for some extents, so
    is all that is made of it: such schedules are left out here.
    """

    def __init__(self, space: Space, trees: LoopTrees, samples: Samples) -> None:
        self._space = space
        self._names = space.names
        self._trees = trees
        self._samples = samples
        self._costs: list[Costs] = []
        self._numbers: dict[Costs, int] = {}
        self._fronts: dict[int, tuple[int, ...]] = {}
        self._not_dominated: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._of_trees: dict[tuple[int, int], tuple[int, ...]] = {}
        self._lengths: dict[tuple[Mask, Mask], Product] = {}
        self._products: dict[tuple[Product, Product], Product] = {}
        self._of_branches: dict[tuple[Mask, Mask, Mask, int, int], int] = {}

    def all(self) -> list[Costs]:
        """Every different one of the nested schedules."""
        expressions = (ordered.expression for ordered in self._space.orders)
        numbers = dict.fromkeys(number for one in expressions for number in self._made(one))
        return [self._costs[number] for number in numbers]

    def trees(self, costs: Iterable[Costs]) -> set[int]:
        """The loop trees of the schedules with these costs."""
        wanted = [self._numbers[cost] for cost in costs if cost in self._numbers]
        return {
            tree
            for ordered in self._space.orders
            for number in wanted
            for tree in self._with(ordered.expression, number)
        }

    def _made(self, expression: Expression) -> Iterator[int]:
        """The numbers of the costs of an expression, equal ones repeated."""
        for order in expression.orders:
            yield self._nest(expression, order)
        for number, *_ in self._branches(expression):
            yield number

    def _branches(self, expression: Expression) -> Iterator[tuple[int, Fusion, int, int]]:
        """The number of the costs of every branch, its fusion, and the numbers of its halves."""
        for fusion in self._trees.fusions(expression):
            consumers = self._front(fusion.consumer)
            for made in self._front(fusion.producer):
                for used in consumers:
                    yield self._branch(fusion, expression.walked, made, used), fusion, made, used

    def _front(self, expression: Expression) -> tuple[int, ...]:
        """The numbers of the costs of a half that nothing dominates."""
        known = self._fronts.get(id(expression))
        if known is not None:
            return known
        numbers = tuple(sorted(set(self._made(expression))))
        front = self._not_dominated.get(numbers)
        if front is None:
            front = self._not_dominated[numbers] = self._without_dominated(numbers)
        self._fronts[id(expression)] = front
        return front

    def _without_dominated(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        if len(numbers) < 2:
            return numbers
        kept = not_dominated_halves([self._costs[number] for number in numbers], self._samples)
        return tuple(numbers[place] for place in kept)

    def _with(self, expression: Expression, number: int) -> tuple[int, ...]:
        """The trees of the schedules of an expression whose costs have this number."""
        known = self._of_trees.get((id(expression), number))
        if known is not None:
            return known
        trees = self._trees
        found = [
            trees.nest(expression, order)
            for order in expression.orders
            if self._nest(expression, order) == number
        ]
        for costs, fusion, made, used in self._branches(expression):
            if costs == number:
                halves = self._with(fusion.producer, made), self._with(fusion.consumer, used)
                found += trees.branches(expression, fusion, *halves)
        unique = self._of_trees[id(expression), number] = tuple(dict.fromkeys(found))
        return unique

    def _nest(self, expression: Expression, order: Bits) -> int:
        """Equal costs have one number."""
        iterations = (self._length(sum(order), expression.walked),)
        is_strided = bool(order) and bool(order[-1] & expression.strided)
        return self._shared((iterations, iterations if is_strided else (), ()))

    def _branch(self, fusion: Fusion, walked: Mask, made: int, used: int) -> int:
        common, rows = fusion.step.common, sum(fusion.step.temporary)
        key = (common, common & walked, rows, made, used)
        known = self._of_branches.get(key)
        if known is not None:
            return known
        around = self._length(common, walked)
        producer, consumer = self._costs[made], self._costs[used]
        temporary = (self._length(rows, 0),) if rows else ()
        number = self._of_branches[key] = self._shared(
            (
                self._times(around, (*producer[0], *consumer[0])),
                self._times(around, (*producer[1], *consumer[1])),
                tuple(sorted((*temporary, *producer[2], *consumer[2]))),
            )
        )
        return number

    def _shared(self, costs: Costs) -> int:
        number = self._numbers.setdefault(costs, len(self._costs))
        if number == len(self._costs):
            self._costs.append(costs)
        return number

    def _length(self, loops: Mask, walked: Mask) -> Product:
        key = (loops, loops & walked)
        known = self._lengths.get(key)
        if known is None:
            bits = ((1 << number, index) for number, index in enumerate(self._names))
            inside = ((bit, index) for bit, index in bits if bit & loops)
            symbols = (f"{index}{FIBRE}" if bit & walked else index for bit, index in inside)
            known = self._lengths[key] = tuple(sorted(symbols))
        return known

    def _times(self, around: Product, total: Sum) -> Sum:
        return tuple(sorted([self._product(around, product) for product in total]))

    def _product(self, one: Product, other: Product) -> Product:
        known = self._products.get((one, other))
        if known is None:
            known = self._products[one, other] = tuple(sorted((*one, *other)))
        return known
