"""How many iterations of a root go together."""

from __future__ import annotations

import pytest

from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.check import check
from teir.ir.nodes import IterationNode
from teir.passes.row_blocks import with_row_blocks
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.moves import loopfuse
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of


@pytest.mark.parametrize(
    ("extent", "width", "threads", "blocks"),
    [
        (4000, 16, 1, [192 * 20, 160]),
        (4000, 16, 2, [125 * 32]),
        (800, 16, 1, [50 * 16]),
        (600, 16, 4, [48 * 12, 24]),
        (30, 16, 1, [30]),
        (4000, 640, 1, [50 * 80]),
        (4000, 4096, 1, [48 * 83, 16]),
    ],
)
def test_rows_of_a_block(extent: int, width: int, threads: int, blocks: list[int]) -> None:
    """Many where threads have blocks enough to share and temporaries stay near, else few."""
    formats = {"B": Format(levels=(Level.DENSE, Level.COMPRESSED), mode_order=(0, 1))}
    statement = statement_of(parse_index_notation("A[i,l] = B[i,j] * C[j,k] * D[k,l]"), formats)
    graph = loopfuse(linear(statement, ("i", "j", "k", "l")), 2, producer_in_left=True, path=())
    assert isinstance(graph, IterationGraph)
    extents = {"i": extent, "j": 9, "k": width, "l": 8}
    program = program_of(
        graph, extents, data_type=DataType.FP64, index_type=DataType.I32, name="rows"
    )
    blocked = with_row_blocks(program, threads)
    check(blocked).raise_if_wrong()
    axes = blocked.axis_table()
    found = []
    for root in blocked.roots:
        assert isinstance(root, IterationNode)
        inner = root.children[0]
        assert isinstance(inner, IterationNode)
        found.append(axes[root.axis].extent * axes[inner.axis].extent)
    assert found == blocks
