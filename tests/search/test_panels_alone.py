"""Panels are packed one at a time where the columns they meet stay in the second cache."""

from __future__ import annotations

import pytest

from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.choice import Choice, Packing
from teir.search.default_choice import default_choice
from teir.search.machine import Machine
from teir.search.tree import contraction_program

SIZES = {"p": 23, "q": 12, "r": 74, "s": 17, "t": 11, "u": 11}


def choice_of(extents: dict[str, int], data_type: DataType) -> Choice:
    machine = Machine(
        vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=1, threaded_work=2**16
    )
    terms = ("trus", "pqtu")
    shapes = [tuple(extents[index] for index in term) for term in terms]
    types = tuple(contiguous(data_type, shape) for shape in shapes)
    problem = state_problem(parse_subscripts("trus,pqtu->pqrs"), types, None, None)
    assert problem.contraction is not None
    (step,) = contraction_program(problem.contraction, ((0, 1),), machine).matrix_steps
    return default_choice(step.shape, step.machine)


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.C64])
def test_a_panel_is_packed_when_it_is_needed(data_type: DataType) -> None:
    choice = choice_of(SIZES, data_type)
    assert choice.packed_a is Packing.BLOCKS
    assert choice.row_block == choice.panel


@pytest.mark.parametrize(
    ("changed", "data_type"),
    [({"q": 40}, DataType.FP64), ({"r": 800}, DataType.FP64), ({}, DataType.BF16)],
    ids=["many columns", "from memory", "narrow"],
)
def test_others_are_packed_together(changed: dict[str, int], data_type: DataType) -> None:
    choice = choice_of(SIZES | changed, data_type)
    assert choice.packed_a is Packing.NONE or choice.row_block > choice.panel
