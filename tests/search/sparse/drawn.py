"""Random statements, formats, walks over their iteration graphs, and operands."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from hypothesis import strategies as st

from search.sparse.stored import Array
from teir.arrays.levels import Format, Level
from teir.errors import Finding, TeirError
from teir.expr.index_notation import Access, Assignment, Product
from teir.search.sparse.graph import Branch, IterationGraph, linear
from teir.search.sparse.moves import leaf_paths, loopfuse, reorder
from teir.search.sparse.statement import Statement, first_order, statement_of


@dataclass(frozen=True, slots=True)
class Case:
    """A statement with extents and operands; ``patterns`` says what sparse tensors store."""

    statement: Statement
    extents: dict[str, int]
    arrays: dict[str, Array]
    patterns: dict[str, Array]


@st.composite
def formats(draw: st.DrawFn, rank: int) -> Format:
    levels = tuple(draw(st.sampled_from(list(Level))) for _ in range(rank))
    order = draw(st.permutations(range(rank)))
    return Format(levels=levels, mode_order=tuple(order))


@st.composite
def statements(draw: st.DrawFn, largest_inputs: int = 4) -> Statement:
    """A product of tensors with at most three indices; the formats agree on a loop order."""
    indices = "ijkl"[: draw(st.integers(2, 4))]
    count = draw(st.integers(1, largest_inputs))
    terms = [
        tuple(draw(st.lists(st.sampled_from(indices), min_size=1, max_size=3, unique=True)))
        for _ in range(count)
    ]
    used = sorted({index for term in terms for index in term})
    kept = draw(st.lists(st.sampled_from(used), max_size=3, unique=True)) if used else []
    factors = tuple(
        Access(tensor=name, indices=term) for name, term in zip("BCDE", terms, strict=False)
    )
    output = Access(tensor="A", indices=tuple(kept))
    assignment = Assignment(output=output, products=(Product(factors=factors),))
    chosen: dict[str, Format] = {}
    for access in (*factors, output):
        if access.indices and draw(st.integers(0, 3)):
            chosen[access.tensor] = draw(formats(len(access.indices)))
            try:
                statement_of(assignment, chosen)
            except TeirError:
                del chosen[access.tensor]
    return statement_of(assignment, chosen)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    statement = draw(statements())
    extents = {index: draw(st.integers(1, 4)) for index in statement.indices}
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from((0.0, 0.3, 0.6, 1.0)))
    arrays: dict[str, Array] = {}
    patterns: dict[str, Array] = {}
    for access, fmt in zip(statement.accesses, statement.formats, strict=True):
        shape = tuple(extents[index] for index in access.indices)
        pattern = random.random(shape) < density if fmt.is_sparse else np.ones(shape, bool)
        # What a compressed level stores is stored for all of the dense levels below it.
        patterns[access.tensor] = np.asarray(pattern)
        arrays[access.tensor] = random.standard_normal(shape) * pattern
    return Case(statement, extents, arrays, patterns)


@st.composite
def graphs(draw: st.DrawFn, statement: Statement) -> IterationGraph:
    """A random walk of legal steps from a linear graph; refused steps are skipped."""
    order = first_order(statement)
    assert order is not None
    graph = linear(statement, order)
    for _ in range(draw(st.integers(2, 8))):
        paths = leaf_paths(graph)
        sections = {path[:length] for path in paths for length in range(len(path) + 1)}
        path = draw(st.sampled_from(sorted(sections)))
        node = graph.root
        for step in path:
            assert isinstance(node, Branch)
            node = node.consumer if step else node.producer
        if isinstance(node, Branch) or len(node.inputs) < 2 or not draw(st.integers(0, 2)):
            loops = draw(st.sampled_from(list(permutations(node.loops))[:120]))
            after = reorder(graph, loops, path)
        else:
            loc = draw(st.integers(1, len(node.inputs) - 1))
            after = loopfuse(graph, loc, draw(st.booleans()), path)
        if not isinstance(after, Finding):
            graph = after
    return graph
