"""On AVX2 the last block of a tile is whole and begins earlier, not in part a vector."""

from __future__ import annotations

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.calls import calls_of
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernels import GemmBlock
from teir.lower.lower import lower
from teir.pipeline.executable import compile_program
from teir.target import Isa

WIDTHS = {"FP64": 8, "FP32": 4}


def tile(
    m: int, n: int, k: int, *, kind: str = "FP32", zero: bool = True, step: int = 1
) -> Program:
    """out[n, m] += sum over k of in0[k, m] in1[n, k]; rows of out lie ``step`` elements apart."""
    width = WIDTHS[kind]
    return parse_program(f"""teir 1 "tile"
tensor in0: {kind}
tensor in1: {kind}
tensor out: {kind}
axis m = {m}: in0 {width}, out {step * width}
axis n = {n}: in1 {k * width}, out {step * m * width}
axis k = {k}: in0 {m * width}, in1 {width}
primitive zero = Zero {kind} (out; M=[m], N=[n])
primitive product = Contraction {kind} (in0, in1 -> out; M=[m], N=[n], K=[k])
{"do_zero: zero" if zero else ""}
do_product: product
""")


def blocks(program: Program, isa: Isa) -> list[GemmBlock]:
    called = calls_of(lower(program, isa).roots)
    return [call.kernel for call, _ in called if isinstance(call.kernel, GemmBlock)]


def test_rows_are_kept_only_where_sums_go_on() -> None:
    from_zero, going_on = (blocks(tile(33, 33, 33, zero=zero), Isa.AVX2) for zero in (True, False))
    assert not any(one.masked for one in (*from_zero, *going_on))
    assert not any(one.keeps for one in from_zero)
    assert {one.keeps for one in going_on} == {True, False}


@pytest.mark.parametrize(
    ("program", "isa"),
    [
        (tile(33, 33, 33), Isa.AVX512),
        (tile(7, 33, 33), Isa.AVX2),
        (tile(17, 17, 49), Isa.AVX2),
    ],
)
def test_others_end_in_part_of_a_vector(program: Program, isa: Isa) -> None:
    """Where masks are cheap, where no vector is whole, and one high block in place of low ones."""
    assert any(one.masked for one in blocks(program, isa))
    assert not any(one.keeps for one in blocks(program, isa))


@pytest.mark.parametrize("kind", ["FP32", "FP64"])
@pytest.mark.parametrize("m", [9, 13, 31, 33, 47, 50])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("step", [1, 2])
def test_results_are_the_same(kind: str, m: int, zero: bool, step: int) -> None:
    n, k = 23, 19
    program = tile(m, n, k, kind=kind, zero=zero, step=step)
    dtype = {"FP32": np.float32, "FP64": np.float64}[kind]
    draw = np.random.default_rng(5)
    operands = {
        "in0": draw.integers(-3, 4, m * k).astype(dtype),
        "in1": draw.integers(-3, 4, n * k).astype(dtype),
    }
    out = draw.integers(-3, 4, n * m * step).astype(dtype)
    expected, modelled = out.copy(), out.copy()
    evaluate(program, operands | {"out": expected})
    evaluate_kernels(lower(program, Isa.AVX2), operands | {"out": modelled}, {})
    np.testing.assert_array_equal(modelled, expected)
    if runs_here(Isa.AVX2):
        compile_program(program, isa=Isa.AVX2, threads=1).run(operands | {"out": out})
        np.testing.assert_array_equal(out, expected)
