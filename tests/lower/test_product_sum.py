"""How the terms of a sum along rows are taken: in runs that several pieces of a row find near."""

from __future__ import annotations

import pytest

from teir.ir.parsing import parse_program
from teir.lower.kernel_program import Call, KernelNode, Loop
from teir.lower.kernels import ProductSum
from teir.lower.lower import lower
from teir.target import Isa


def sums_of_rows(m: int, k: int) -> tuple[KernelNode, ...]:
    """The nodes of out[m] = sum over k of in0[k, m] in1[k, m] in FP32."""
    program = parse_program(
        f"""teir 1 "sums"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis m = {m}: in0 4, in1 4, out 4
axis k = {k}: in0 {4 * m}, in1 {4 * m}
primitive sums = Contraction FP32 (in0, in1 -> out; C=[m], M=[], N=[], K=[k])
do_sums: sums
"""
    )
    return lower(program, Isa.AVX512).roots


@pytest.mark.parametrize("m", [17, 32, 48, 50])
def test_short_rows_of_several_pieces_are_taken_in_runs_that_stay_near(m: int) -> None:
    first, loop, *left = sums_of_rows(m, 10_000)
    assert isinstance(first, Call)
    assert isinstance(first.kernel, ProductSum)
    assert isinstance(loop, Loop)
    run = first.arguments[1]
    assert 2 * 4 * m * run <= 1 << 14
    rest = sum(node.arguments[1] for node in left if isinstance(node, Call))
    assert run * (1 + loop.extent) + rest == 10_000


@pytest.mark.parametrize(("m", "k"), [(16, 10_000), (50, 300)])
def test_rows_of_one_piece_and_few_rows_are_one_run(m: int, k: int) -> None:
    (call,) = sums_of_rows(m, k)
    assert isinstance(call, Call)
