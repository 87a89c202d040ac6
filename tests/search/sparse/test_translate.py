"""Every graph becomes a program that is proved safe and means what the statement means."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.sparse.drawn import Case, cases, graphs
from search.sparse.kernels import KERNELS
from search.sparse.stored import dense_of, stored
from teir.arrays.levels import parse_format
from teir.dtypes import DataType
from teir.expr.index_notation import Assignment, Product
from teir.expr.index_notation_evaluate import evaluate_index_notation
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import InvocationNode, Operation
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.moves import inline, is_linear
from teir.search.sparse.schedules import stage1_candidates
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of


def run(graph: IterationGraph, case: Case) -> np.ndarray:
    """The result of the graph's program, checked first; the output's old values do not matter."""
    statement = case.statement
    program = program_of(
        graph, case.extents, data_type=DataType.FP64, index_type=DataType.I32, name="drawn"
    )
    report = check(program)
    assert report.ok, "\n".join(map(str, report.findings))
    operands = {}
    for access, fmt in zip(statement.accesses, statement.formats, strict=True):
        name = access.tensor
        operands |= stored(name, case.arrays[name], case.patterns[name], fmt)
    evaluate(program, operands, seed=1)
    output, fmt = statement.output, statement.formats[0]
    shape = tuple(case.extents[index] for index in output.indices)
    return dense_of(output.tensor, operands, shape, fmt)


def expected(case: Case) -> np.ndarray:
    """The dense meaning, where the output stores it."""
    statement = case.statement
    assignment = Assignment(output=statement.output, products=(Product(factors=statement.inputs),))
    dense = evaluate_index_notation(assignment, case.arrays)
    name, fmt = statement.output.tensor, statement.formats[0]
    arrays = stored(name, np.ones_like(dense), case.patterns[name], fmt)
    return dense * dense_of(name, arrays, dense.shape, fmt)


@settings(max_examples=150, deadline=None)
@given(cases(), st.data())
def test_a_walk_of_legal_steps_keeps_the_result(case: Case, data: st.DataObject) -> None:
    graph = data.draw(graphs(case.statement))
    np.testing.assert_allclose(run(graph, case), expected(case), rtol=1e-9, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(cases(), st.data())
def test_inlining_gives_a_linear_graph_with_the_same_result(
    case: Case, data: st.DataObject
) -> None:
    graph = inline(data.draw(graphs(case.statement)))
    assert is_linear(graph)
    assert sorted(graph.root.loops) == sorted(case.statement.indices)
    np.testing.assert_allclose(run(graph, case), expected(case), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["K4", "K7"])
def test_every_schedule_of_stage_1_computes_the_same(name: str) -> None:
    statement = KERNELS[name].statement
    extents = dict(zip(statement.indices, (3, 2, 4, 3, 2), strict=False))
    draw = np.random.default_rng(5)
    arrays, patterns = {}, {}
    for access, fmt in zip(statement.accesses, statement.formats, strict=True):
        shape = tuple(extents[index] for index in access.indices)
        patterns[access.tensor] = np.ones(shape, bool)
        if fmt.is_sparse and access in statement.inputs:
            patterns[access.tensor] = draw.random(shape) < 0.5
        arrays[access.tensor] = draw.standard_normal(shape) * patterns[access.tensor]
    case = Case(statement, extents, arrays, patterns)
    wanted = expected(case)
    candidates = stage1_candidates(statement)
    assert len(candidates) == KERNELS[name].counts[1]
    for candidate in candidates:
        found = run(candidate.graph, case)
        np.testing.assert_allclose(
            found, wanted, rtol=1e-9, atol=1e-9, err_msg=candidate.graph.tree
        )


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("A[j,i] = B[i,j]", 2),
        ("A[j,i] = B[i,j] * C[i]", 2),
        ("A[k,j,i] = B[i,j,k]", 3),
        ("A[i,j] = B[i,j]", 1),
        ("A[i] = B[i,j]", 0),
        ("A[j] = B[i,j]", 1),
        ("A[k,i] = B[i,j] * C[j,k]", 1),
    ],
)
def test_columns_of_single_elements_are_set_to_zero_together(text: str, axes: int) -> None:
    """A Zero of so many axes; column by column a result of 3000 x 3000 took 2.5 of the time."""
    assignment = parse_index_notation(text)
    rank = len(assignment.inputs["B"].indices)
    statement = statement_of(assignment, {"B": parse_format("dss"[:rank])})
    loops = (*"ijk"[:rank], *(i for i in statement.indices if i not in "ijk"[:rank]))
    extents = dict.fromkeys(statement.indices, 4)
    program = program_of(
        linear(statement, loops),
        extents,
        data_type=DataType.FP64,
        index_type=DataType.I32,
        name="columns",
    )
    check(program).raise_if_wrong()
    primitives = program.primitive_table()
    leaves = [one for one in program.nodes() if isinstance(one, InvocationNode)]
    (zero,) = [
        primitives[one.primitive]
        for one in leaves
        if primitives[one.primitive].operation is Operation.ZERO
    ]
    assert len(zero.m) == axes
