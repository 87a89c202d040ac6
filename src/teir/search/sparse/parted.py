"""Products of many factors, scheduled in parts.

    A = B C D E F   ->   < T; T = B C D E, A = T F >

Schedules of five factors are a hundred million, and there is no end to those of more. A group of
up to four factors is stored as a dense temporary, its schedules and those of the rest are searched
as products of fewer factors. The group that promises the fewest iterations is taken.

Products of three and four factors come here too where their loops have more orders than are
searched (`teir.search.sparse.ranked`); one group is taken then, for each of two halves would be
parted twice again: networks of five to nine factors of up to eight indices took up to 4.0 s on
Golden Cove, and take up to 1.9, for schedules 6% slower by prediction in the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from teir.arrays.levels import dense_format
from teir.expr.index_notation import Access
from teir.search.sparse.cost import FIBRE
from teir.search.sparse.graph import Branch, IterationGraph, Nest, Node, branches, sparse_loops
from teir.search.sparse.renamed import renamed
from teir.search.sparse.statement import Statement, first_order

MOST_FACTORS = 4
"""Factors of a product whose schedules are searched together."""
_COMPARED = MOST_FACTORS + 1
"""Factors of which two groups are compared; the best one is taken of more, and of fewer."""

_MOST_GROUPED = 8
"""Factors up to which groups of up to four are looked at, pairs beyond: thirty have 31,000."""

Search = Callable[[Statement], IterationGraph]


@dataclass(frozen=True, slots=True)
class _Parts:
    """A product that is stored, and the product that reads it."""

    made: Statement
    left: Statement
    iterations: float


def parted(
    statement: Statement, symbols: Mapping[str, float], most_elements: float, search: Search
) -> Iterator[IterationGraph]:
    """A schedule for each of the best ways to store one product of some factors first.

    ``symbols`` are extents and mean fibre lengths (``jpos``), ``most_elements`` what a temporary
    may have, ``search`` gives the schedule of a product of fewer factors.
    """
    found = sorted(
        _parts(statement, symbols, most_elements), key=lambda one: (one.iterations, str(one.made))
    )
    for parts in found[: 2 if len(statement.inputs) == _COMPARED else 1]:
        producer, consumer = search(parts.made), search(parts.left)
        temporary = parts.made.output
        used = {access.tensor for access in (*statement.accesses, temporary)}
        used |= {
            branch.temporary.tensor
            for graph in (producer, consumer)
            for branch in branches(graph.root)
        }
        root = Branch(
            loops=(),
            temporary=temporary,
            producer=renamed(producer.root, used),
            consumer=renamed(consumer.root, used),
        )
        yield IterationGraph(statement=statement, root=_joined(statement, root))


def _parts(
    statement: Statement, symbols: Mapping[str, float], most_elements: float
) -> Iterator[_Parts]:
    inputs = statement.inputs
    most = MOST_FACTORS if len(inputs) <= _MOST_GROUPED else 2
    for count in range(2, min(most, len(inputs) - 1) + 1):
        for made in combinations(inputs, count):
            if not _is_connected(made):
                continue
            rest = tuple(access for access in inputs if access not in made)
            used = {index for access in (statement.output, *rest) for index in access.indices}
            own = dict.fromkeys(index for access in made for index in access.indices)
            indices = tuple(index for index in own if index in used)
            if prod(symbols[index] for index in indices) > most_elements:
                continue
            temporary = Access(tensor=_fresh(statement), indices=indices)
            first = _statement(statement, temporary, made)
            then = _statement(statement, statement.output, (*rest, temporary))
            if first_order(first) is None or first_order(then) is None:
                continue
            iterations = _iterations(first, symbols) + _iterations(then, symbols)
            yield _Parts(first, then, iterations)


def _is_connected(made: tuple[Access, ...]) -> bool:
    seen, left = set(made[0].indices), list(made[1:])
    while left:
        near = next((one for one in left if seen & set(one.indices)), None)
        if near is None:
            return False
        seen |= set(near.indices)
        left.remove(near)
    return True


def _statement(whole: Statement, output: Access, inputs: tuple[Access, ...]) -> Statement:
    """A part of a statement; what it does not know is dense."""
    formats = tuple(
        whole.format_of(access.tensor) or dense_format(len(access.indices))
        for access in (output, *inputs)
    )
    return Statement(output=output, inputs=inputs, formats=formats)


def _iterations(statement: Statement, symbols: Mapping[str, float]) -> float:
    """Of pairs of factors one after the other; a lower count than one nest of loops has."""
    walked = {
        index
        for access in statement.inputs
        for index in statement.compressed_indices(access.tensor)
    }
    total, inputs = 0.0, list(statement.inputs)
    done = inputs.pop(0)
    while inputs:
        following = min(
            inputs,
            key=lambda one: _length({*done.indices, *one.indices}, walked, symbols),
        )
        inputs.remove(following)
        both = dict.fromkeys((*done.indices, *following.indices))
        total += _length(both, walked, symbols)
        used = {index for one in (statement.output, *inputs) for index in one.indices}
        done = replace(done, indices=tuple(index for index in both if index in used), columns=())
    return total


def _length(
    indices: Mapping[str, None] | set[str], walked: set[str], symbols: Mapping[str, float]
) -> float:
    return prod(
        symbols.get(f"{index}{FIBRE}", symbols[index]) if index in walked else symbols[index]
        for index in indices
    )


def _joined(statement: Statement, branch: Branch) -> Branch:
    """Row by row of the temporary, where both halves can go along the rows of the result.

    < P[i,l]; i, j: P[i,l] += .., i, l: .. P[i,l] >   ->   i < P[l]; j: P[l] += .., l: .. P[l] >
    """
    producer, consumer, temporary = branch.producer, branch.consumer, branch.temporary
    first = producer.loops[:1]
    if not first or first[0] not in temporary.indices:
        return branch
    (row,) = first
    if row not in statement.output.indices:
        return branch
    if any(row in statement.compressed_indices(one.tensor) for one in statement.accesses):
        return branch
    is_free = isinstance(consumer, Nest) and not sparse_loops(statement, consumer)
    if row not in consumer.loops or not (is_free or consumer.loops[0] == row):
        return branch
    rows = replace(temporary, indices=_without(temporary.indices, row), columns=())
    below = (
        replace(one, loops=_without(one.loops, row))
        for one in (_by_row(producer, rows), _by_row(consumer, rows))
    )
    return Branch(loops=first, temporary=rows, producer=next(below), consumer=next(below))


def _by_row(node: Node, rows: Access) -> Node:
    """With ``rows`` in place of the temporary of its name."""

    def of(access: Access) -> Access:
        return rows if access.tensor == rows.tensor else access

    match node:
        case Nest():
            return replace(node, output=of(node.output), inputs=tuple(map(of, node.inputs)))
        case Branch():
            producer, consumer = _by_row(node.producer, rows), _by_row(node.consumer, rows)
            return replace(node, producer=producer, consumer=consumer)


def _without(indices: tuple[str, ...], index: str) -> tuple[str, ...]:
    return tuple(one for one in indices if one != index)


def _fresh(statement: Statement) -> str:
    used = {access.tensor for access in statement.accesses}
    return next(name for number in range(1, 999) if (name := f"P{number}") not in used)
