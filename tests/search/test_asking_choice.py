"""A large operand of adjacent rows stays in place; its next rows are asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.choice import Choice, Packing, Sharing
from teir.search.default_choice import default_choice
from teir.search.machine import Machine
from teir.search.tree import contraction_program

USUAL = Machine(vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=1, threaded_work=2**16)
FAR = {"p": 8, "q": 12, "r": 40, "s": 92, "t": 32, "u": 32}


def choice_of(text: str, extents: dict[str, int], data_type: DataType, threads: int) -> Choice:
    terms, _ = text.split("->")
    shapes = [tuple(extents[index] for index in term) for term in terms.split(",")]
    types = tuple(contiguous(data_type, shape) for shape in shapes)
    problem = state_problem(parse_subscripts(text), types, None, None)
    assert problem.contraction is not None
    machine = replace(USUAL, threads=threads)
    (step,) = contraction_program(problem.contraction, ((0, 1),), machine).matrix_steps
    return default_choice(step.shape, step.machine)


@pytest.mark.parametrize(("data_type", "rows"), [(DataType.FP64, 24), (DataType.FP32, 32)])
def test_far_rows_are_asked_for(data_type: DataType, rows: int) -> None:
    choice = choice_of("turs,pqut->pqrs", FAR, data_type, 1)
    assert choice.packed_a is Packing.NONE
    assert choice.prefetches_a
    assert choice.column_block == 24
    assert choice.row_block == rows


def test_rows_of_other_types_are_packed() -> None:
    choice = choice_of("turs,pqut->pqrs", FAR | {"r": 80}, DataType.BF16, 1)
    assert not choice.prefetches_a


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        ("rstu,pqut->pqrs", FAR),
        ("turs,pqut->pqrs", FAR | {"q": 200}),
        ("turs,pqut->pqrs", FAR | {"r": 2, "s": 30, "t": 1000}),
        ("turs,pqut->pqrs", FAR | {"t": 4}),
    ],
    ids=["turned", "many columns", "few rows", "near"],
)
def test_other_operands_are_not(text: str, extents: dict[str, int]) -> None:
    assert not choice_of(text, extents, DataType.FP64, 1).prefetches_a


def test_threads_ask_for_the_rows_of_their_parts() -> None:
    choice = choice_of("turs,pqut->pqrs", FAR, DataType.FP64, 2)
    assert choice.sharing is Sharing.PARTS
    assert choice.prefetches_a
