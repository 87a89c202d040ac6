"""Schedules that peers run as C: the fused default, the published ones, row workspaces, SpTTN's.

Each is a linear nest with its inputs in some order and the moves that fuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.errors import Finding
from teir.search.sparse.graph import IterationGraph, Nest, linear
from teir.search.sparse.moves import loopfuse, reorder
from teir.search.sparse.statement import Statement, sorted_loops


@dataclass(frozen=True, slots=True)
class Fuse:
    """Split the nest at ``path`` after its first ``count`` inputs; those make the temporary."""

    count: int
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """The loops that begin the subtree at ``path``."""

    loops: str
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Tensors and loops by their letters."""

    inputs: str
    loops: str
    moves: tuple[Fuse | Order, ...]


PUBLISHED = {
    "K1": Recipe("BCDE", "ijkl", (Fuse(3),)),
    "K2": Recipe("BCDEF", "ijklm", (Fuse(4), Fuse(3, (0,)))),
    "K3": Recipe("BCDE", "ikjl", (Fuse(3),)),
    "K4": Recipe("BCD", "ikjl", (Fuse(2),)),
    "K5": Recipe("BEDC", "injkml", (Fuse(3), Fuse(2, (0,)), Order("lm", (1,)))),
    "K6": Recipe("BDC", "ijmkl", (Fuse(2),)),
    "K7": Recipe("BCD", "ijlkm", (Fuse(2),)),
    "K8": Recipe("BCDE", "ijklm", (Fuse(3),)),
}
"""The choices of the SparseAuto paper; of several with one cost, the fastest in C."""
ROWS = {
    "K1": Recipe("BCDE", "ijkl", (Fuse(3),)),
    "K2": Recipe("BCDEF", "ijklm", (Fuse(4), Fuse(3, (0,)))),
    "K3": Recipe("BCDE", "ijkl", (Fuse(3),)),
    "K4": Recipe("BCD", "ijkl", (Fuse(2),)),
    "K5": Recipe("BEDC", "ijknml", (Fuse(2), Order("lmn", (1,)))),
    "K6": Recipe("BDC", "ijkml", (Fuse(2), Order("lm", (1,)))),
    "K7": Recipe("BCD", "ijklm", (Fuse(2),)),
    "K8": Recipe("BCDE", "ikljm", (Fuse(3), Fuse(2, (0,)))),
}
"""The same with a row of a temporary, so that the innermost loops have stride one."""
SPTTN = {
    "K5": Recipe(
        "BEDC",
        "ijknml",
        (Fuse(3), Fuse(2, (0,)), Order("mn", (0, 1)), Order("lmn", (1,))),
    ),
}
"""i < T[m,n]; j' < T[n]; k', n >, m, n >, l, m, n (SpTTN-Cyclops)."""


def peer_nests(kernel: str, statement: Statement) -> Iterator[tuple[str, IterationGraph]]:
    """The schedules of a kernel by name, each once."""
    loops = dict.fromkeys(index for access in statement.inputs for index in access.indices)
    order = sorted_loops(loops, statement.order_pairs(one.tensor for one in statement.accesses))
    assert order is not None
    yield "fused default", linear(statement, order)
    seen: set[Recipe] = set()
    for name, recipes in (("published", PUBLISHED), ("row workspace", ROWS), ("SpTTN", SPTTN)):
        recipe = recipes.get(kernel)
        if recipe is not None and recipe not in seen:
            seen.add(recipe)
            yield name, graph_of(recipe, statement)


def graph_of(recipe: Recipe, statement: Statement) -> IterationGraph:
    """The schedule. Raises ValueError for a move that is not legal."""
    by_name = {access.tensor: access for access in statement.inputs}
    inputs = tuple(by_name[name] for name in recipe.inputs)
    root = Nest(output=statement.output, inputs=inputs, loops=tuple(recipe.loops))
    graph = IterationGraph(statement=statement, root=root)
    for move in recipe.moves:
        moved: IterationGraph | Finding
        if isinstance(move, Fuse):
            moved = loopfuse(graph, move.count, True, move.path)
        else:
            moved = reorder(graph, tuple(move.loops), move.path)
        if isinstance(moved, Finding):
            raise ValueError(f"{recipe}: {moved}")
        graph = moved
    return graph
