"""Products of every position of a fibre with a matrix, formed for blocks of positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower.test_walked_rows import fibres, index_arrays, numbers, same_bits
from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.nodes import Program
from teir.lower.kernel_program import BlockLoop, KernelNode, inner_nodes
from teir.lower.lower import lower
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.moves import loopfuse
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of
from teir.target import Isa

WIDTHS = (1, 5, 16, 24, 33)


def chain_program(extents: dict[str, int], value: DataType, index: DataType) -> Program:
    """i, j' < T[l]; k', l: T[l] += B[i,j,k] C[k,l], l, m: A[i,j,m] += T[l] D[l,m] >"""
    compressed = (Level.DENSE, Level.COMPRESSED, Level.COMPRESSED)
    formats = {
        "B": Format(levels=compressed, mode_order=(0, 1, 2)),
        "A": Format(levels=(*compressed[:2], Level.DENSE), mode_order=(0, 1, 2)),
    }
    text = "A[i,j,m] = B[i,j,k] * C[k,l] * D[l,m]"
    statement = statement_of(parse_index_notation(text), formats)
    graph = loopfuse(linear(statement, tuple("ijklm")), 2, producer_in_left=True, path=())
    assert isinstance(graph, IterationGraph)
    return program_of(graph, extents, data_type=value, index_type=index, name="blocks", shares="B")


def block_loops(nodes: tuple[KernelNode, ...]) -> list[BlockLoop]:
    found = [node for node in nodes if isinstance(node, BlockLoop)]
    return found + [one for node in nodes for one in block_loops(inner_nodes(node))]


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    widths=st.tuples(st.sampled_from(WIDTHS), st.sampled_from(WIDTHS)),
    rows=st.sampled_from((1, 3, 50)),
    value=st.sampled_from((DataType.FP64, DataType.FP32)),
    index=st.sampled_from((DataType.I32, DataType.I64)),
    threads=st.sampled_from((1, 2)),
)
def test_blocks_of_positions(
    seed: int,
    widths: tuple[int, int],
    rows: int,
    value: DataType,
    index: DataType,
    threads: int,
) -> None:
    draw = np.random.default_rng(seed)
    extents = {"i": rows, "j": 70, "k": 20, "l": widths[0], "m": widths[1]}
    pos1, crd1 = index_arrays(fibres(draw, rows, 70), index.numpy_dtype())
    pos2, crd2 = index_arrays(fibres(draw, crd1.size, 20), index.numpy_dtype())
    program = chain_program(extents, value, index)
    operands = {"B.pos1": pos1, "B.crd1": crd1, "B.pos2": pos2, "B.crd2": crd2}
    shapes = {"B": (crd2.size,), "C": (20, widths[0]), "D": widths}
    operands |= {name: numbers(draw, shape, value) for name, shape in shapes.items()}
    operands["A"] = np.full((crd1.size, widths[1]), np.nan, value.numpy_dtype())
    found = same_bits(program, operands, threads)["A"]
    b, c, d = (operands[name].astype(np.float64) for name in "BCD")
    sums = np.zeros((crd1.size, widths[0]))
    np.add.at(sums, np.repeat(np.arange(crd1.size), np.diff(pos2)), b[:, None] * c[crd2])
    np.testing.assert_allclose(found, sums @ d, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(("rows", "fibres_of_loops"), [(1, {1}), (50, {3, 2})])
def test_blocks_go_on_over_the_fibres_of_all_rows(rows: int, fibres_of_loops: set[int]) -> None:
    extents = {"i": rows, "j": 70, "k": 20, "l": 16, "m": 24}
    program = chain_program(extents, DataType.FP64, DataType.I32)
    loops = block_loops(lower(program, Isa.AVX512).roots)
    assert {loop.fibres for loop in loops} == fibres_of_loops
    assert {loop.size for loop in loops} == {24}
