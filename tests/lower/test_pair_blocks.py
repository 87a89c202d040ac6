"""Which tiles of BF16 are formed two steps at a time, in which blocks, and what they mean."""

from __future__ import annotations

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernel_program import Call, KernelNode, Loop
from teir.lower.kernels import GemmBlock, Kernel, PairBlock
from teir.lower.lower import lower
from teir.target import Isa

HINTS = '"prefetch": ["out"], "subnormals": "zero"'


def product(rows: int, columns: int, k: int, batch: int = 1, *, zero: bool = True) -> Program:
    """Tiles of so many rows and columns; three, one after the other."""
    before = "do_zero: zero" if zero else ""
    return parse_program(f"""teir 1 "pairs"
tensor in0: BF16
tensor in1: BF16
tensor out: BF16
axis p = 3: in1 {columns * batch * k * 2}, out {columns * rows * 2}
axis m = {rows}: in0 2, out 2
axis n = {columns}: in1 {batch * k * 2}, out {rows * 2}
axis t = {batch}: in0 {(k * rows + 1) * 2}, in1 {k * 2}
axis k = {k}: in0 {rows * 2}, in1 2
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction BF16 (in0, in1 -> out; M=[m], N=[n], K=[t, k]) with {{{HINTS}}}
sequential loop over p
  {before}
  do_gemm: gemm
""")


def runs(rows: int, count: int, columns: int, k: int, columns_are_in0: bool = False) -> Program:
    """Short rows that follow one another in one operand, and lie apart in the output."""
    near, far = ("in1", "in0") if columns_are_in0 else ("in0", "in1")
    roles = "M=[n], N=[m, q]" if columns_are_in0 else "M=[m, q], N=[n]"
    return parse_program(f"""teir 1 "runs"
tensor in0: BF16
tensor in1: BF16
tensor out: BF16
axis m = {rows}: {near} 2, out 2
axis q = {count}: {near} {rows * 2}, out {columns * rows * 2}
axis n = {columns}: {far} {k * 2}, out {rows * 2}
axis k = {k}: {near} {rows * count * 2}, {far} 2
primitive zero = Zero(out; {roles})
primitive gemm = Contraction BF16 (in0, in1 -> out; {roles}, K=[k]) with {{"subnormals": "zero"}}
do_zero: zero
do_gemm: gemm
""")


def kernels(nodes: tuple[KernelNode, ...]) -> list[Kernel]:
    found: list[Kernel] = []
    for node in nodes:
        found += [node.kernel] if isinstance(node, Call) else kernels(node.body)
    return found


def shapes(program: Program, isa: Isa = Isa.AVX512) -> list[tuple[int, int, int]]:
    """Rows, columns and runs of the blocks of pairs."""
    found = kernels(lower(program, isa).roots)
    return [(one.rows, one.columns, one.runs) for one in found if isinstance(one, PairBlock)]


def assert_same_as_evaluated(program: Program) -> None:
    draw = np.random.default_rng(3)
    start = {one: draw.integers(-3, 4, 40_000).astype(np.float32) for one in ("in0", "in1", "out")}
    memory = {one: array.astype(DataType.BF16.numpy_dtype()) for one, array in start.items()}
    expected = {one: array.copy() for one, array in memory.items()}
    evaluate(program, expected)
    evaluate_kernels(lower(program, Isa.AVX512), memory, {})
    np.testing.assert_array_equal(memory["out"], expected["out"])


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (96, 12, [(96, 4, 1)]),
        (288, 12, [(96, 4, 1)]),
        (64, 12, [(64, 6, 1)]),
        (128, 6, [(64, 6, 1)]),
        (160, 8, [(96, 4, 1), (64, 4, 1)]),
        (32, 7, [(32, 7, 1)]),
        (192, 5, [(64, 5, 1)]),
    ],
)
def test_blocks_are_as_high_as_pays(
    rows: int, columns: int, expected: list[tuple[int, int, int]]
) -> None:
    program = product(rows, columns, 9)
    assert shapes(program) == expected
    assert_same_as_evaluated(program)


def test_columns_of_one_width_are_one_call_that_claims_results_ahead() -> None:
    (kernel,) = kernels(lower(product(96, 12, 8), Isa.AVX512).roots)
    assert kernel == PairBlock(
        vectors=6, columns=4, runs=1, b_adjacent=True, claims=True, accumulates=False
    )
    (loop,) = lower(product(96, 12, 8), Isa.AVX512).roots
    assert isinstance(loop, Loop)
    (call,) = loop.body
    assert isinstance(call, Call)
    assert call.arguments[-4:] == (96 * 12 * 2, 3, 4 * 8 * 2, 4 * 96 * 2)


def test_two_sums_are_formed_by_one_call() -> None:
    program = product(96, 4, 7, batch=3)
    assert shapes(program) == [(96, 4, 1)]
    assert_same_as_evaluated(program)


@pytest.mark.parametrize(("rows", "whole", "rest"), [(104, 64, 40), (97, 64, 33), (127, 64, 63)])
def test_rows_left_over_take_a_pair_of_vectors_with_them(rows: int, whole: int, rest: int) -> None:
    program = product(rows, 12, 5)
    found = kernels(lower(program, Isa.AVX512).roots)
    assert sum(one.rows for one in found if isinstance(one, PairBlock)) == whole
    others = [one for one in found if isinstance(one, GemmBlock)]
    assert {one.vectors for one in others} == {-(-rest // 16)}
    assert_same_as_evaluated(program)


@pytest.mark.parametrize("columns_are_in0", [False, True])
@pytest.mark.parametrize(
    ("rows", "count", "expected"), [(24, 8, (96, 4, 4)), (8, 8, (32, 12, 4)), (16, 2, (32, 12, 2))]
)
def test_short_rows_fill_vectors_together(
    rows: int, count: int, expected: tuple[int, int, int], columns_are_in0: bool
) -> None:
    program = runs(rows, count, 12, 5, columns_are_in0)
    assert shapes(program) == [expected]
    assert_same_as_evaluated(program)


def test_sums_may_begin_with_the_output() -> None:
    program = product(96, 12, 8, zero=False)
    (kernel,) = set(kernels(lower(program, Isa.AVX512).roots))
    assert isinstance(kernel, PairBlock)
    assert kernel.accumulates
    assert_same_as_evaluated(program)


@pytest.mark.parametrize(
    "program",
    [
        product(31, 12, 8),
        product(48, 12, 8),
        product(96, 3, 8),
        product(96, 12, 200),
        runs(10, 16, 12, 8),
        runs(24, 6, 12, 8),
    ],
    ids=["few rows", "half", "few columns", "long", "odd runs", "runs left over"],
)
def test_other_tiles_are_blocks_as_ever(program: Program) -> None:
    assert shapes(program) == []
    assert_same_as_evaluated(program)


@pytest.mark.parametrize("isa", [Isa.AMX, Isa.AVX2, Isa.PLAIN])
def test_other_processors_have_no_such_blocks(isa: Isa) -> None:
    assert shapes(product(96, 12, 8), isa) == []


def test_a_call_ends_soon() -> None:
    program = product(96, 60_000, 64)
    found = kernels(lower(program, Isa.AVX512).roots)
    assert [type(one) for one in found] == [PairBlock]
    (loop,) = lower(program, Isa.AVX512).roots
    assert isinstance(loop, Loop)
    (walk,) = loop.body
    assert isinstance(walk, Loop)
    assert walk.extent == 15_000
