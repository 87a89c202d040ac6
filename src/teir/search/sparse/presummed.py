"""Schedules that sum a factor along an index that nothing else has, before it is multiplied.

    y[i] = B[i,j] C[j,k]   ->   < V1[j]; j, k': V1[j] += C[j,k], i, j': y[i] += B[i,j] V1[j] >

The nest adds every element of C once for each element of B that meets it; this adds it once. What
is left is a product of fewer indices, with a frontier of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod

from teir.expr.index_notation import Access
from teir.search.sparse.graph import Branch, IterationGraph, Nest
from teir.search.sparse.hoisting import apart, reading, unused
from teir.search.sparse.statement import Statement

Schedules = Callable[[Statement], Iterator[IterationGraph]]


def presummed(
    statement: Statement,
    sizes: Mapping[str, float],
    most_elements: float,
    schedules: Schedules,
    frontier: Schedules,
) -> Iterator[IterationGraph]:
    """Every factor with such an index summed first, before every schedule of the rest.

    After the first one come ``schedules``, with sums of other factors among them; after the others
    ``frontier``, without. The sum has at most ``most_elements`` elements.
    """
    after = schedules
    for access in statement.inputs:
        kept = _kept(statement, access)
        size = prod(sizes[index] for index in kept)
        if len(kept) == len(access.indices) or size > most_elements:
            continue
        rest = tuple(one for one in statement.inputs if one is not access)
        temporary = Access(tensor=unused(statement, "V", 1), indices=kept)
        left = reading(statement, rest, temporary)
        loops = statement.level_indices(access.tensor)
        producer = Nest(output=temporary, inputs=(access,), loops=loops)
        for graph in after(left):
            consumer = apart(graph.root, {one.tensor for one in (access, *left.accesses)})
            root = Branch(loops=(), temporary=temporary, producer=producer, consumer=consumer)
            yield IterationGraph(statement=statement, root=root)
        after = frontier


def _kept(statement: Statement, access: Access) -> tuple[str, ...]:
    """The indices of a factor that another one or the result has; all where it is alone."""
    if len(statement.inputs) < 2:
        return access.indices
    others = [one for one in statement.accesses if one is not access]
    known = {index for one in others for index in one.indices}
    return tuple(index for index in access.indices if index in known)
