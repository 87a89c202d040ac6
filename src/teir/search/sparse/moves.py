"""Moves between iteration graphs of one statement: reorder, loopfuse, inline.

Each returns the new graph, or the finding that says why it is not legal. ``path`` leads from the
root to a subtree: 0 is the producer, 1 the consumer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from teir.errors import Finding, Rule, at_argument
from teir.expr.index_notation import Access
from teir.search.sparse.graph import (
    Branch,
    IterationGraph,
    Nest,
    Node,
    branches,
    leaves,
    output_of,
    tensors_of,
)
from teir.search.sparse.statement import keeps, sorted_loops

PATH = Rule(
    code="TEIR664",
    sentence="A path leads from the root to a subtree: 0 is the producer, 1 the consumer.",
    source="SparseAuto, 4.2",
)
SECTION = Rule(
    code="TEIR665",
    sentence="A reordered section has the same loops, and every sparse tensor used below it is "
    "walked from its outermost level inwards.",
    source="SparseAuto, 4.1",
)
SPLIT = Rule(
    code="TEIR666",
    sentence="A statement of n inputs is split after input 1 to n - 1.",
    source="SparseAuto, algorithm 1",
)


def reorder(
    graph: IterationGraph, order: Sequence[str], path: Sequence[int] = ()
) -> IterationGraph | Finding:
    """Replace the order of the loops that start the subtree at ``path`` (2.3)."""
    node = _at(graph.root, path)
    if isinstance(node, Finding):
        return node
    loops = tuple(order)
    if sorted(loops) != sorted(node.loops):
        return at_argument(SECTION, "order", f"the loops {_words(node.loops)}", _words(loops))
    pairs = graph.statement.order_pairs(tensors_of(node))
    if not keeps(loops, pairs):
        wrong = next(pair for pair in pairs if not keeps(loops, (pair,)))
        expected = f"{wrong[0]} outside {wrong[1]}"
        return at_argument(SECTION, "order", expected, _words(loops))
    return _with(graph, path, replace(node, loops=loops))


def loopfuse(
    graph: IterationGraph, loc: int, producer_in_left: bool, path: Sequence[int] = ()
) -> IterationGraph | Finding:
    """Split a nest after input ``loc`` into a producer and a consumer below common loops (2.4).

    Algorithm 1 with its misprints corrected: the temporary has the producer's indices that the
    consumer or the output needs, less those of the common loops; both statements accumulate.
    """
    node = _at(graph.root, path)
    if isinstance(node, Finding):
        return node
    if isinstance(node, Branch):
        return at_argument(PATH, "path", "a subtree without branches", "a branch")
    if not 1 <= loc < len(node.inputs):
        return at_argument(SPLIT, "loc", f"1 to {len(node.inputs) - 1}", str(loc))
    return _with(graph, path, split(node, loc, producer_in_left, _fresh_name(graph)))


def split(nest: Nest, loc: int, producer_in_left: bool, name: str) -> Branch:
    """The branch of algorithm 1; ``name`` names the temporary."""
    left, right = nest.inputs[:loc], nest.inputs[loc:]
    producer, consumer = (left, right) if producer_in_left else (right, left)
    produced, consumed = _indices(producer), _indices(consumer)
    temporary = produced & (consumed | set(nest.output.indices))
    producer_loops = [index for index in nest.loops if index in produced]
    consumer_loops = [index for index in nest.loops if index in consumed | temporary]
    fused = _common_prefix(producer_loops, consumer_loops)
    shared = tuple(index for index in producer_loops if index in consumer_loops)[len(fused) :]
    access = Access(tensor=name, indices=shared)
    inputs = (access, *consumer) if producer_in_left else (*consumer, access)
    return Branch(
        loops=fused,
        temporary=access,
        producer=Nest(output=access, inputs=producer, loops=tuple(producer_loops[len(fused) :])),
        consumer=Nest(output=nest.output, inputs=inputs, loops=tuple(consumer_loops[len(fused) :])),
    )


def inline(graph: IterationGraph) -> IterationGraph:
    """The linear graph of the same class (4.3): temporaries replaced by what produces them.

    The producer's own loops move into the consumer, as late as the level orders allow.
    """
    root = _inlined(graph, graph.root)
    return graph if root is graph.root else replace(graph, root=root)


def _inlined(graph: IterationGraph, node: Node) -> Nest:
    match node:
        case Nest():
            return node
        case Branch():
            producer = _inlined(graph, node.producer)
            consumer = _inlined(graph, node.consumer)
            inputs: list[Access] = []
            for access in consumer.inputs:
                is_temporary = access.tensor == node.temporary.tensor
                inputs += producer.inputs if is_temporary else (access,)
            own = [index for index in producer.loops if index not in consumer.loops]
            pairs = graph.statement.order_pairs(tensors_of(node))
            inner = sorted_loops((*consumer.loops, *own), pairs)
            # The common loops were a prefix of a valid order, so what follows them has one too.
            assert inner is not None
            return Nest(output=output_of(node), inputs=tuple(inputs), loops=(*node.loops, *inner))
        case _:
            assert_never(node)


def _indices(accesses: tuple[Access, ...]) -> set[str]:
    return {index for access in accesses for index in access.indices}


def _common_prefix(one: list[str], other: list[str]) -> tuple[str, ...]:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return tuple(one[:length])


def _fresh_name(graph: IterationGraph) -> str:
    used = {access.tensor for access in graph.statement.accesses}
    used |= {branch.temporary.tensor for branch in branches(graph.root)}
    number = 1
    while f"T{number}" in used:
        number += 1
    return f"T{number}"


def _at(root: Node, path: Sequence[int]) -> Node | Finding:
    node = root
    for number, step in enumerate(path):
        if isinstance(node, Nest) or step not in (0, 1):
            expected = "0 or 1 at a branch" if isinstance(node, Branch) else "the end of the path"
            return at_argument(PATH, f"path[{number}]", expected, str(step))
        node = node.consumer if step else node.producer
    return node


def _with(graph: IterationGraph, path: Sequence[int], node: Node) -> IterationGraph:
    root = _replaced(graph.root, tuple(path), node)
    return graph if root == graph.root else replace(graph, root=root)


def _replaced(root: Node, path: tuple[int, ...], node: Node) -> Node:
    if not path:
        return node
    assert isinstance(root, Branch)
    if path[0] == 0:
        return replace(root, producer=_replaced(root.producer, path[1:], node))
    return replace(root, consumer=_replaced(root.consumer, path[1:], node))


def leaf_paths(graph: IterationGraph) -> tuple[tuple[int, ...], ...]:
    """The paths of all nests, in execution order."""

    def below(node: Node, path: tuple[int, ...]) -> list[tuple[int, ...]]:
        if isinstance(node, Nest):
            return [path]
        return [*below(node.producer, (*path, 0)), *below(node.consumer, (*path, 1))]

    return tuple(below(graph.root, ()))


def is_linear(graph: IterationGraph) -> bool:
    return sum(1 for _ in leaves(graph.root)) == 1


def _words(loops: Sequence[str]) -> str:
    return ", ".join(loops) or "none"
