"""Results that store what one operand stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.evaluate import evaluate
from teir.pipeline.sparse_problem import hold_all, sparse_problem
from teir.pipeline.sparse_run import arrays_of, run_steps, steps_of
from teir.pipeline.sparse_schedule import _program
from teir.search.sparse.ranked import ranked

Array = np.ndarray[Any, np.dtype[Any]]
draw = np.random.default_rng(11)


def integers(*shape: int, density: float = 1.0) -> Array:
    return np.asarray(draw.integers(-3, 4, shape) * (draw.random(shape) < density), float)


B = integers(9, 7, density=0.4)
B[3] = 0
CSR = scipy.sparse.csr_array(B)
C, D = integers(9, 5), integers(7, 5)
T = integers(4, 5, 6, density=0.3)
E, F = integers(6, 3), integers(3, 2)


def sparse(dense: Array, levels: str) -> teir.Sparse:
    coords = np.nonzero(dense)
    return teir.Sparse.from_coo(coords, dense[coords], dense.shape, levels)


def tensors(plan: Any) -> list[str]:
    return [tensor.name for tensor in plan.program.tensors]


@pytest.mark.parametrize("levels", ["ds", "ss", "ds:1,0", "sd", "sd:1,0"])
def test_sampled_products_walk_the_index_arrays_of_the_operand(levels: str) -> None:
    operand = sparse(B, levels)
    plan = teir.plan("ij,ik,jk->ij", operand, C, D, out_levels=levels)
    assert tensors(plan)[-1] == "out"
    found = plan(operand, C, D)
    assert str(found.format) == levels
    np.testing.assert_array_equal(found.to_dense(), np.einsum("ij,ik,jk->ij", B, C, D))


@pytest.mark.parametrize("text", ["ij,ij->ij", "ij,i->ij", "ij,j->ij", "ij,->ij", "ij->ij"])
def test_scaled_operands(text: str) -> None:
    other = {"ij,ij->ij": C @ D.T, "ij,i->ij": C[:, 0], "ij,j->ij": D[:, 0], "ij,->ij": 2.0}
    operands = (B,) if text == "ij->ij" else (B, other[text])
    found = teir.einsum(text, CSR, *operands[1:], out_levels="ds")
    np.testing.assert_array_equal(found.to_dense(), np.einsum(text, *operands))
    minus = teir.einsum("A[i,j] = -B[i,j]", CSR, out_levels="ds")
    np.testing.assert_array_equal(minus.to_dense(), -B)


def test_dense_levels_below_a_shared_prefix() -> None:
    expected = np.einsum("ijk,kl,lm->ijm", T, E, F)
    operand = sparse(T, "dss")
    plan = teir.plan("ijk,kl,lm->ijm", operand, E, F, out_levels="dsd")
    assert tensors(plan)[-1] == "out"
    np.testing.assert_array_equal(plan(operand, E, F).to_dense(), expected)


def test_prefixes_that_store_nothing_are_not_shared() -> None:
    """The second fibre is empty: the result does not store what leads to it."""
    levels = {1: ([0, 2, 3], [0, 1, 0]), 2: ([0, 1, 1, 2], [2, 0])}
    operand = teir.Sparse.from_levels((2, 2, 3), "dss", levels, np.array([3.0, 4.0]))
    found = teir.einsum("ijk,kl->ijl", operand, E[:3], out_levels="dsd")
    assert found.stored[1].crd.size == 2
    np.testing.assert_array_equal(
        found.to_dense(), np.einsum("ijk,kl->ijl", operand.to_dense(), E[:3])
    )


def test_the_result_has_index_arrays_of_its_own() -> None:
    operand = CSR.copy()
    found = teir.einsum("ij,->ij", operand, 2.0, out_levels="ds")
    assert not np.shares_memory(found.stored[1].crd, operand.indices)
    operand.indices[:] = operand.indices[::-1].copy()
    operand.indptr[:] = 0
    np.testing.assert_array_equal(found.to_dense(), 2 * B)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("A[i,j] = B[i,j] * C[i,k] * D[j,k]", "ds"),
        ("A[i,j] = B[i,j] * C[i,k] * D[j,k]", "ss"),
        ("A[i,j,m] = B[i,j,k] * C[k,l] * D[l,m]", "dsd"),
    ],
)
def test_every_schedule_of_a_shared_result(text: str, levels: str) -> None:
    assignment = parse_index_notation(text)
    operands = [sparse(B, levels), C, D] if levels != "dsd" else [sparse(T, "dss"), E, F]
    held = hold_all(assignment, operands)
    problem = sparse_problem(assignment, held, out_levels=levels, dtype=None, threads=1)
    (step,) = steps_of(problem, held)
    chosen = step.scheduled
    assert chosen is not None
    assert chosen.shares == "B"
    assert chosen.problem is not None
    expected = run_steps(problem, held, [step], None).values
    (term, _) = step.terms[0]
    assert chosen.ranking is not None
    graphs = [one.candidate.graph for one in ranked(chosen.ranking)]
    assert len(graphs) > 1
    for graph in graphs:
        program = _program(term, graph, chosen.problem, "one", "B", chosen.deterministic)
        output = [np.full(expected.size, 7.0)]
        arrays = arrays_of(step, program, output)
        names = [tensor.name for tensor in program.tensors]
        evaluate(program, dict(zip(names, arrays, strict=True)))
        np.testing.assert_array_equal(output[0], expected, err_msg=str(graph))
