"""A found schedule as an iteration graph: the splits that led to its loop tree, done again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from teir.expr.index_notation import Access
from teir.search.sparse.graph import Branch, IterationGraph, Nest, Node
from teir.search.sparse.loop_trees import Found, LoopTrees
from teir.search.sparse.space import Bits, Expression, Fusion, Ordered, Space, Unfused


class Rebuilder:
    """Iteration graphs of the schedules of one space."""

    def __init__(self, space: Space, trees: LoopTrees) -> None:
        self._statement = space.statement
        self._names = space.names
        self._trees = trees

    def graph(self, found: Found) -> IterationGraph:
        """The graph of a kept schedule."""
        inputs = tuple(self._statement.inputs[number] for number in found.ordered.inputs)
        temporaries = self._temporary_names()
        match found.source:
            case Expression():
                output, split = self._statement.output, found.split
                root = self._node(output, inputs, split, found.tree, temporaries)
            case Unfused():
                loops, _, _ = self._trees.parts(found.tree)
                root = self._pipeline(
                    self._statement.output, inputs, found.source, self._words(loops), temporaries
                )
        return IterationGraph(statement=self._statement, root=root)

    def pipelines(self, ordered: Ordered) -> Iterator[IterationGraph]:
        """Every pipeline of an order of the inputs: the first schedule of both halves, every order
        of the last nest."""
        inputs = tuple(self._statement.inputs[number] for number in ordered.inputs)
        for pipeline in ordered.pipelines:
            if self._trees.first_halves(pipeline) is None:
                continue
            for order in pipeline.orders:
                loops, numbers = self._words(order), self._temporary_names()
                root = self._pipeline(self._statement.output, inputs, pipeline, loops, numbers)
                yield IterationGraph(statement=self._statement, root=root)

    def _temporary_names(self) -> count[int]:
        return count(1)

    def _name(self, numbers: count[int]) -> str:
        used = {access.tensor for access in self._statement.accesses}
        return next(name for number in numbers if (name := f"T{number}") not in used)

    def _node(
        self,
        output: Access,
        inputs: tuple[Access, ...],
        fusion: Fusion | None,
        tree: int,
        numbers: count[int],
    ) -> Node:
        loops, producer, consumer = self._trees.parts(tree)
        if fusion is None or producer is None or consumer is None:
            return Nest(output=output, inputs=inputs, loops=self._words(loops))
        step = fusion.step
        temporary = Access(tensor=self._name(numbers), indices=self._words(step.temporary))
        left, right = inputs[: step.position], inputs[step.position :]
        made, rest = (left, right) if step.producer_in_left else (right, left)
        reads = (temporary, *rest) if step.producer_in_left else (*rest, temporary)
        return Branch(
            loops=self._words(loops),
            temporary=temporary,
            producer=self._half(temporary, made, fusion.producer, producer, numbers),
            consumer=self._half(output, reads, fusion.consumer, consumer, numbers),
        )

    def _half(
        self,
        output: Access,
        inputs: tuple[Access, ...],
        expression: Expression,
        tree: int,
        numbers: count[int],
    ) -> Node:
        return self._node(output, inputs, self._trees.trees(expression)[tree], tree, numbers)

    def _pipeline(
        self,
        output: Access,
        inputs: tuple[Access, ...],
        pipeline: Unfused,
        loops: tuple[str, ...],
        numbers: count[int],
    ) -> Node:
        left, right = inputs[: pipeline.position], inputs[pipeline.position :]
        one = Access(tensor=self._name(numbers), indices=_needed(left, (output, *right)))
        other = Access(tensor=self._name(numbers), indices=_needed(right, (output, *left)))
        last = Nest(output=output, inputs=(one, other), loops=loops)
        return Branch(
            loops=(),
            temporary=one,
            producer=self._first(one, left, pipeline.left, numbers),
            consumer=Branch(
                loops=(),
                temporary=other,
                producer=self._first(other, right, pipeline.right, numbers),
                consumer=last,
            ),
        )

    def _first(
        self,
        output: Access,
        inputs: tuple[Access, ...],
        expression: Expression,
        numbers: count[int],
    ) -> Node:
        tree = next(iter(self._trees.trees(expression)))
        return self._half(output, inputs, expression, tree, numbers)

    def _words(self, bits: Bits) -> tuple[str, ...]:
        return tuple(self._names[bit.bit_length() - 1] for bit in bits)


def _needed(half: tuple[Access, ...], others: tuple[Access, ...]) -> tuple[str, ...]:
    """The indices of one half of a product that the rest of the statement uses."""
    elsewhere = {index for access in others for index in access.indices}
    ours = dict.fromkeys(index for access in half for index in access.indices)
    return tuple(index for index in ours if index in elsewhere)
