"""Which nest of a schedule gathers rows that fibres walked in parts meet again in a near cache.

    i, j' < T[l]; k', l: T[l] += B[i,j,k] C[k,l], l, m: A[i,j,m] += T[l] D[l,m] >

Read from the loops, as `teir.passes.gathered_parts` reads it from the program that is made of them:
a dense loop, fibres, what they store, and a row along one dense loop, gathered from one operand.
What follows is done once for each part of a fibre.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from teir.expr.index_notation import Access
from teir.passes.part_sizes import FarRows, PartCache, coordinates_of_part
from teir.search.sparse.cost import FIBRE
from teir.search.sparse.graph import Nest, Node, sparse_loops, tensors_of
from teir.search.sparse.statement import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class FibreParts:
    """The nest, what it gathers, and the walks over all ``fibres``, each over a part of them.

    ``formed``: elements that one walk forms besides.
    """

    nest: Nest
    gathered: Access
    walks: int
    fibres: float
    formed: float


@dataclass(frozen=True, slots=True)
class _Walk:
    """The four loops around the first nest, and the nests that follow inside the first three."""

    loops: tuple[str, ...]
    nest: Nest
    following: tuple[Nest, ...]


def fibre_parts(
    statement: Statement,
    root: Node,
    symbols: Mapping[str, float],
    element_bytes: int,
    cache: PartCache,
) -> FibreParts | None:
    """The nest of a root that is walked in parts; None where parts are illegal or do not pay."""
    walk = _walk(statement, root)
    gathered = None if walk is None else _gathered(statement, walk)
    if walk is None or gathered is None:
        return None
    far = _far_rows(statement, walk, symbols, element_bytes)
    size = coordinates_of_part(far, cache)
    if size is None:
        return None
    return FibreParts(
        nest=walk.nest,
        gathered=gathered,
        walks=-(-far.rows // size),
        fibres=far.fibres,
        formed=far.formed,
    )


def _walk(statement: Statement, root: Node) -> _Walk | None:
    """None where loops are others, or nests are not each a sum of what the one before gives.

    Nor where the result of a fibre is set to zero when its first sum is formed already.
    """
    node, loops = root, root.loops
    following: list[Nest] = []
    while not isinstance(node, Nest):
        if not isinstance(node.consumer, Nest) or sparse_loops(statement, node.consumer):
            return None
        following.insert(0, node.consumer)
        node = node.producer
        loops = (*loops, *node.loops)
    walked = {i for one in tensors_of(root) for i in statement.compressed_indices(one)}
    if [index in walked for index in loops] != [False, True, True, False]:
        return None
    is_late = following != [] and loops[1] in statement.output.indices
    return None if is_late or len(node.loops) < 2 else _Walk(loops, node, tuple(following))


def _gathered(statement: Statement, walk: _Walk) -> Access | None:
    """What the coordinates choose rows of; None where that is not one operand, or not by rows."""
    walked, row = walk.loops[2:]
    moved = [one for one in walk.nest.inputs if walked in one.indices]
    stored = [one for one in moved if walked in statement.compressed_indices(one.tensor)]
    gathered = [one for one in moved if one not in stored]
    if len(stored) != 1 or len(gathered) != 1 or row not in walk.nest.output.indices:
        return None
    fmt = statement.format_of(gathered[0].tensor)
    is_plain = fmt is None or fmt.mode_order == tuple(range(len(fmt.levels)))
    return gathered[0] if is_plain and gathered[0].indices[-2:] == (walked, row) else None


def _far_rows(
    statement: Statement, walk: _Walk, symbols: Mapping[str, float], element_bytes: int
) -> FarRows:
    rows, above, walked, row = walk.loops
    fibres = symbols[rows] * symbols[f"{above}{FIBRE}"]
    gathers = fibres * symbols[f"{walked}{FIBRE}"]
    results = [
        one.output
        for one in (walk.nest, *walk.following)
        if one.output.tensor == statement.output.tensor
    ]
    moved = sum(
        (fibres if above in one.indices else symbols[rows])
        * prod(symbols[index] for index in one.indices if index not in walk.loops[:3])
        for one in results
    )
    tiles = (prod(symbols[index] for index in one.loops) for one in walk.following)
    return FarRows(
        row_bytes=int(symbols[row]) * element_bytes,
        rows=int(symbols[walked]),
        gathers=gathers,
        fibres=fibres,
        elements=gathers * symbols[row],
        formed=fibres * sum(tiles),
        moved_bytes=moved * element_bytes,
    )
