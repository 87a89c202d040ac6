"""Operands that lie across each other: the smaller one is laid as the other lies, once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Operation, Program
from teir.ir.printing import print_program
from teir.pipeline.operand_types import OperandType, contiguous
from teir.pipeline.problem import state_problem
from teir.search.machine import Machine
from teir.search.tree import contraction_program

USUAL = Machine(vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=1, threaded_work=2**10)
EXTENTS = {"c": 2, "n": 5, "s": 2100, "x": 6, "y": 7}
ACROSS = ("syx,nxy->ns", "nxy,syx->ns", "csyx,cnxy->cns", "syxc,ncxy->cns")


def program_of(
    text: str, extents: dict[str, int], threads: int
) -> tuple[Program, list[tuple[int, ...]]]:
    terms, _ = text.split("->")
    shapes = [tuple(extents[index] for index in term) for term in terms.split(",")]
    types = tuple(contiguous(DataType.FP32, shape) for shape in shapes)
    return program_of_types(text, types, threads), shapes


def program_of_types(text: str, types: tuple[OperandType, ...], threads: int) -> Program:
    problem = state_problem(parse_subscripts(text), types, None, None)
    assert problem.contraction is not None
    machine = replace(USUAL, threads=threads)
    return contraction_program(problem.contraction, ((0, 1),), machine).program


def relaid_copies(program: Program) -> int:
    return sum(
        one.operation is Operation.COPY and "relaid" in one.output for one in program.primitives
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", ACROSS)
def test_relaid_operands_mean_what_numpy_computes(text: str, threads: int) -> None:
    program, shapes = program_of(text, EXTENTS, threads)
    assert check(program).ok, print_program(program).text
    draw = np.random.default_rng(11)
    first, second = (draw.integers(-2, 3, shape).astype(np.float32) for shape in shapes)
    expected = np.einsum(text, first, second)
    out = np.full(expected.shape, 7, np.float32)
    evaluate(program, {"in0": first, "in1": second, "out": out})
    np.testing.assert_array_equal(out, expected)


REPEATING = (
    ("syxz,nxyz->ns", (2100, 7, 6, 3), (5, 6, 7, 3), (168, 28, 4, 0)),
    ("csyx,cnxy->cns", (2, 2100, 7, 6), (2, 5, 6, 7), (0, 168, 28, 4)),
)
"""The second operand repeats along z, which is summed, and along c, which is in all three."""


@pytest.mark.parametrize(("text", "first", "second", "strides_bytes"), REPEATING)
def test_no_place_is_kept_for_indices_along_which_an_operand_repeats(
    text: str,
    first: tuple[int, ...],
    second: tuple[int, ...],
    strides_bytes: tuple[int, ...],
) -> None:
    whole = contiguous(DataType.FP32, first)
    repeats = structs.replace(contiguous(DataType.FP32, second), strides_bytes=strides_bytes)
    program = program_of_types(text, (whole, repeats), 1)
    assert relaid_copies(program) == 1
    assert check(program).ok, print_program(program).text


@pytest.mark.parametrize("text", ACROSS[:3])
def test_the_smaller_operand_is_moved(text: str) -> None:
    assert relaid_copies(program_of(text, EXTENTS, 1)[0]) == 1


def test_operands_that_agree_and_larger_ones_stay() -> None:
    assert relaid_copies(program_of("syx,nyx->ns", EXTENTS, 1)[0]) == 0
    assert relaid_copies(program_of("yxs,nxy->ns", EXTENTS, 1)[0]) == 0
    assert relaid_copies(program_of("syx,nxy->ns", EXTENTS | {"n": 2101}, 1)[0]) == 0
    assert relaid_copies(program_of("syx,nxy->ns", EXTENTS | {"s": 2047}, 1)[0]) == 0
