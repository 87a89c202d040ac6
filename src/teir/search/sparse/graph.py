"""Iteration graphs: how the loops of one statement are nested and branched.

    graph  = nest | branch
    nest   = loops, then one statement          (a linear iteration graph, 2.1)
    branch = common loops, a temporary that is zero at each of their iterations,
             a producer that adds into it, a consumer that reads it     (2.2)

Written as the paper does, a prime marking the loops that walk stored coordinates only:

    i, j' < t; k: t += B[i,j] C[i,k] D[j,k], l: A[i,l] += t E[j,l] >
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from teir.expr.index_notation import Access
from teir.search.sparse.statement import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """Loops around ``output += inputs[0] * inputs[1] * ...``; loops of branches above not named."""

    output: Access
    inputs: tuple[Access, ...]
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Common loops, then the producer of ``temporary``, then its consumer.

    The temporary has no index of the common loops or of those above; a scalar has none at all.
    """

    loops: tuple[str, ...]
    temporary: Access
    producer: Node
    consumer: Node


Node = Nest | Branch


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationGraph:
    """A schedule of ``statement``."""

    statement: Statement
    root: Node

    @property
    def tree(self) -> str:
        """The loops alone, as nested tuples: ``(i, j, (k,), (l,))``."""
        return tree_text(self.root)

    def __str__(self) -> str:
        return _text(self.statement, self.root)


def linear(statement: Statement, loops: tuple[str, ...]) -> IterationGraph:
    """All loops around the whole statement."""
    root = Nest(output=statement.output, inputs=statement.inputs, loops=loops)
    return IterationGraph(statement=statement, root=root)


def leaves(node: Node, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Nest]]:
    """Every nest with all loops around its statement, in execution order."""
    match node:
        case Nest():
            yield (*above, *node.loops), node
        case Branch():
            inner = (*above, *node.loops)
            yield from leaves(node.producer, inner)
            yield from leaves(node.consumer, inner)
        case _:
            assert_never(node)


def branches(node: Node) -> Iterator[Branch]:
    """Every branch, a branch before those below it."""
    if isinstance(node, Branch):
        yield node
        yield from branches(node.producer)
        yield from branches(node.consumer)


def tensors_of(node: Node) -> tuple[str, ...]:
    """The tensors of the expression a graph computes, its own temporaries left out."""
    made = {branch.temporary.tensor for branch in branches(node)}
    used = (
        access.tensor
        for _, nest in leaves(node)
        for access in (*nest.inputs, nest.output)
        if access.tensor not in made
    )
    return tuple(dict.fromkeys(used))


def output_of(node: Node) -> Access:
    """What the expression of a graph adds into."""
    while isinstance(node, Branch):
        node = node.consumer
    return node.output


def sparse_loops(statement: Statement, node: Node) -> dict[str, tuple[str, ...]]:
    """Loop index to the sparse tensors whose stored coordinates it walks, for ``node``'s loops.

    The tensors of the whole expression below the loop count, its output included (2.7).
    """
    walked: dict[str, tuple[str, ...]] = {}
    for tensor in tensors_of(node):
        for index in statement.compressed_indices(tensor):
            if index in node.loops:
                walked[index] = (*walked.get(index, ()), tensor)
    return walked


def tree_text(node: Node) -> str:
    """Nested tuples of loop names."""
    match node:
        case Nest():
            comma = "," if len(node.loops) == 1 else ""
            return f"({', '.join(node.loops)}{comma})"
        case Branch():
            parts = (*node.loops, tree_text(node.producer), tree_text(node.consumer))
            return f"({', '.join(parts)})"
        case _:
            assert_never(node)


def _text(statement: Statement, node: Node) -> str:
    walked = sparse_loops(statement, node)
    loops = ", ".join(f"{index}'" if index in walked else index for index in node.loops)
    match node:
        case Nest():
            product = " ".join(map(str, node.inputs))
            head = f"{loops}: " if loops else ""
            return f"{head}{node.output} += {product}"
        case Branch():
            inside = ", ".join(_text(statement, child) for child in (node.producer, node.consumer))
            return f"{loops} < {node.temporary}; {inside} >".lstrip()
        case _:
            assert_never(node)
