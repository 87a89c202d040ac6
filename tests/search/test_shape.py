"""Which axes of a product become rows and columns."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.machine import Machine
from teir.search.shape import ProductShape
from teir.search.tree import contraction_program

USUAL = Machine(vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=1, threaded_work=2**16)


def shape_of(text: str, extents: dict[str, int]) -> ProductShape:
    terms, _ = text.split("->")
    types = tuple(
        contiguous(DataType.FP32, tuple(extents[index] for index in term))
        for term in terms.split(",")
    )
    problem = state_problem(parse_subscripts(text), types, None, None)
    assert problem.contraction is not None
    tree = contraction_program(problem.contraction, ((0, 1),), USUAL)
    return tree.matrix_steps[0].shape


def test_columns_are_adjacent_in_b_where_the_output_is_small() -> None:
    extents = {"p": 12, "q": 24, "r": 12, "s": 5, "t": 106, "u": 4}
    n = shape_of("rstu,tuqp->pqrs", extents).n
    assert n is not None
    assert n.extent == extents["p"]


def test_columns_are_close_in_a_large_output() -> None:
    extents = {"p": 32, "q": 40, "r": 32, "s": 32, "t": 8, "u": 32}
    n = shape_of("rstu,tuqp->pqrs", extents).n
    assert n is not None
    assert n.extent == extents["q"]
