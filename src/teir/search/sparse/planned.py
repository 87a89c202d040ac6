"""The schedules that no other beats at concrete sizes, without looking at all of them.

The costs of a branch grow with those of its producer and its consumer, whatever stands above. So of
one expression only those schedules matter that no other one beats, and each expression of the space
is looked at once: the millions of schedules of five tensors take a second.

Compared are iterations, strided iterations, elements of temporaries. A schedule is beaten by one
that has less of the first or the second and no more of any; less memory alone beats nothing, since
only bytes beyond the cache count, and those are known at the end (`teir.search.sparse.candidate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from math import prod

from teir.expr.index_notation import Access
from teir.search.sparse.cost import FIBRE
from teir.search.sparse.graph import Branch, IterationGraph, Nest, Node
from teir.search.sparse.space import Bits, Expression, Fusion, Mask, Ordered, Space

Point = tuple[float, float, float]
"""Iterations, strided iterations, elements of temporaries."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule of an expression: an order of all its loops, or of common ones and two halves."""

    loops: Bits
    halves: tuple[Fusion, Planned, Planned] | None


Front = list[tuple[Point, list[Planned]]]
"""Points that nothing beats, and the schedules that have them."""


class Planner:
    """The fronts of the expressions of one space, at one set of sizes."""

    def __init__(self, space: Space, sizes: Mapping[str, float]) -> None:
        self._space = space
        self._statement = space.statement
        self._names = space.names
        self._dense = {1 << n: sizes[index] for n, index in enumerate(space.names)}
        self._stored = {
            1 << n: sizes.get(f"{index}{FIBRE}", 0.0) for n, index in enumerate(space.names)
        }
        self._fronts: dict[int, Front] = {}

    def graphs(self) -> Iterator[IterationGraph]:
        """The unbeaten schedules of all orders of the inputs, then every other linear nest.

        The same loop tree may come from several orders of the inputs.
        """
        for ordered in self._space.orders:
            for _, schedules in self.front(ordered.expression):
                for planned in schedules:
                    yield self._graph(ordered, planned)
        first = self._space.orders[0]
        for order in first.expression.orders:
            yield self._graph(first, Planned(order, None))

    def front(self, expression: Expression) -> Front:
        """The unbeaten points of an expression, least iterations first."""
        known = self._fronts.get(id(expression))
        if known is not None:
            return known
        found: dict[Point, list[Planned]] = {}
        for order in expression.orders:
            length = self._length(sum(order), expression.walked)
            strided = length if order and order[-1] & expression.strided else 0.0
            found.setdefault((length, strided, 0.0), []).append(Planned(order, None))
        for fusion in expression.fusions:
            self._add(found, fusion, expression.walked)
        made = self._fronts[id(expression)] = [
            (point, found[point]) for point in _unbeaten(sorted(found))
        ]
        return made

    def _add(self, found: dict[Point, list[Planned]], fusion: Fusion, walked: Mask) -> None:
        step = fusion.step
        times = self._length(step.common, walked)
        size = prod(self._dense[bit] for bit in step.temporary) if step.temporary else 0.0
        for made, producers in self.front(fusion.producer):
            for used, consumers in self.front(fusion.consumer):
                point = (
                    times * (made[0] + used[0]),
                    times * (made[1] + used[1]),
                    size + made[2] + used[2],
                )
                found.setdefault(point, []).extend(
                    Planned(sequence, (fusion, producer, consumer))
                    for sequence in step.sequences
                    for producer in producers
                    for consumer in consumers
                )

    def _length(self, loops: Mask, walked: Mask) -> float:
        length = 1.0
        for bit, extent in self._dense.items():
            if bit & loops:
                length *= self._stored[bit] if bit & walked else extent
        return length

    def _graph(self, ordered: Ordered, planned: Planned) -> IterationGraph:
        inputs = tuple(self._statement.inputs[number] for number in ordered.inputs)
        root = self._node(self._statement.output, inputs, planned, count(1))
        return IterationGraph(statement=self._statement, root=root)

    def _node(
        self, output: Access, inputs: tuple[Access, ...], planned: Planned, numbers: count[int]
    ) -> Node:
        loops = self._words(planned.loops)
        if planned.halves is None:
            return Nest(output=output, inputs=inputs, loops=loops)
        fusion, producer, consumer = planned.halves
        step = fusion.step
        used = {access.tensor for access in self._statement.accesses}
        name = next(name for number in numbers if (name := f"T{number}") not in used)
        temporary = Access(tensor=name, indices=self._words(step.temporary))
        left, right = inputs[: step.position], inputs[step.position :]
        made, rest = (left, right) if step.producer_in_left else (right, left)
        reads = (temporary, *rest) if step.producer_in_left else (*rest, temporary)
        return Branch(
            loops=loops,
            temporary=temporary,
            producer=self._node(temporary, made, producer, numbers),
            consumer=self._node(output, reads, consumer, numbers),
        )

    def _words(self, bits: Bits) -> tuple[str, ...]:
        return tuple(self._names[bit.bit_length() - 1] for bit in bits)


def _unbeaten(points: list[Point]) -> list[Point]:
    """Of points in increasing order, those that none has less of and no more of any."""
    kept: list[Point] = []
    for time, strided, memory in points:
        if not any(
            one <= time and other <= strided and least <= memory and (one, other) != (time, strided)
            for one, other, least in kept
        ):
            kept.append((time, strided, memory))
    return kept
