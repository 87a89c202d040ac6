"""Large products of dense operands, cut into blocks of rows: the same bits, sums in their order."""

from __future__ import annotations

import numpy as np
import pytest

from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.nodes import IterationNode, Policy, Program
from teir.passes.leaf_blocks import with_leaf_blocks
from teir.pipeline.executable import compile_program
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.hoisting import hoisted
from teir.search.sparse.statement import Statement, statement_of
from teir.search.sparse.translate import program_of


def hoisted_program(extents: dict[str, int]) -> Program:
    """< H1[k,m]; k, m, l: H1[k,m] += C[k,l] D[l,m], i, k', m: A[i,m] += B[i,k] H1[k,m] >"""
    formats = {"B": Format(levels=(Level.DENSE, Level.COMPRESSED), mode_order=(0, 1))}
    statement = statement_of(parse_index_notation("A[i,m] = B[i,k] * C[k,l] * D[l,m]"), formats)

    def one_nest(left: Statement) -> list[IterationGraph]:
        return [linear(left, ("i", "k", "m"))]

    sizes = {index: float(extent) for index, extent in extents.items()}
    (graph,) = hoisted(statement, sizes, 1e9, lambda left: iter(one_nest(left)))
    return program_of(
        graph, extents, data_type=DataType.FP64, index_type=DataType.I32, name="hoisted"
    )


@pytest.mark.parametrize("rows", [192, 333])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_large_product_is_cut_and_keeps_its_bits(rows: int, threads: int) -> None:
    extents = {"i": 7, "k": rows, "l": 704, "m": 700}
    program = hoisted_program(extents)
    blocked = with_leaf_blocks(program)
    policies = [node.policy for node in blocked.roots if isinstance(node, IterationNode)]
    assert policies.count(Policy.PARALLEL) == 2
    draw = np.random.default_rng(rows)
    stored = np.sort(draw.choice(rows, 40, replace=False)).astype(np.int32)
    operands = {
        "B": draw.standard_normal(280),
        "B.pos1": np.arange(8, dtype=np.int32) * 40,
        "B.crd1": np.tile(stored, 7),
        "C": draw.standard_normal((rows, 704)),
        "D": draw.standard_normal((704, 700)),
    }
    found = []
    for one in (program, blocked):
        found.append(operands | {"A": np.full((7, 700), np.nan)})
        compile_program(one, threads=threads).run(found[-1])
    np.testing.assert_array_equal(found[0]["A"], found[1]["A"])
    wanted = operands["B"].reshape(7, 40) @ (operands["C"] @ operands["D"])[stored]
    np.testing.assert_allclose(found[1]["A"], wanted, rtol=1e-10, atol=1e-8)


def test_small_products_stay_as_they_are() -> None:
    program = hoisted_program({"i": 7, "k": 192, "l": 16, "m": 700})
    assert with_leaf_blocks(program) is program
    program = hoisted_program({"i": 7, "k": 191, "l": 704, "m": 700})
    assert with_leaf_blocks(program) is program
