"""Columns that lie in lines are packed a block at a time, just before the rows that meet them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.choice import Choice, Order, Packing, Sharing
from teir.search.default_choice import default_choice
from teir.search.machine import Machine
from teir.search.tree import TreeOptions, TreeProgram, contraction_program

USUAL = Machine(vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=1, threaded_work=2**16)
LINES = "trus,tupq->pqrs"
FAR = {"p": 21, "q": 72, "r": 20, "s": 13, "t": 39, "u": 7}


def planned(
    text: str, extents: dict[str, int], machine: Machine, choices: tuple[Choice, ...] = ()
) -> TreeProgram:
    terms = text.split("->")[0].split(",")
    shapes = [tuple(extents[index] for index in term) for term in terms]
    types = tuple(contiguous(DataType.FP64, shape) for shape in shapes)
    problem = state_problem(parse_subscripts(text), types, None, None)
    assert problem.contraction is not None
    options = TreeOptions(choices=choices)
    return contraction_program(problem.contraction, ((0, 1),), machine, options)


def choice_of(text: str, extents: dict[str, int], machine: Machine) -> Choice:
    (step,) = planned(text, extents, machine).matrix_steps
    return default_choice(step.shape, step.machine)


@pytest.mark.parametrize("threads", [1, 2])
def test_lines_are_packed_when_they_are_met(threads: int) -> None:
    choice = choice_of(LINES, FAR, replace(USUAL, threads=threads))
    assert (choice.packed_a, choice.packed_b) == (Packing.WHOLE, Packing.BLOCKS)
    assert choice.sharing in (Sharing.NONE, Sharing.PARTS)


@pytest.mark.parametrize(
    ("text", "changed"),
    [("rstu,tuqp->pqrs", {}), (LINES, {"q": 8}), (LINES, {"r": 200})],
    ids=["turned", "few columns", "many rows"],
)
def test_other_columns_are_packed_together(text: str, changed: dict[str, int]) -> None:
    assert choice_of(text, FAR | changed, USUAL).packed_b is not Packing.BLOCKS


@pytest.mark.parametrize("packed_a", list(Packing))
@pytest.mark.parametrize("text", [LINES, "rstu,tuqp->pqrs", "srut,qptu->pqrs"])
@pytest.mark.parametrize(
    "extents", [(4, 6, 6, 8, 3, 5), (13, 2, 24, 1, 2, 9), (3, 35, 3, 16, 4, 4), (2, 50, 5, 2, 7, 3)]
)
def test_blocks_are_the_whole_and_sum_alike(
    text: str, extents: tuple[int, ...], packed_a: Packing
) -> None:
    sizes = dict(zip("pqrstu", extents, strict=True))
    draw = np.random.default_rng(sum(extents))
    terms = text.split("->")[0].split(",")
    first, second = (draw.standard_normal([sizes[index] for index in term]) for term in terms)
    usual = choice_of(text, sizes, USUAL)
    results = []
    for packed_b in (Packing.NONE, Packing.BLOCKS):
        choice = replace(
            usual, packed_a=packed_a, packed_b=packed_b, order=Order.COLUMNS, column_block=12
        )
        program = planned(text, sizes, USUAL, (choice,)).program
        assert check(program).ok
        out = np.full([sizes[index] for index in "pqrs"], np.nan)
        evaluate(program, {"in0": first, "in1": second, "out": out})
        results.append(out)
    assert np.array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], np.einsum(text, first, second), rtol=1e-12, atol=1e-12)
