"""Sums over fibres in chains: the same bits from every form, and from the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from teir.arrays.levels import Format, Level
from teir.backends.llvm.compile_ir import runs_here
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.lanes import LANES, lanes_of
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.evaluate import evaluate_kernels
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.lower.walked_kernels import WalkedScatter, WalkedSum
from teir.pipeline.executable import compile_program, default_isa
from teir.search.sparse.graph import linear
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of
from teir.target import Isa

Arrays = dict[str, np.ndarray]

ROWS, COLUMNS = 45, 70
LEVELS = {"d": Level.DENSE, "s": Level.COMPRESSED}


def fibres(draw: np.random.Generator, rows: int) -> list[list[int]]:
    """Empty ones, short ones, one with every column."""
    sizes = draw.choice((0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33), rows)
    sizes[rows // 2] = COLUMNS
    return [sorted(draw.choice(COLUMNS, size, replace=False).tolist()) for size in sizes]


def operands_for(seed: int, value: DataType, index: DataType, outputs: int) -> Arrays:
    """Vectors of powers of two: products are exact, so that only the order of sums is left."""
    draw, dtype = np.random.default_rng(seed), value.numpy_dtype()
    lists = fibres(draw, ROWS)
    pos = np.cumsum([0, *map(len, lists)]).astype(index.numpy_dtype())
    crd = np.array([one for each in lists for one in each], index.numpy_dtype())
    return {
        "B": draw.standard_normal(crd.size).astype(dtype),
        "B.pos1": pos,
        "B.crd1": crd,
        "x": (2.0 ** draw.integers(-3, 4, COLUMNS)).astype(dtype),
        "z": (2.0 ** draw.integers(-3, 4, ROWS)).astype(dtype),
        "y": np.full(outputs, np.nan, dtype),
    }


def program_of_text(text: str, value: DataType, index: DataType) -> Program:
    assignment = parse_index_notation(text)
    words = {"y": "d" if "y[" in text else "", "B": "ds", "x": "d", "z": "d"}
    formats = {
        name: Format(
            levels=tuple(LEVELS[one] for one in words[name]),
            mode_order=tuple(range(len(words[name]))),
        )
        for name in ("y", *assignment.inputs)
    }
    statement = statement_of(assignment, formats)
    extents = {"i": ROWS, "j": COLUMNS}
    return program_of(
        linear(statement, ("i", "j")), extents, data_type=value, index_type=index, name="chains"
    )


SUMS = ("y[i] = B[i,j] * x[j]", "y[i] = B[i,j]", "y[i] = z[i] * B[i,j] * x[j]")


@pytest.mark.parametrize("value", [DataType.FP64, DataType.FP32])
@pytest.mark.parametrize("index", [DataType.I32, DataType.I64])
@pytest.mark.parametrize("text", SUMS)
def test_native_code_keeps_the_chains(text: str, value: DataType, index: DataType) -> None:
    program = program_of_text(text, value, index)
    known = operands_for(7, value, index, ROWS)
    operands = {tensor.name: known[tensor.name] for tensor in program.tensors}
    meant = {name: array.copy() for name, array in operands.items()}
    evaluate(program, meant)
    kernels = {name: array.copy() for name, array in operands.items()}
    evaluate_kernels(lower(program, default_isa()), kernels, {})
    np.testing.assert_array_equal(kernels["y"], meant["y"])
    for isa in filter(runs_here, Isa):
        for threads in (1, 2):
            found = {name: array.copy() for name, array in operands.items()}
            compile_program(program, isa=isa, threads=threads).run(found)
            np.testing.assert_array_equal(found["y"], meant["y"], err_msg=f"{isa} {threads}")


def test_chains_are_another_order_than_one_chain() -> None:
    program = program_of_text(SUMS[0], DataType.FP64, DataType.I32)
    operands = operands_for(3, DataType.FP64, DataType.I32, ROWS)
    del operands["z"]
    (add,) = (one for one in program.primitives if lanes_of(one) == 8)
    assert add.metadata == ((LANES, "8"),)
    results = []
    for made in (program, _without_lanes(program)):
        found = {name: array.copy() for name, array in operands.items()}
        compile_program(made).run(found)
        results.append(found["y"])
    assert (results[0] != results[1]).any()
    np.testing.assert_allclose(results[0], results[1], rtol=1e-12, atol=1e-12)


def _without_lanes(program: Program) -> Program:
    plain = tuple(replace(one, metadata=()) for one in program.primitives)
    return replace(program, primitives=plain)


@pytest.mark.parametrize("text", ["y = z[i] * B[i,j] * x[j]", "y = B[i,j]"])
def test_all_rows_add_into_one_number_in_one_call(text: str) -> None:
    program = program_of_text(text, DataType.FP64, DataType.I32)
    lowered = lower(program, default_isa())
    (kernel,) = (one for one in count_calls(lowered.roots) if isinstance(one, WalkedSum))
    assert kernel.rows is not None
    known = operands_for(5, DataType.FP64, DataType.I32, 1)
    operands = {tensor.name: known[tensor.name] for tensor in program.tensors}
    meant = {name: array.copy() for name, array in operands.items()}
    evaluate(program, meant)
    compile_program(program).run(operands)
    np.testing.assert_allclose(operands["y"], meant["y"], rtol=1e-13)


@pytest.mark.parametrize(
    "text", ["y[j] = B[i,j] * z[i]", "y[j] = B[i,j]", "y[j] = z[i] * B[i,j] * x[j]"]
)
def test_rows_that_scatter_numbers_are_one_call(text: str) -> None:
    program = program_of_text(text, DataType.FP64, DataType.I32)
    lowered = lower(program, default_isa())
    (kernel,) = (one for one in count_calls(lowered.roots) if isinstance(one, WalkedScatter))
    assert kernel.has_rows
    known = operands_for(6, DataType.FP64, DataType.I32, COLUMNS)
    operands = {tensor.name: known[tensor.name] for tensor in program.tensors}
    results = [{name: array.copy() for name, array in operands.items()} for _ in range(2)]
    evaluate(program, results[0])
    evaluate_kernels(lowered, results[1], {})
    compile_program(program).run(operands)
    np.testing.assert_array_equal(results[1]["y"], results[0]["y"])
    np.testing.assert_array_equal(operands["y"], results[0]["y"])


REFUSED = """
tensor B: FP64
tensor pos: I32
tensor crd: I32
tensor y: FP64
axis j = 9: B 8, crd 4{moved}; segment pos pos crd crd by_position [B]
axis k = 4: {k}
primitive add = Contraction FP64 (B -> y; M=[], N=[], K=[]) with {{"lanes": 8}}
primitive clear = Zero(y; M=[], N=[])
sequential {outer}
"""


@pytest.mark.parametrize(
    ("moved", "k", "outer"),
    [
        (", y 8", "B 8", "j over j\n  add: add"),
        ("", "B 8", "k over k\n  add: add"),
        ("", "B 8", "j over j\n  clear: clear\n  add: add"),
    ],
    ids=("moves its output", "dense loop", "not alone"),
)
def test_chains_of_visits_are_refused_elsewhere(moved: str, k: str, outer: str) -> None:
    program = parse_program(f'teir 1 "no"{REFUSED.format(moved=moved, k=k, outer=outer)}')
    assert "TEIR339" in {finding.rule.code for finding in check(program).findings}
