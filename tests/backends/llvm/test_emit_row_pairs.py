"""Rows formed two at once: the bits of rows formed one by one, and only where rows are long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from teir.arrays.levels import Format, Level
from teir.backends.llvm.compile_ir import runs_here
from teir.backends.llvm.emit_kernel import emit_kernel
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.evaluate import evaluate
from teir.ir.nodes import IterationNode, Node, Operation, Program
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.lower.walked_kernels import WalkedSum
from teir.pipeline.executable import compile_program, default_isa
from teir.search.sparse.graph import linear
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of
from teir.target import Isa

Arrays = dict[str, np.ndarray]
PRODUCT = "A[i,l] = B[i,j] * C[j,l]"
SCALED = "A[i,l] = B[i,j] * D[i] * C[j,l]"
COLUMNS = 90


def program_for(text: str, rows: int, width: int, value: DataType, index: DataType) -> Program:
    levels = {"A": "dd", "B": "ds", "C": "dd", "D": "d"}
    kinds = {"d": Level.DENSE, "s": Level.COMPRESSED}
    assignment = parse_index_notation(text)
    formats = {
        name: Format(
            levels=tuple(kinds[one] for one in levels[name]),
            mode_order=tuple(range(len(levels[name]))),
        )
        for name in ("A", *assignment.inputs)
    }
    extents = {"i": rows, "j": COLUMNS, "l": width}
    graph = linear(statement_of(assignment, formats), ("i", "j", "l"))
    return program_of(graph, extents, data_type=value, index_type=index, name="pairs")


def operands_for(sizes: list[int], width: int, value: DataType, index: DataType) -> Arrays:
    """C and D of powers of two: products are exact, only the order of sums is left.

    Rows of C and A begin 16 bytes into a cache line.
    """
    draw, dtype = np.random.default_rng(len(sizes)), value.numpy_dtype()
    lists = [np.sort(draw.choice(COLUMNS, size, replace=False)) for size in sizes]
    rows = len(sizes)
    return {
        "B": draw.standard_normal(sum(sizes)).astype(dtype),
        "B.pos1": np.cumsum([0, *sizes]).astype(index.numpy_dtype()),
        "B.crd1": np.concatenate(lists).astype(index.numpy_dtype()),
        "C": inside_line((2.0 ** draw.integers(-3, 4, (COLUMNS, width))).astype(dtype)),
        "D": (2.0 ** draw.integers(-3, 4, rows)).astype(dtype),
        "A": inside_line(np.ones((rows, width), dtype)),
    }


def inside_line(values: np.ndarray) -> np.ndarray:
    memory = np.empty(values.nbytes + 128, np.uint8)
    first = -memory.ctypes.data % 64 + 16
    placed = memory[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    placed[...] = values
    return placed


def sizes_of_rows(rows: int, least: int) -> list[int]:
    """Different lengths of neighbours, either one longer, an empty row between long ones."""
    sizes: list[int] = np.random.default_rng(rows).integers(least, COLUMNS, rows).tolist()
    if rows > 4:
        sizes[3] = 0
    return sizes


def without_zero(program: Program) -> Program:
    """The program with sums that start from the output."""
    zeros = {one.name for one in program.primitives if one.operation is Operation.ZERO}

    def kept(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(
            structs.replace(node, children=kept(node.children))
            if isinstance(node, IterationNode)
            else node
            for node in nodes
            if isinstance(node, IterationNode) or node.primitive not in zeros
        )

    primitives = tuple(one for one in program.primitives if one.name not in zeros)
    return structs.replace(program, primitives=primitives, roots=kept(program.roots))


def compare(program: Program, known: Arrays) -> None:
    """The evaluator's bits, on every instruction set."""
    meant = {tensor.name: known[tensor.name].copy() for tensor in program.tensors}
    evaluate(program, meant)
    for isa in filter(runs_here, Isa):
        found = {tensor.name: known[tensor.name] for tensor in program.tensors}
        found["A"][...] = 1
        compile_program(program, isa=isa, threads=1).run(found)
        np.testing.assert_array_equal(found["A"], meant["A"], err_msg=str(isa))


@pytest.mark.parametrize(("text", "width"), [(PRODUCT, 16), (PRODUCT, 1), (SCALED, 7)])
def test_pairs_of_long_rows_have_the_bits_of_the_evaluator(text: str, width: int) -> None:
    for rows in (33, 150):
        program = program_for(text, rows, width, DataType.FP64, DataType.I32)
        sizes = sizes_of_rows(rows, 40)
        compare(program, operands_for(sizes, width, DataType.FP64, DataType.I32))


def test_pairs_of_other_types_have_the_bits_of_the_evaluator() -> None:
    program = program_for(PRODUCT, 48, 16, DataType.FP32, DataType.I64)
    compare(program, operands_for(sizes_of_rows(48, 40), 16, DataType.FP32, DataType.I64))


@pytest.mark.parametrize("least", [0, 40])
def test_rows_that_start_from_the_output_keep_it(least: int) -> None:
    program = without_zero(program_for(PRODUCT, 150, 16, DataType.FP64, DataType.I32))
    sizes = sizes_of_rows(150, least)
    known = operands_for(sizes, 16, DataType.FP64, DataType.I32)
    compare(program, known)
    np.testing.assert_array_equal(known["A"][3], 1)


def test_rows_of_the_same_coordinates_and_pairs_meet() -> None:
    program = program_for(PRODUCT, 150, 16, DataType.FP64, DataType.I32)
    known = operands_for([50] * 150, 16, DataType.FP64, DataType.I32)
    known["B.crd1"].reshape(150, 50)[4:7] = known["B.crd1"][200:250]
    compare(program, known)


def sums_of(program: Program) -> list[WalkedSum]:
    calls = count_calls(lower(program, default_isa()).roots)
    return [one for one in calls if isinstance(one, WalkedSum)]


def test_rows_of_few_vectors_are_formed_in_pairs() -> None:
    kernels = sums_of(program_for(PRODUCT, 150, 8, DataType.FP64, DataType.I32))
    (kernel,) = (one for one in kernels if one.rows is not None)
    assert "each_pair" in emit_kernel(kernel, default_isa())
    for other in (replace(kernel, vectors=3, aligns=None), replace(kernel, ahead=16)):
        assert "each_pair" not in emit_kernel(other, default_isa())
