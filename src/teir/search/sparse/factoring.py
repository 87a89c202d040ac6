"""Factors taken out of sums before a schedule becomes a program: the same value, fewer products.

    j < t; k: t += B C[k] D[k], l: A[l] += t E[l] >   ->   t += C[k] D[k],  A[l] += B t E[l]
    j, k, l: A[j,l] += C[j,k] D[j,k] E[k,l]   ->   j < t[k]; k: t[k] += C D, k, l: A += t[k] E >
    j, k: A[j] += B[j] C[k] D[k]   ->   j < t; k: t += C[k] D[k], A[j] += B[j] t >

A sum that is left of two factors along one dense loop is what dot-product kernels form.
"""

from __future__ import annotations

from dataclasses import replace

from teir.expr.index_notation import Access
from teir.search.sparse.graph import Branch, IterationGraph, Nest, Node, branches, sparse_loops
from teir.search.sparse.statement import Statement


def factored(graph: IterationGraph) -> IterationGraph:
    """The graph with constant factors moved out of the sums of scalars."""
    used = {access.tensor for access in graph.statement.accesses}
    used |= {branch.temporary.tensor for branch in branches(graph.root)}
    name = next(name for number in range(len(used) + 1) if (name := f"S{number}") not in used)
    root = _factored(graph.statement, graph.root, name)
    return graph if root is graph.root else replace(graph, root=root)


def _factored(statement: Statement, node: Node, name: str) -> Node:
    if isinstance(node, Nest):
        return _split(statement, node, name)
    producer = _factored(statement, node.producer, f"{name}p")
    consumer = _factored(statement, node.consumer, f"{name}c")
    if producer is not node.producer or consumer is not node.consumer:
        node = replace(node, producer=producer, consumer=consumer)
    return _moved(node)


def _moved(branch: Branch) -> Branch:
    """Factors of a scalar's producer that its loops do not move become the consumer's."""
    producer, consumer = branch.producer, branch.consumer
    if not isinstance(producer, Nest) or not isinstance(consumer, Nest):
        return branch
    if branch.temporary.indices or not producer.loops:
        return branch
    fixed, moving = _parted(producer.inputs, producer.loops)
    if not fixed or not moving:
        return branch
    return replace(
        branch,
        producer=replace(producer, inputs=moving),
        consumer=replace(consumer, inputs=(*fixed, *consumer.inputs)),
    )


def _split(statement: Statement, nest: Nest, name: str) -> Node:
    """A nest below a sparse loop gets a scalar for the sum over its dense loop."""
    walked = sparse_loops(statement, nest)
    if not walked:
        return _rows(nest, name)
    kept = len(nest.loops)
    while kept and nest.loops[kept - 1] not in walked:
        kept -= 1
    inner = nest.loops[kept:]
    if not kept or len(inner) != 1 or inner[0] in nest.output.indices:
        return nest
    fixed, moving = _parted(nest.inputs, inner)
    if not fixed or len(moving) != 2:
        return nest
    if sparse_loops(statement, replace(nest, loops=nest.loops[:kept])) != walked:
        return nest
    scalar = Access(tensor=name, indices=())
    return Branch(
        loops=nest.loops[:kept],
        temporary=scalar,
        producer=Nest(output=scalar, inputs=moving, loops=inner),
        consumer=Nest(output=nest.output, inputs=(*fixed, scalar), loops=()),
    )


def _rows(nest: Nest, name: str) -> Node:
    """A dense nest multiplies what its vectors share once: a row of products, then a product."""
    loops = nest.loops
    if len(nest.inputs) < 3 or len(loops) < 3 or not nest.output.indices:
        return nest
    fixed, moving = _parted(nest.inputs, nest.output.indices[-1:])
    if len(fixed) < 2 or len(moving) != 1 or nest.output.indices[-1] not in loops[1:]:
        return nest
    if any(loops[0] not in access.indices for access in fixed):
        return nest
    indices = tuple(one for one in loops[1:] if any(one in access.indices for access in fixed))
    if not indices:
        return nest
    row = Access(tensor=name, indices=indices)
    return Branch(
        loops=loops[:1],
        temporary=row,
        producer=Nest(output=row, inputs=fixed, loops=indices),
        consumer=Nest(output=nest.output, inputs=(row, *moving), loops=loops[1:]),
    )


def _parted(
    inputs: tuple[Access, ...], loops: tuple[str, ...]
) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
    """The inputs no loop of ``loops`` moves, and the others."""
    fixed = tuple(one for one in inputs if not set(one.indices) & set(loops))
    return fixed, tuple(one for one in inputs if one not in fixed)
