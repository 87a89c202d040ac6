"""Where there are few registers, blocks take whole columns that follow one another and are far."""

from __future__ import annotations

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.calls import calls_of
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernels import PanelBlock
from teir.lower.lower import lower
from teir.pipeline.executable import compile_program
from teir.target import Isa

WIDTHS = {"FP64": 8, "FP32": 4}
TILES = 3


def product(
    rows: int,
    columns: int,
    sums: int,
    *,
    kind: str = "FP64",
    gap: int = 0,
    hint: str = ' with {"prefetch": ["out"]}',
    zero: bool = True,
) -> Program:
    """Tiles of ``rows`` by ``columns``, ``gap`` numbers between columns of the result."""
    width = WIDTHS[kind]
    column = (rows + gap) * width
    start = "  start: zero\n" if zero else ""
    return parse_program(f"""teir 1 "columns in a row"
tensor in0: {kind}
tensor in1: {kind}
tensor out: {kind}
axis t = {TILES}: in1 {columns * sums * width}, out {columns * column}
axis m = {rows}: in0 {width}, out {width}
axis n = {columns}: in1 {width}, out {column}
axis k = {sums}: in0 {rows * width}, in1 {columns * width}
primitive zero = Zero {kind} (out; M=[m], N=[n])
primitive product = Contraction {kind} (in0, in1 -> out; M=[m], N=[n], K=[k]){hint}
sequential tiles over t
{start}  main: product
""")


def blocks(program: Program, isa: Isa) -> list[PanelBlock]:
    called = calls_of(lower(program, isa).roots)
    return [call.kernel for call, _ in called if isinstance(call.kernel, PanelBlock)]


@pytest.mark.parametrize(
    ("rows", "kind", "shape"),
    [
        (24, "FP64", (6, 2)),
        (24, "FP32", (3, 4)),
        (48, "FP32", (6, 2)),
        (16, "FP64", (4, 3)),
        (8, "FP64", (2, 6)),
    ],
)
def test_blocks_are_whole_columns_and_ask_for_nothing(
    rows: int, kind: str, shape: tuple[int, int]
) -> None:
    (block,) = blocks(product(rows, 12, 24, kind=kind), Isa.AVX2)
    assert (block.vectors, block.columns) == shape
    assert block.dense_columns
    assert block.staggers
    assert not block.claims
    assert not block.streams


@pytest.mark.parametrize(
    "program",
    [
        product(24, 12, 24, zero=False),
        product(24, 12, 24, gap=1),
        product(24, 12, 200),
        product(20, 12, 24),
        product(28, 12, 24),
        product(24, 12, 24, hint=""),
    ],
)
def test_others_are_not(program: Program) -> None:
    """Sums that go on, gaps, long sums, five vectors, seven, results that are near."""
    assert all(block.vectors <= 3 for block in blocks(program, Isa.AVX2))


@pytest.mark.parametrize("rows", [22, 23, 24])
def test_blocks_that_go_past_the_caches_stay_low(rows: int) -> None:
    """Six vectors, the last one whole or not, which a program asks to have written so."""
    program = product(rows, 12, 24, hint=' with {"stream": true}')
    assert all(block.vectors <= 3 for block in blocks(program, Isa.AVX2))
    if runs_here(Isa.AVX2):
        out = np.zeros(TILES * 12 * rows)
        operands = {"in0": np.ones(rows * 24), "in1": np.ones(TILES * 12 * 24), "out": out}
        compile_program(program, isa=Isa.AVX2, threads=1).run(operands)
        np.testing.assert_array_equal(out, 24)


@pytest.mark.parametrize("kind", ["FP32", "FP64"])
@pytest.mark.parametrize("rows", [16, 24, 48])
@pytest.mark.parametrize("columns", [2, 7, 12])
@pytest.mark.parametrize("sums", [8, 11, 24])
def test_results_are_the_same(kind: str, rows: int, columns: int, sums: int) -> None:
    program = product(rows, columns, sums, kind=kind)
    dtype = {"FP32": np.float32, "FP64": np.float64}[kind]
    draw = np.random.default_rng(5)
    operands = {
        "in0": draw.integers(-3, 4, rows * sums).astype(dtype),
        "in1": draw.integers(-3, 4, TILES * columns * sums).astype(dtype),
    }
    expected, modelled, out = (np.ones(TILES * rows * columns, dtype) for _ in range(3))
    evaluate(program, operands | {"out": expected})
    evaluate_kernels(lower(program, Isa.AVX2), operands | {"out": modelled}, {})
    np.testing.assert_array_equal(modelled, expected)
    if runs_here(Isa.AVX2):
        compile_program(program, isa=Isa.AVX2, threads=1).run(operands | {"out": out})
        np.testing.assert_array_equal(out, expected)
