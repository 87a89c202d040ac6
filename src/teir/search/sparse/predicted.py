"""The time a schedule takes as native code, predicted from extents and mean fibre lengths.

Counted are what `teir.lower.walked` and `teir.passes.row_blocks` make of a graph: calls of kernels,
vectors of multiply-adds, stored elements whose rows are gathered, visits of sparse loops that no
kernel walks, and bytes of temporaries and outputs that leave the caches. Speeds are those of one
core in round figures: only their ratios choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import assert_never

from teir.expr.index_notation import Access
from teir.passes.part_sizes import PartCache
from teir.search.sparse.cost import FIBRE
from teir.search.sparse.factoring import factored
from teir.search.sparse.fibre_parts import FibreParts, fibre_parts
from teir.search.sparse.graph import Branch, IterationGraph, Nest, Node, sparse_loops
from teir.search.sparse.statement import Statement
from teir.target import LINE_BYTES

_CALL = 35.0
"""Nanoseconds of one kernel call from the table."""
_VISIT = 18.0
"""One visit of a sparse loop that is walked by the table."""
_BLOCKED = 0.33
"""One vector of multiply-adds in a register block."""
_STREAMED = 0.6
"""One vector of multiply-adds whose factor comes from a near cache for every one."""
_TURNED = 0.75
"""One vector of multiply-adds of a product none of whose operands has the result's last index."""
_SCALAR = 1.2
"""One multiply-add that no vector holds."""
_CHAINED = 0.3
"""One multiply-add of fibres that are summed to numbers: several chains, a vector at a time."""
_ROWS_OF_CALL = 64
"""Rows of a result that one call forms."""
_ROW = 3.0
"""One row of a single vector among the rows of a call. Longer ones wait for their lines as long as
a call takes."""
_GATHER = 0.9
"""One stored element: its value, its coordinate, the place of a row."""
_BYTE = 0.08
"""One byte to or from memory."""
_FAR_BYTE = 0.05
"""One byte of scattered rows from a third cache that is far."""
_UPDATE = 4
"""Bytes moved for one byte of a result that is read and written again, not just written once."""
_PART = 15.0
"""One part of a fibre: its call, its bounds, and what is misforeseen at its end."""
_VECTOR_BYTES = 64
_BLOCK = 24
"""Vectors of the register block of a kernel that walks fibres; it walks them once for each."""
_SECOND_CACHE = 1 << 20
_FUSED_LEVELS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Extents, mean fibre lengths (``jpos``), bytes of an element, bytes of the last cache.

    ``parts``: the cache for which fibres are walked in parts, None where they are not.
    """

    statement: Statement
    symbols: Mapping[str, float]
    element_bytes: int
    cache_bytes: int
    parts: PartCache | None = None

    @property
    def lanes(self) -> float:
        return _VECTOR_BYTES / self.element_bytes

    def length(self, index: str, walked: Mapping[str, object]) -> float:
        """Visits of one run of a loop."""
        if index in walked:
            return self.symbols.get(f"{index}{FIBRE}", self.symbols[index])
        return self.symbols[index]

    def bytes_of(self, access: Access) -> float:
        return prod(self.symbols[index] for index in access.indices) * self.element_bytes


def predicted_seconds(graph: IterationGraph, problem: Problem) -> float:
    """Seconds of one run on one thread."""
    return 1e-9 * _root(problem, factored(graph).root)


def _root(problem: Problem, root: Node) -> float:
    """Nanoseconds of one run of what no loop is around; halves without common loops are such."""
    if isinstance(root, Branch) and not root.loops:
        size = problem.bytes_of(root.temporary)
        nanoseconds = _CALL + size / _VECTOR_BYTES * 0.1 + _far(problem, size, 2 * size)
        return nanoseconds + _root(problem, root.producer) + _root(problem, root.consumer)
    is_blocked = isinstance(root, Branch) and len(root.loops) == 1
    place = _Place(1.0, (), 0, False, _parts(problem, root))
    return _node(problem, root, place, blocks=is_blocked)


def _parts(problem: Problem, root: Node) -> FibreParts | None:
    if problem.parts is None:
        return None
    sizes = (problem.symbols, problem.element_bytes, problem.parts)
    return fibre_parts(problem.statement, root, *sizes)


@dataclass(frozen=True, slots=True)
class _Place:
    """How often a node runs, the loops above, how many of the last are sparse and its own only.

    ``is_half``: the node is the consumer of a sparse loop that is cut in two. ``parts``: what is
    walked in parts below the same root.
    """

    times: float
    above: tuple[str, ...]
    walked: int
    is_half: bool
    parts: FibreParts | None


def _node(problem: Problem, node: Node, place: _Place, *, blocks: bool) -> float:
    match node:
        case Nest():
            return _nest(problem, node, place, blocks=blocks)
        case Branch():
            return _branch(problem, node, place, blocks=blocks)
        case _:
            assert_never(node)


def _branch(problem: Problem, node: Branch, place: _Place, *, blocks: bool) -> float:
    walked = sparse_loops(problem.statement, node)
    times = place.times
    nanoseconds = 0.0
    for number, index in enumerate(node.loops):
        times *= problem.length(index, walked)
        is_cut = number == len(node.loops) - 1 and _is_cut(node, walked)
        if index in walked and not is_cut:
            nanoseconds += _VISIT * times
    size = problem.bytes_of(node.temporary)
    above = (*place.above, *node.loops)
    is_half = _is_cut(node, walked)
    by_rows = is_half and _goes_by_rows(problem, node)
    if node.temporary.indices:
        zeroing = 0.0 if by_rows else times / 48 if blocks else times
        nanoseconds += _CALL * zeroing + times * size / _VECTOR_BYTES * 0.1
        nanoseconds += _far(problem, size, 2 * size * times)
    first = _Place(times, above, int(by_rows), False, place.parts)
    then = _Place(times, above, 0, is_half, place.parts)
    nanoseconds += _node(problem, node.producer, first, blocks=False)
    return nanoseconds + _node(problem, node.consumer, then, blocks=blocks)


def _is_cut(node: Branch, walked: Mapping[str, object]) -> bool:
    """True where a kernel uses the temporaries of many positions at once."""
    if not node.loops or node.loops[-1] not in walked or not isinstance(node.consumer, Nest):
        return False
    consumer = node.consumer
    return set(consumer.loops) <= set(consumer.output.indices)


def _goes_by_rows(problem: Problem, node: Branch) -> bool:
    """True where one kernel call makes the temporaries of many positions."""
    producer = node.producer
    if not node.temporary.indices or not isinstance(producer, Nest):
        return not node.temporary.indices
    return producer.loops[:1] != () and producer.loops[0] in sparse_loops(
        problem.statement, producer
    )


def _nest(problem: Problem, nest: Nest, place: _Place, *, blocks: bool) -> float:
    walked = sparse_loops(problem.statement, nest)
    kept = len(nest.loops)
    while kept and nest.loops[kept - 1] not in walked:
        kept -= 1
    outer, inner = nest.loops[:kept], nest.loops[kept:]
    fused = 0
    sums = all(index in nest.output.indices for index in inner)
    while sums and fused < min(_FUSED_LEVELS, kept) and outer[kept - 1 - fused] in walked:
        if outer[kept - 1 - fused] in nest.output.indices and len(nest.inputs) > 1:
            break
        fused += 1
    visits = place.times
    nanoseconds = 0.0
    calls = visits
    steps = 0.0
    for number, index in enumerate(outer):
        visits *= problem.length(index, walked)
        steps += visits if number >= kept - fused else 0.0
        if number < kept - fused:
            calls = visits
            nanoseconds += _VISIT * visits if index in walked else 2.0 * visits
    last = place.above[-1:]
    if place.is_half or place.walked:
        calls /= max(1.0, problem.length(last[0], {last[0]: True}))
    elements = prod(problem.symbols[index] for index in inner)
    is_gather = fused > 0 or place.is_half or place.walked > 0
    nanoseconds += _GATHER * visits if is_gather else 0.0
    if is_gather and len(inner) > 1 and not blocks:
        again = max(0.0, elements / problem.lanes / _BLOCK - 1.0)
        nanoseconds += _GATHER * again * (steps or visits)
    vector = _vector(nest, inner)
    if vector is None and not inner and fused and not place.above:
        return nanoseconds + calls / _ROWS_OF_CALL * _CALL + visits * _CHAINED
    if vector is None:
        rate = _SCALAR
        if not is_gather and len(inner) > 1 and _is_turned(nest, inner):
            calls, rate = (calls / 12 if blocks else calls), _TURNED / problem.lanes
        return nanoseconds + calls * _CALL + visits * elements * rate
    is_block = len(inner) > 1 and (blocks or place.is_half or len(inner) > 2 or not place.above)
    rate = _BLOCKED if is_block or (is_gather and len(inner) == 1) else _STREAMED
    calls = calls / 12 if blocks and len(inner) > 1 else calls
    vectors = visits * max(1.0, problem.symbols[vector] / problem.lanes)
    vectors *= elements / problem.symbols[vector]
    is_short = len(inner) == 1 and problem.symbols[vector] <= problem.lanes
    if fused and is_short and not place.above:
        return nanoseconds + calls * (_ROW + _CALL / _ROWS_OF_CALL) + vectors * rate
    nanoseconds += calls * _CALL + vectors * rate * (1.0 + 0.4 * max(0, len(nest.inputs) - 2))
    return nanoseconds + _traffic(problem, nest, inner, visits, place, blocks=blocks)


def _vector(nest: Nest, inner: tuple[str, ...]) -> str | None:
    """The loop along which vectors lie; None where elements are computed one by one."""
    for index in reversed(inner):
        touched = [one for one in (nest.output, *nest.inputs) if index in one.indices]
        if index in nest.output.indices and all(one.indices[-1] == index for one in touched):
            return index
    is_dot = len(inner) == 1 and not nest.output.indices and len(nest.inputs) == 2
    is_dot = is_dot and all(one.indices[-1:] == inner for one in nest.inputs)
    return inner[0] if is_dot else None


def _is_turned(nest: Nest, inner: tuple[str, ...]) -> bool:
    """True for a product of two whose elements lie in vectors, but not along the result's."""
    last = [access.indices[-1] for access in nest.inputs if access.indices]
    return len(last) == 2 and all(index in inner for index in last)


def _traffic(
    problem: Problem,
    nest: Nest,
    inner: tuple[str, ...],
    visits: float,
    place: _Place,
    *,
    blocks: bool,
) -> float:
    """Nanoseconds of rows that come from beyond the second cache, and of outputs that go there."""
    nanoseconds = 0.0
    runs = visits / 48 if blocks and place.times > 1 else visits
    parts = place.parts if place.parts is not None and place.parts.nest is nest else None
    for access in nest.inputs:
        if parts is not None and access == parts.gathered:
            nanoseconds += _in_parts(problem, parts)
            continue
        tile = prod(problem.symbols[index] for index in access.indices if index in inner)
        is_scattered = _is_scattered(problem.statement, access, inner)
        row = tile * problem.element_bytes
        row += _split_bytes(problem.statement, access) if is_scattered else 0
        moved = row * (visits if tile < 4096 else runs)
        nanoseconds += _far(problem, problem.bytes_of(access), moved, is_scattered=is_scattered)
    tile = prod(problem.symbols[index] for index in nest.output.indices if index in inner)
    if tile * problem.element_bytes > _SECOND_CACHE // 4:
        moved = (_UPDATE if runs > 1 else 1) * tile * problem.element_bytes * runs
        nanoseconds += _far(problem, problem.bytes_of(nest.output), moved)
    return nanoseconds


def _in_parts(problem: Problem, parts: FibreParts) -> float:
    """Nanoseconds that parts of fibres add: all rows come near once, and sums are formed again."""
    size = problem.bytes_of(parts.gathered)
    again = (parts.walks - 1) * parts.formed / problem.lanes * _STREAMED
    return _far(problem, size, size) + _PART * parts.walks * parts.fibres + again


def _is_scattered(statement: Statement, access: Access, inner: tuple[str, ...]) -> bool:
    """Whether fibres of a deeper level choose rows of an operand.

    Fibres of matrices have neighbours that gather the same lines.
    """
    last = access.indices[-1:]
    deep = {i for one in statement.inputs for i in statement.compressed_indices(one.tensor)[1:]}
    is_row = last != () and last[0] in inner and last[0] not in deep
    return is_row and not deep.isdisjoint(access.indices)


def _split_bytes(statement: Statement, access: Access) -> int:
    """What a scattered row of an operand moves beside itself.

    Arrays begin inside a line, so that rows of n lines touch n + 1; rows of temporaries begin with
    one.
    """
    return LINE_BYTES if access.tensor in {one.tensor for one in statement.inputs} else 0


def _far(problem: Problem, size: float, moved: float, *, is_scattered: bool = False) -> float:
    """Nanoseconds to move bytes of something of ``size`` bytes."""
    if size <= _SECOND_CACHE:
        return 0.0
    if size > problem.cache_bytes / 2:
        return moved * _BYTE
    return moved * (_FAR_BYTE if is_scattered and problem.parts is not None else _BYTE / 4)
