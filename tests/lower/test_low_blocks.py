"""Outer reductions go around the blocks of a tile where there are few vector registers."""

from __future__ import annotations

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.ir.evaluate import evaluate
from teir.ir.parsing import parse_program
from teir.lower.kernel_program import Call, KernelNode, Loop
from teir.lower.kernels import GemmBlock
from teir.lower.lower import lower
from teir.pipeline.executable import compile_program
from teir.target import Isa

WIDTHS = {"FP64": 8, "FP32": 4}


def tile(parts: int, sums: int, rows: int, kind: str = "FP64", zero: bool = False) -> str:
    """``parts`` blocks of ``sums`` products; room for 64 numbers between the blocks of A keeps both
    reductions apart."""
    width, columns = WIDTHS[kind], 7
    row_bytes = rows * width
    first = "  start: zero\n" if zero else ""
    return f"""teir 1 "blocks"
tensor in0: {kind}
tensor in1: {kind}
tensor out: {kind}
axis o = 1
axis p = {parts}: in0 {row_bytes * sums + 64 * width}, in1 {sums * width}
axis k = {sums}: in0 {row_bytes}, in1 {width}
axis m = {rows}: in0 {width}, out {width}
axis n = {columns}: in1 {parts * sums * width}, out {row_bytes}
primitive zero = Zero(out; M=[m], N=[n])
primitive product = Contraction {kind} (in0, in1 -> out; M=[m], N=[n], K=[p, k])
sequential once over o
{first}  main: product
"""


def goes_around(text: str, isa: Isa) -> bool:
    """True where a loop over all blocks of the sum but the first goes around register blocks."""
    roots = lower(parse_program(text), isa).roots
    assert all(isinstance(call.kernel, GemmBlock) for call in calls(roots))
    return any(isinstance(node, Loop) and node.extent == 7 for node in roots)


def calls(nodes: tuple[KernelNode, ...]) -> list[Call]:
    found: list[Call] = []
    for node in nodes:
        if isinstance(node, Call):
            found.append(node)
        elif isinstance(node, Loop):
            found += calls(node.body)
    return found


def test_reductions_go_around_where_a_panel_of_all_leaves_the_first_cache() -> None:
    # Eight blocks: the first one starts the sums, a loop over seven goes on with them.
    assert goes_around(tile(8, 32, 32), Isa.AVX2)
    assert not goes_around(tile(8, 32, 32), Isa.AVX512)
    assert not goes_around(tile(8, 8, 32), Isa.AVX2)
    assert not goes_around(tile(8, 800, 32), Isa.AVX2)
    assert not goes_around(tile(8, 32, 8), Isa.AVX2)


@pytest.mark.parametrize("isa", [isa for isa in (Isa.AVX2, Isa.PLAIN) if runs_here(isa)])
@pytest.mark.parametrize("kind", ["FP32", "FP64"])
@pytest.mark.parametrize("zero", [False, True])
def test_results_are_the_same(isa: Isa, kind: str, zero: bool) -> None:
    program = parse_program(tile(8, 32, 37, kind, zero))
    dtype = {"FP32": np.float32, "FP64": np.float64}[kind]
    draw = np.random.default_rng(5)
    operands = {
        "in0": draw.integers(-3, 4, 8 * (37 * 32 + 64)).astype(dtype),
        "in1": draw.integers(-3, 4, 7 * 8 * 32).astype(dtype),
    }
    out = draw.integers(-3, 4, 7 * 37).astype(dtype)
    expected = out.copy()
    evaluate(program, operands | {"out": expected})
    compile_program(program, isa=isa, threads=1).run(operands | {"out": out})
    np.testing.assert_array_equal(out, expected)
