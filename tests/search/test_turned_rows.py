"""Rows of packed panels are copied once more, taken round, where whole lines of the output pay."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.lower.lower import lower
from teir.lower.turned_runs import TurnedRuns, turned_operands
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.machine import Machine
from teir.search.tree import contraction_program
from teir.target import Isa

SHORT_SUMS = "fbde,cafd->ecba"
"""Sums of 3 x 4 products; rows a of the second operand, columns b between its c and a."""


def planned(
    data_type: DataType, rows: int, l2_bytes: int = 2**13, runs: int = 3
) -> tuple[Program, list[tuple[int, ...]]]:
    machine = Machine(
        vector_bytes=64, l1_bytes=32768, l2_bytes=l2_bytes, threads=1, threaded_work=2**20
    )
    # Of few rows only columns that follow one another make whole lines.
    b, e = (12, 5) if runs % 2 == 0 else (4, 13)
    extents = {"a": rows, "b": b, "c": runs, "d": 4, "e": e, "f": 3}
    shapes = [tuple(extents[i] for i in term) for term in SHORT_SUMS.split("->")[0].split(",")]
    types = tuple(contiguous(data_type, shape) for shape in shapes)
    problem = state_problem(parse_subscripts(SHORT_SUMS), types, None, None)
    assert problem.contraction is not None
    return contraction_program(problem.contraction, ((0, 1),), machine).program, shapes


@pytest.mark.parametrize(
    ("data_type", "rows", "l2_bytes", "turns"),
    [
        (DataType.FP64, 24, 2**13, True),
        (DataType.FP32, 48, 2**13, True),
        (DataType.FP64, 20, 2**13, False),
        (DataType.C64, 24, 2**13, False),
        (DataType.FP64, 24, 2**20, False),
    ],
    ids=["FP64", "FP32", "half a vector left", "complex", "an output that stays near"],
)
def test_rows_are_turned_where_lines_are_written(
    data_type: DataType, rows: int, l2_bytes: int, turns: bool
) -> None:
    program, _ = planned(data_type, rows, l2_bytes)
    assert check(program).ok
    assert bool(turned_operands(program)) == turns
    assert ("turns=True" in str(lower(program, Isa.AVX512))) == turns


@pytest.mark.parametrize(
    ("data_type", "rows", "runs", "turns"),
    [
        (DataType.FP32, 24, 4, True),
        (DataType.FP64, 12, 4, True),
        (DataType.FP32, 24, 3, False),
        (DataType.FP32, 40, 4, False),
    ],
    ids=["FP32", "FP64", "runs odd in number", "longer runs"],
)
def test_pairs_of_runs_are_turned(data_type: DataType, rows: int, runs: int, turns: bool) -> None:
    program, _ = planned(data_type, rows, runs=runs)
    assert check(program).ok
    found = turned_operands(program).values()
    assert [isinstance(one, TurnedRuns) for one in found] == [True] * turns
    assert ("turns=True" in str(lower(program, Isa.AVX512))) == turns


@pytest.mark.parametrize("offset_bytes", [0, 8, 16, 32, 56])
@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32])
@pytest.mark.parametrize(("rows_bytes", "runs"), [(192, 3), (96, 4)], ids=["rows", "runs"])
def test_results_are_exact_wherever_the_output_begins(
    rows_bytes: int, runs: int, data_type: DataType, offset_bytes: int
) -> None:
    program, shapes = planned(data_type, rows_bytes // data_type.width, runs=runs)
    random = np.random.default_rng(3)
    dtype = data_type.numpy_dtype()
    first, second = (random.integers(-4, 5, shape).astype(dtype) for shape in shapes)
    expected = np.ascontiguousarray(np.einsum(SHORT_SUMS, first, second))
    memory = np.zeros(expected.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset_bytes
    out = memory[begin : begin + expected.nbytes].view(dtype).reshape(expected.shape)
    executable = teir.compile(program, threads=1)
    for one in (executable, executable.specialised()):
        out[...] = np.nan
        one.run({"in0": first, "in1": second, "out": out})
        np.testing.assert_array_equal(out, expected)
    bytes_of = {"in0": first, "in1": second, "out": np.zeros_like(expected)}
    evaluated = {name: array.reshape(-1).view(np.uint8).copy() for name, array in bytes_of.items()}
    evaluate(program, evaluated)
    np.testing.assert_array_equal(evaluated["out"].view(dtype).reshape(out.shape), expected)
