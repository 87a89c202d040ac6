"""Symbolic costs of an iteration graph (5.1 and 5.2 of the SparseAuto paper).

Time is a sum of products of loop lengths, one product per statement; memory the sum of the sizes
of the temporaries that are not scalars, in elements. A loop over index ``j`` is ``j`` long, or
``jpos``, the mean fibre length, where it walks stored coordinates: ``i*jpos`` is the number of
stored (i, j).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import assert_never

from teir.search.sparse.graph import Branch, IterationGraph, Nest, Node, branches, sparse_loops
from teir.search.sparse.statement import Statement

Product = tuple[str, ...]
"""Symbols in increasing order."""
Sum = tuple[Product, ...]
"""Products in increasing order, repeated where they are added several times."""

FIBRE = "pos"
"""``jpos`` is the mean number of stored coordinates of a fibre along j."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Iterations and elements of temporaries; equal costs are one complexity class."""

    time: Sum
    memory: Sum

    def dense(self) -> Cost:
        """With extents instead of fibre lengths."""
        return Cost(time=_dense(self.time), memory=self.memory)


def cost_of(graph: IterationGraph) -> Cost:
    """The cost of a schedule."""
    time = tuple(sorted(length for length, _ in leaf_lengths(graph)))
    sizes = (branch.temporary.indices for branch in branches(graph.root))
    memory = tuple(sorted(tuple(sorted(indices)) for indices in sizes if indices))
    return Cost(time=time, memory=memory)


def leaf_lengths(graph: IterationGraph) -> list[tuple[Product, Nest]]:
    """The number of iterations of every statement, in execution order."""

    def below(node: Node, above: Product) -> list[tuple[Product, Nest]]:
        walked = sparse_loops(graph.statement, node)
        own = (f"{index}{FIBRE}" if index in walked else index for index in node.loops)
        inner = (*above, *own)
        match node:
            case Nest():
                return [(tuple(sorted(inner)), node)]
            case Branch():
                return [*below(node.producer, inner), *below(node.consumer, inner)]
            case _:
                assert_never(node)

    return below(graph.root, ())


def loop_depth(graph: IterationGraph) -> int:
    """The number of loops around the deepest statement (5.3)."""
    return max(len(length) for length, _ in leaf_lengths(graph))


def memory_depth(graph: IterationGraph) -> int:
    """The largest rank of a temporary (5.2)."""
    return max((len(branch.temporary.indices) for branch in branches(graph.root)), default=0)


def value(total: Sum, sizes: Mapping[str, float]) -> float:
    """The sum at these extents and fibre lengths."""
    return float(sum(prod(sizes[symbol] for symbol in product) for product in total))


def _dense(total: Sum) -> Sum:
    return tuple(
        sorted(tuple(sorted(symbol.removesuffix(FIBRE) for symbol in part)) for part in total)
    )


def print_time(statement: Statement, total: Sum) -> str:
    """As the paper writes it: ``LM(nnz(B_ijk) + NK)``; the common extents first."""
    split = [_stored_prefixes(statement, product) for product in total]
    first = split[0][1]
    common = tuple(symbol for symbol in first if all(symbol in rest for _, rest in split))
    if len(split) == 1:
        common = ()
    terms = [
        _words(stored, tuple(symbol for symbol in rest if symbol not in common))
        for stored, rest in split
    ]
    counted = [
        term if terms.count(term) == 1 else f"{terms.count(term)} {term}"
        for term in dict.fromkeys(terms)
    ]
    inside = " + ".join(counted)
    return f"{_words((), common)}({inside})" if common else inside


def print_memory(total: Sum) -> str:
    """Sums of products of extents, 0 for scalars only."""
    return " + ".join(_words((), product) for product in total) or "0"


def _stored_prefixes(statement: Statement, product: Product) -> tuple[tuple[str, ...], Product]:
    """Stored prefixes of levels as ``nnz(B_ij)``, and the symbols that are left."""
    left = set(product)
    words = []
    for access in (*statement.inputs, statement.output):
        levels = statement.level_indices(access.tensor)
        compressed = statement.compressed_indices(access.tensor)
        for length in range(len(levels), 0, -1):
            prefix = [f"{i}{FIBRE}" if i in compressed else i for i in levels[:length]]
            if prefix[-1].endswith(FIBRE) and left.issuperset(prefix):
                left -= set(prefix)
                words.append(f"nnz({access.tensor}_{''.join(levels[:length])})")
                break
    return tuple(words), tuple(sorted(left))


def _words(stored: tuple[str, ...], extents: Product) -> str:
    capitals = [
        symbol.removesuffix(FIBRE).upper() + ("'" if symbol.endswith(FIBRE) else "")
        for symbol in extents
    ]
    is_short = all(len(word) == 1 for word in capitals)
    product = ("" if is_short else "·").join(capitals)
    return " ".join((*stored, product)).strip() or "1"
