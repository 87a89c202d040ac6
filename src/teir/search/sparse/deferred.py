"""Schedules that multiply the sum over a fibre, not every element of it, with what stays there.

    i, k', l', j: A[i,j] += B[i,k,l] C[l,j] D[k,j]

    i, k' < T1[j]; l', j: T1[j] += B[i,k,l] C[l,j], j: A[i,j] += T1[j] D[k,j] >

By the count of iterations this loses to the nest, which has one for each element; as native code an
element costs one multiplication less.
"""

from __future__ import annotations

from dataclasses import replace

from teir.search.sparse.graph import Branch, IterationGraph, Nest, Node, branches, sparse_loops
from teir.search.sparse.moves import split
from teir.search.sparse.statement import Statement


def deferred(graph: IterationGraph) -> IterationGraph | None:
    """The graph with its nests of two or more sparse loops split; None where there are none."""
    used = {access.tensor for access in graph.statement.accesses}
    used |= {branch.temporary.tensor for branch in branches(graph.root)}
    name = next(name for number in range(1, len(used) + 2) if (name := f"T{number}") not in used)
    root = _deferred(graph.statement, graph.root, name)
    return None if root is graph.root else replace(graph, root=root)


def _deferred(statement: Statement, node: Node, name: str) -> Node:
    """One nest of the node split, the first there is."""
    if isinstance(node, Nest):
        return _split(statement, node, name)
    producer = _deferred(statement, node.producer, name)
    if producer is not node.producer:
        return replace(node, producer=producer)
    consumer = _deferred(statement, node.consumer, name)
    return node if consumer is node.consumer else replace(node, consumer=consumer)


def _split(statement: Statement, nest: Nest, name: str) -> Node:
    walked = [index for index in nest.loops if index in sparse_loops(statement, nest)]
    if len(walked) < 2 or walked[-1] in nest.output.indices:
        return nest
    moving = tuple(access for access in nest.inputs if walked[-1] in access.indices)
    fixed = tuple(access for access in nest.inputs if walked[-1] not in access.indices)
    if len(moving) < 2 or not fixed:
        return nest
    if any(statement.compressed_indices(access.tensor) for access in fixed):
        return nest
    made = split(replace(nest, inputs=(*moving, *fixed)), len(moving), True, name)
    is_row = len(made.temporary.indices) == 1 and made.loops[-1:] == (walked[-2],)
    return made if is_row and _is_free(made) else nest


def _is_free(made: Branch) -> bool:
    """True where the consumer runs along the row alone."""
    return isinstance(made.consumer, Nest) and made.consumer.loops == made.temporary.indices
