"""Schedules that multiply dense operands with each other before a sparse one is walked.

    < T1[j,l]; j, l, k: T1[j,l] += C[j,k] D[k,l], i, j', l: A[i,l] += B[i,j] T1[j,l] >

By the count of iterations such a product loses wherever a sparse operand has fewer elements than
the product; as native code it is done in register blocks, or read many times afterwards. What is
left is a product of fewer operands, with a frontier of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from math import prod

from teir.arrays.levels import dense_format
from teir.expr.index_notation import Access
from teir.search.sparse.graph import Branch, IterationGraph, Nest, Node, branches
from teir.search.sparse.loop_trees import LARGEST_RANK
from teir.search.sparse.renamed import renamed
from teir.search.sparse.statement import Statement

Frontier = Callable[[Statement], Iterator[IterationGraph]]


def hoisted(
    statement: Statement,
    sizes: Mapping[str, float],
    most_elements: float,
    frontier: Frontier,
    number: int = 1,
) -> Iterator[IterationGraph]:
    """Every product of dense operands that share an index, before every schedule of the rest.

    The product has at most two dimensions and ``most_elements`` elements. ``frontier`` gives the
    schedules of what is left, which may be a product of two.
    """
    for made, rest in _parted(statement):
        used = {index for access in (statement.output, *rest) for index in access.indices}
        indices = tuple(index for index in _indices(statement, made) if index in used)
        size = prod(sizes[index] for index in indices)
        if not 0 < len(indices) <= LARGEST_RANK or size > most_elements:
            continue
        temporary = Access(tensor=unused(statement, "H", number), indices=indices)
        left = reading(statement, rest, temporary)
        summed = tuple(index for index in _indices(statement, made) if index not in used)
        producer = Nest(output=temporary, inputs=made, loops=(*indices, *summed))
        graphs = [*frontier(left), *hoisted(left, sizes, most_elements, frontier, number + 1)]
        for graph in graphs:
            consumer = apart(graph.root, {access.tensor for access in (*made, *left.accesses)})
            root = Branch(loops=(), temporary=temporary, producer=producer, consumer=consumer)
            yield IterationGraph(statement=statement, root=root)


def _parted(
    statement: Statement,
) -> Iterator[tuple[tuple[Access, ...], tuple[Access, ...]]]:
    """Dense operands of which each shares an index with one before it, and the other operands."""
    dense = [
        access
        for access in statement.inputs
        if access.indices and not statement.compressed_indices(access.tensor)
    ]
    for count in range(2, len(dense) + 1):
        for made in combinations(dense, count):
            rest = tuple(access for access in statement.inputs if access not in made)
            seen = set(made[0].indices)
            for access in made[1:]:
                seen |= set(access.indices) if seen & set(access.indices) else set()
            if rest and all(seen.issuperset(access.indices) for access in made):
                yield made, rest


def _indices(statement: Statement, made: tuple[Access, ...]) -> tuple[str, ...]:
    """The indices of a product, the last index of the output last."""
    found = dict.fromkeys(index for access in made for index in access.indices)
    last = statement.output.indices[-1:]
    return (*(index for index in found if index not in last), *(i for i in last if i in found))


def reading(statement: Statement, rest: tuple[Access, ...], temporary: Access) -> Statement:
    """The statement that reads the product."""
    formats = dict(
        zip((access.tensor for access in statement.accesses), statement.formats, strict=True)
    )
    formats[temporary.tensor] = dense_format(len(temporary.indices))
    inputs = (*rest, temporary)
    return replace(
        statement,
        inputs=inputs,
        formats=tuple(formats[access.tensor] for access in (statement.output, *inputs)),
    )


def apart(node: Node, tensors: set[str]) -> Node:
    """With no temporary that has the name of one of ``tensors``."""
    temporaries = {branch.temporary.tensor for branch in branches(node)}
    return node if temporaries.isdisjoint(tensors) else renamed(node, temporaries | tensors)


def unused(statement: Statement, letter: str, number: int) -> str:
    """A name for a temporary, with the letter and the number or the next one that is free."""
    used = {access.tensor for access in statement.accesses}
    return next(name for wish in range(number, 999) if (name := f"{letter}{wish}") not in used)
