"""Symbolic costs of an iteration graph (5.1 and 5.2 of the SparseAuto paper).

Time is a sum of products of loop lengths, one product per statement; memory the sum of the sizes
of the temporaries that are not scalars, in elements. A loop over index ``j`` is ``j`` long, or
``jpos``, the mean fibre length, where it walks stored coordinates: ``i*jpos`` is the number of
stored (i, j).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from teir.search.sparse.graph import IterationGraph, Nest, Node, branches, leaves
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


@dataclass(frozen=True, slots=True)
class Leaf:
    """A statement of a graph: its iterations, all loops around it, the stored coordinates walked.

    ``walked`` maps an index to the tensors whose coordinates its loop visits.
    """

    iterations: Product
    loops: tuple[str, ...]
    walked: Mapping[str, tuple[str, ...]]
    nest: Nest


@dataclass(frozen=True, slots=True)
class Costing:
    """What costs need to know of a statement, looked up once for many graphs."""

    compressed: Mapping[str, tuple[str, ...]]
    """The indices of the compressed levels of every sparse tensor."""
    innermost: Mapping[str, str]
    """The index of the last level, whose neighbours are adjacent in memory."""

    def cost(self, graph: IterationGraph, leaves: Sequence[Leaf]) -> Cost:
        """The cost of a graph with these leaves."""
        sizes = (branch.temporary.indices for branch in branches(graph.root))
        return Cost(
            time=tuple(sorted(leaf.iterations for leaf in leaves)),
            memory=tuple(sorted(tuple(sorted(indices)) for indices in sizes if indices)),
        )

    def strided(self, leaves: Sequence[Leaf]) -> Sum:
        """Iterations of the statements whose innermost loop strides over or gathers an operand."""
        return tuple(sorted(leaf.iterations for leaf in leaves if self._is_strided(leaf)))

    def _is_strided(self, leaf: Leaf) -> bool:
        if not leaf.loops:
            return False
        index = leaf.loops[-1]
        walked = leaf.walked.get(index, ())
        for access in (leaf.nest.output, *leaf.nest.inputs):
            if index not in access.indices:
                continue
            if index != self.innermost.get(access.tensor, access.indices[-1]):
                return True
            if walked and access.tensor not in walked:
                return True
        return False

    def leaves(self, graph: IterationGraph) -> list[Leaf]:
        """The statements in execution order."""
        found: list[Leaf] = []
        self._descend(graph.root, (), (), {}, self._used(graph.root, {}), found)
        return found

    def _used(self, node: Node, below: dict[int, frozenset[str]]) -> dict[int, frozenset[str]]:
        """The sparse tensors of the expression of every node, by the node's identity."""
        if isinstance(node, Nest):
            used = frozenset(
                access.tensor
                for access in (node.output, *node.inputs)
                if access.tensor in self.compressed
            )
        else:
            self._used(node.producer, below)
            self._used(node.consumer, below)
            used = below[id(node.producer)] | below[id(node.consumer)]
        below[id(node)] = used
        return below

    def _descend(
        self,
        node: Node,
        above: Product,
        loops: tuple[str, ...],
        outer: Mapping[str, tuple[str, ...]],
        used: Mapping[int, frozenset[str]],
        found: list[Leaf],
    ) -> None:
        walked = dict(outer)
        lengths = list(above)
        mine = used[id(node)]
        for index in node.loops:
            tensors = tuple(tensor for tensor in mine if index in self.compressed[tensor])
            if tensors:
                walked[index] = tensors
            lengths.append(f"{index}{FIBRE}" if tensors else index)
        around = (*loops, *node.loops)
        if isinstance(node, Nest):
            found.append(Leaf(tuple(sorted(lengths)), around, walked, node))
            return
        for child in (node.producer, node.consumer):
            self._descend(child, tuple(lengths), around, walked, used, found)


def costing_of(statement: Statement) -> Costing:
    """The tables of one statement."""
    tensors = [access.tensor for access in statement.accesses if access.indices]
    compressed = {tensor: statement.compressed_indices(tensor) for tensor in tensors}
    return Costing(
        compressed={tensor: indices for tensor, indices in compressed.items() if indices},
        innermost={tensor: statement.level_indices(tensor)[-1] for tensor in tensors},
    )


def cost_of(graph: IterationGraph) -> Cost:
    """The cost of a schedule."""
    costing = costing_of(graph.statement)
    return costing.cost(graph, costing.leaves(graph))


def loop_depth(graph: IterationGraph) -> int:
    """The number of loops around the deepest statement (5.3)."""
    return max(len(loops) for loops, _ in leaves(graph.root))


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
