"""Threads that can take equal shares of the rows pack their own instead of sharing columns."""

from __future__ import annotations

import pytest

from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.ir.check import check
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.choice import Choice, Packing, Sharing
from teir.search.default_choice import default_choice
from teir.search.machine import Machine
from teir.search.tree import contraction_program

SIZES = {"p": 12, "q": 24, "r": 12, "s": 5, "t": 106, "u": 10}


def choice_of(extents: dict[str, int], threads: int) -> Choice:
    machine = Machine(
        vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=threads, threaded_work=2**16
    )
    shapes = [tuple(extents[index] for index in term) for term in ("trus", "pqtu")]
    types = tuple(contiguous(DataType.FP64, shape) for shape in shapes)
    problem = state_problem(parse_subscripts("trus,pqtu->pqrs"), types, None, None)
    assert problem.contraction is not None
    planned = contraction_program(problem.contraction, ((0, 1),), machine)
    assert check(planned.program).ok
    (step,) = planned.matrix_steps
    return default_choice(step.shape, step.machine)


def test_equal_shares_of_rows_are_packed_by_their_threads() -> None:
    choice = choice_of(SIZES, 2)
    assert choice.sharing is Sharing.ROWS
    assert choice.packed_a is Packing.BLOCKS
    assert choice.row_block == 30


@pytest.mark.parametrize(
    ("changed", "threads"), [({"r": 11}, 2), ({"r": 6}, 2), ({}, 5)], ids=["odd", "low", "five"]
)
def test_other_rows_are_shared_by_columns(changed: dict[str, int], threads: int) -> None:
    assert choice_of(SIZES | changed, threads).sharing is Sharing.COLUMNS
