"""Sampled rows that begin anywhere in a cache line: the bits of the evaluator, in whole lines."""

from __future__ import annotations

from itertools import product

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
from teir.lower.walked_kernels import WalkedSampledSum
from teir.pipeline.executable import compile_program
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.moves import loopfuse
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of
from teir.target import Isa

Arrays = dict[str, np.ndarray]
SCALED = "A[i,l] = B[i,j] * C[i,k] * D[j,k] * E[j,l]"
ROWS = 40
INSIDE = (0, 16, 32, 48)


def program_for(columns: int, dot: int, row: int, value: DataType) -> Program:
    dense = Format(levels=(Level.DENSE, Level.DENSE), mode_order=(0, 1))
    stored = Format(levels=(Level.DENSE, Level.COMPRESSED), mode_order=(0, 1))
    assignment = parse_index_notation(SCALED)
    formats = {name: stored if name == "B" else dense for name in ("A", *assignment.inputs)}
    fused = loopfuse(
        linear(statement_of(assignment, formats), tuple("ijkl")), 3, producer_in_left=True, path=()
    )
    assert isinstance(fused, IterationGraph)
    extents = {"i": ROWS, "j": columns, "k": dot, "l": row}
    return program_of(fused, extents, data_type=value, index_type=DataType.I32, name="places")


def placed(values: np.ndarray, inside: int) -> np.ndarray:
    """A copy that begins so many bytes into a cache line, numbers that are none right beside it."""
    memory = np.full(values.nbytes + 192, 0xFF, np.uint8)
    first = -memory.ctypes.data % 64 + 64 + inside
    copy = memory[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def operands_for(columns: int, dot: int, row: int, value: DataType) -> Arrays:
    """Rows of none to six elements; C and E of powers of two, so that only the order of sums is
    left."""
    draw, dtype = np.random.default_rng(dot), value.numpy_dtype()
    lists = [np.sort(draw.choice(columns, one % 7, replace=False)) for one in range(ROWS)]
    coordinates = np.concatenate(lists).astype(np.int32)
    shapes = {"C": (ROWS, dot), "D": (columns, dot), "E": (columns, row), "A": (ROWS, row)}
    dense: Arrays = {name: draw.standard_normal(shape) for name, shape in shapes.items()}
    dense |= {name: 2.0 ** draw.integers(-3, 4, shapes[name]) for name in "CE"}
    return {
        "B": draw.standard_normal(coordinates.size).astype(dtype),
        "B.pos1": np.cumsum([0, *map(len, lists)]).astype(np.int32),
        "B.crd1": coordinates,
        **{name: values.astype(dtype) for name, values in dense.items()},
    }


@pytest.mark.parametrize("value", [DataType.FP64, DataType.FP32])
@pytest.mark.parametrize(("dot", "row"), [(4, 4), (3, 4), (4, 3)])
@pytest.mark.parametrize("columns", [60, 25_000])
def test_the_bits_are_those_of_the_evaluator(
    columns: int, dot: int, row: int, value: DataType
) -> None:
    """Rows of so many vectors; those of many columns are asked for ahead."""
    lanes = 64 // value.width
    program = program_for(columns, dot * lanes, row * lanes, value)
    known = operands_for(columns, dot * lanes, row * lanes, value)
    meant = {tensor.name: known[tensor.name].copy() for tensor in program.tensors}
    evaluate(program, meant)
    for isa in filter(runs_here, Isa):
        executable = compile_program(program, isa=isa, threads=1)
        for sampled, added in product(INSIDE, repeat=2):
            found = {tensor.name: known[tensor.name] for tensor in program.tensors}
            insides = {"C": 16, "A": added, "D": sampled, "E": added}
            found |= {name: placed(known[name], inside) for name, inside in insides.items()}
            executable.run(found)
            same = found["A"].tobytes() == meant["A"].tobytes()
            assert same, f"{isa} {sampled} {added}"


def sampled_text(isa: Isa) -> str:
    calls = count_calls(lower(program_for(60, 32, 32, DataType.FP64), isa).roots)
    (kernel,) = {one for one in calls if isinstance(one, WalkedSampledSum) and one.rows is not None}
    return emit_kernel(kernel, isa)


def test_lines_are_read_whole_where_two_vectors_are_multiplied_a_cycle() -> None:
    lines, pieces = sampled_text(Isa.AMX), sampled_text(Isa.AVX512)
    assert "masked.load" in lines
    assert "load <4 x double>" not in lines
    assert "masked.load" not in pieces
    assert "load <4 x double>" in pieces
