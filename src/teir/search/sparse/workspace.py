"""A sparse result whose levels no order of all loops visits: through rows of a temporary.

    i < T[k]; j', k': T[k] += B[i,j] C[j,k], k': A[i,k] += T[k] >

The loops that the order of the inputs and the levels of the result begin with are common; the
temporary has the other indices of the result. Its consumer walks the positions the result stores.
"""

from __future__ import annotations

from teir.expr.index_notation import Access
from teir.search.sparse.graph import Branch, IterationGraph, Nest
from teir.search.sparse.statement import Statement, sorted_loops


def workspace_graph(statement: Statement) -> IterationGraph | None:
    """The graph; None where the inputs' own levels agree on no order."""
    levels = statement.level_indices(statement.output.tensor)
    loops = tuple(dict.fromkeys((*levels, *statement.indices)))
    pairs = statement.order_pairs(access.tensor for access in statement.inputs)
    order = sorted_loops(loops, pairs)
    if order is None:
        return None
    common = 0
    while common < len(levels) and order[common] == levels[common]:
        common += 1
    used = {access.tensor for access in statement.accesses}
    name = next(name for number in range(1, 99) if (name := f"T{number}") not in used)
    temporary = Access(tensor=name, indices=levels[common:])
    root = Branch(
        loops=order[:common],
        temporary=temporary,
        producer=Nest(output=temporary, inputs=statement.inputs, loops=order[common:]),
        consumer=Nest(output=statement.output, inputs=(temporary,), loops=levels[common:]),
    )
    return IterationGraph(statement=statement, root=root)
