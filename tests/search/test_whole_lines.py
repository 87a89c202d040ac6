"""Operands that lie across are packed in whole lines, which several reduction blocks sum."""

from __future__ import annotations

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import Operation
from teir.ir.printing import print_program
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.machine import Machine
from teir.search.tree import TreeProgram, contraction_program

ACROSS = "dac,bcd->ba"
SIZES = {"a": 70, "b": 72, "c": 24, "d": 180}


def planned(text: str, extents: dict[str, int], threads: int = 1) -> TreeProgram:
    machine = Machine(
        vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=threads, threaded_work=2**10
    )
    shapes = [tuple(extents[index] for index in term) for term in text.split("->")[0].split(",")]
    types = tuple(contiguous(DataType.FP32, shape) for shape in shapes)
    problem = state_problem(parse_subscripts(text), types, None, None)
    assert problem.contraction is not None
    return contraction_program(problem.contraction, ((0, 1),), machine)


def asked_extents(program: TreeProgram) -> set[int]:
    """Extents along `c` of the copies that ask for what comes next."""
    extents = {axis.name: axis for axis in program.program.axes}
    return {
        extents[name].extent
        for one in program.program.primitives
        if one.operation is Operation.COPY and memory_hints(one).prefetched
        for name in one.axes
        if extents[name].strides["in0"] == DataType.FP32.width
    }


def test_lines_are_packed_whole_and_asked_for() -> None:
    assert asked_extents(planned(ACROSS, SIZES)) == {16, 8}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("dca,bcd->ba", {}),
        (ACROSS, {"a": 60}),
        (ACROSS, {"b": 60}),
        (ACROSS, {"d": 20}),
        (ACROSS, {"c": 8}),
    ],
    ids=["adjacent rows", "few rows", "few columns", "long pieces", "one line"],
)
def test_others_are_packed_block_by_block(text: str, changed: dict[str, int]) -> None:
    assert asked_extents(planned(text, SIZES | changed)) == set()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("extents", [{}, {"c": 20}, {"a": 71, "b": 64, "c": 28}])
def test_blocks_of_what_is_packed_add_up(extents: dict[str, int], threads: int) -> None:
    sizes = SIZES | extents
    program = planned(ACROSS, sizes, threads).program
    assert check(program).ok, print_program(program).text
    draw = np.random.default_rng(3)
    first = draw.integers(-2, 3, [sizes[index] for index in "dac"]).astype(np.float32)
    second = draw.integers(-2, 3, [sizes[index] for index in "bcd"]).astype(np.float32)
    out = np.full((sizes["b"], sizes["a"]), np.nan, np.float32)
    evaluate(program, {"in0": first, "in1": second, "out": out})
    np.testing.assert_array_equal(out, np.einsum(ACROSS, first, second))
