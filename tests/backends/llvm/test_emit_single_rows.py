"""Rows of one stored element formed many at once: the bits of rows formed one by one."""

from __future__ import annotations

import numpy as np
import pytest

from teir.arrays.levels import Format, Level
from teir.backends.llvm.compile_ir import runs_here
from teir.backends.llvm.emit_kernel import emit_kernel
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.lower.walked_kernels import WalkedSum
from teir.pipeline.executable import compile_program
from teir.search.sparse.graph import linear
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of
from teir.target import Isa

Arrays = dict[str, np.ndarray]

COLUMNS = 70
SUMS = ("y[i] = B[i,j] * x[j]", "y[i] = B[i,j]")
FORMATS = {
    "y": Format(levels=(Level.DENSE,), mode_order=(0,)),
    "B": Format(levels=(Level.DENSE, Level.COMPRESSED), mode_order=(0, 1)),
    "x": Format(levels=(Level.DENSE,), mode_order=(0,)),
    "z": Format(levels=(Level.DENSE,), mode_order=(0,)),
}


def program_of_rows(
    text: str, rows: int, value: DataType = DataType.FP64, index: DataType = DataType.I32
) -> Program:
    assignment = parse_index_notation(text)
    formats = {name: FORMATS[name] for name in ("y", *assignment.inputs)}
    graph = linear(statement_of(assignment, formats), ("i", "j"))
    extents = {"i": rows, "j": COLUMNS}
    return program_of(graph, extents, data_type=value, index_type=index, name="rows")


def operands_of(sizes: list[int], value: DataType, index: DataType) -> Arrays:
    """Numbers with zeros of both signs among them, and products that are not exact."""
    draw, dtype = np.random.default_rng(sum(sizes)), value.numpy_dtype()
    crd = [sorted(draw.choice(COLUMNS, size, replace=False).tolist()) for size in sizes]
    values = draw.standard_normal(sum(sizes)).astype(dtype)
    values[::5], values[1::7] = -0.0, 0.0
    return {
        "B": values,
        "B.pos1": np.cumsum([0, *sizes]).astype(index.numpy_dtype()),
        "B.crd1": np.array([one for each in crd for one in each], index.numpy_dtype()),
        "x": draw.standard_normal(COLUMNS).astype(dtype),
        "y": np.full(len(sizes), np.nan, dtype),
    }


def moved(rows: int, empty: int, twice: int) -> list[int]:
    """As many elements as rows: one row stores two of them, another none."""
    sizes = [1] * rows
    sizes[empty], sizes[twice] = 0, 2
    return sizes


SINGLE = [[1] * rows for rows in (1, 45, 120, 135, 256, 600)]
"""A call forms a sixteenth of the rows: up to 2, 7, 8, 16, and 37 of them."""
NOT_SINGLE = [moved(600, 0, 1), moved(600, 36, 35), moved(600, 20, 3), moved(600, 35, 36)]


@pytest.mark.parametrize("value", [DataType.FP64, DataType.FP32])
@pytest.mark.parametrize("index", [DataType.I32, DataType.I64])
@pytest.mark.parametrize("text", SUMS)
def test_the_bits_are_those_of_the_evaluator(text: str, value: DataType, index: DataType) -> None:
    for sizes in (*SINGLE, *NOT_SINGLE):
        program = program_of_rows(text, len(sizes), value, index)
        known = operands_of(sizes, value, index)
        operands = {tensor.name: known[tensor.name] for tensor in program.tensors}
        meant = {name: array.copy() for name, array in operands.items()}
        evaluate(program, meant)
        for isa in filter(runs_here, Isa):
            for threads in (1, 2):
                found = {name: array.copy() for name, array in operands.items()}
                compile_program(program, isa=isa, threads=threads).run(found)
                same = found["y"].tobytes() == meant["y"].tobytes()
                assert same, f"{isa} {threads} {sizes}"


def kernel_of(text: str, isa: Isa) -> str:
    lowered = lower(program_of_rows(text, 45), isa)
    (kernel,) = (one for one in count_calls(lowered.roots) if isinstance(one, WalkedSum))
    return emit_kernel(kernel, isa)


@pytest.mark.parametrize("text", SUMS)
def test_single_rows_are_looked_for_where_gathers_are_quick(text: str) -> None:
    assert "singles" in kernel_of(text, Isa.AMX)
    assert "singles" not in kernel_of(text, Isa.AVX512)


def test_factors_of_rows_are_left_to_rows_formed_one_by_one() -> None:
    assert "singles" not in kernel_of("y[i] = z[i] * B[i,j] * x[j]", Isa.AMX)
