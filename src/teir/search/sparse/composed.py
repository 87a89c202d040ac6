"""Symbolic costs of the schedules of a space, composed of those of their halves.

A schedule of a branch has the costs of its producer and its consumer, each product of loop lengths
times the common loops, and the elements of its temporary:

    i, k < T1[j]; j: ..., j: ... >   iterations i k (j + j), elements j

The costs of a half are the same in every schedule it is part of, many halves cost alike, and most
are dominated: hundreds of thousands of schedules need some thousand sums and no iteration graph.
"""

from __future__ import annotations

from teir.search.sparse.cost import FIBRE, Product, Sum
from teir.search.sparse.dominance import not_dominated_halves
from teir.search.sparse.loop_trees import Found, LoopTrees
from teir.search.sparse.sampling import Samples
from teir.search.sparse.space import Expression, Fusion, Mask, Space

Costs = tuple[Sum, Sum, Sum]
"""Iterations, strided iterations, elements of temporaries: as `Costing` has them of a graph."""


class ComposedCosts:
    """The costs of the schedules of one space that `LoopTrees.kept` found with primes.

    Where a half is never better than another of the same expression and worse for some extents, so
    is all that is made of it: such schedules have no costs here.
    """

    def __init__(self, space: Space, trees: LoopTrees, samples: Samples) -> None:
        self._names = space.names
        self._trees = trees
        self._samples = samples
        self._costs: list[Costs] = []
        self._numbers: dict[Costs, int] = {}
        self._fronts: dict[int, dict[int, int]] = {}
        self._lengths: dict[tuple[Mask, Mask], Product] = {}
        self._products: dict[tuple[Product, Product], Product] = {}
        self._of_branches: dict[tuple[Mask, Mask, Mask, int, int], int] = {}

    def of(self, found: Found) -> Costs | None:
        """The costs of a kept schedule that is no pipeline; None where a half is dominated."""
        assert isinstance(found.source, Expression)
        number = self._number(found.source, found.tree)
        return None if number is None else self._costs[number]

    def _number(self, expression: Expression, tree: int) -> int | None:
        """Equal costs have one number."""
        loops, producer, consumer = self._trees.parts(tree)
        _, fusion = self._trees.trees(expression)[tree]
        if fusion is None or producer is None or consumer is None:
            iterations = (self._length(sum(loops), expression.walked),)
            is_strided = bool(loops) and bool(loops[-1] & expression.strided)
            return self._shared((iterations, iterations if is_strided else (), ()))
        made = self._front(fusion.producer).get(producer)
        used = self._front(fusion.consumer).get(consumer)
        if made is None or used is None:
            return None
        return self._branch(fusion, expression.walked, made, used)

    def _front(self, expression: Expression) -> dict[int, int]:
        """The numbers of the trees of a half that nothing dominates."""
        known = self._fronts.get(id(expression))
        if known is not None:
            return known
        asked = ((tree, self._number(expression, tree)) for tree in self._trees.trees(expression))
        numbers = {tree: number for tree, number in asked if number is not None}
        places = list(dict.fromkeys(numbers.values()))
        kept = not_dominated_halves([self._costs[number] for number in places], self._samples)
        left = {places[place] for place in kept}
        found = {tree: number for tree, number in numbers.items() if number in left}
        self._fronts[id(expression)] = found
        return found

    def _branch(self, fusion: Fusion, walked: Mask, made: int, used: int) -> int:
        common, rows = fusion.step.common, sum(fusion.step.temporary[1])
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
