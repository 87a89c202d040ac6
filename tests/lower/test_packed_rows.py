"""Rows are copied panel by panel, where registers are few, for all turns that read them."""

from __future__ import annotations

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.calls import calls_of
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernel_program import Call, Grid, KernelNode, Loop
from teir.lower.kernels import GemmBlock, PartCopy
from teir.lower.lower import lower
from teir.pipeline.executable import compile_program
from teir.target import Isa

WIDTHS = {"FP64": 8, "FP32": 4}
COLUMNS = 24


def product(
    rows: int,
    sums: tuple[int, int],
    turns: int,
    *,
    kind: str = "FP64",
    policy: str = "sequential",
    before: str = "",
    after: str = "",
) -> Program:
    """Two matrices of ``rows`` by ``sums`` steps, each times ``turns`` matrices of 24 columns.

    in0[m, p, k][row], in1[n, column, p, k], out[m, n][column, row]; eight numbers lie between the
    blocks of in0, so that both reductions stay apart.
    """
    width, (parts, steps) = WIDTHS[kind], sums
    row_bytes, block = rows * width, rows * width * steps + 8 * width
    leaves = [f"    {leaf}" for leaf in (before, "main: product", after) if leaf]
    return parse_program(f"""teir 1 "packed rows"
tensor in0: {kind}
tensor in1: {kind}
tensor out: {kind}
axis m = 2: in0 {parts * block}, out {turns * COLUMNS * row_bytes}
axis n = {turns}: in1 {COLUMNS * parts * steps * width}, out {COLUMNS * row_bytes}
axis p = {parts}: in0 {block}, in1 {steps * width}
axis k = {steps}: in0 {row_bytes}, in1 {width}
axis mp = {rows}: in0 {width}, out {width}
axis np = {COLUMNS}: in1 {parts * steps * width}, out {row_bytes}
primitive zero = Zero {kind} (out; M=[mp], N=[np])
primitive relu = ReLU {kind} (out -> out; M=[mp], N=[np])
primitive fill = Copy {kind} (out -> in0; M=[mp], N=[])
primitive product = Contraction {kind} (in0, in1 -> out; M=[mp], N=[np], K=[p, k])
{policy} m over m
  {policy} n over n
{chr(10).join(leaves)}
""")


def copied(nodes: tuple[KernelNode, ...], around: int = 1) -> list[int]:
    """Turns of the loops around every copy."""
    found = []
    for node in nodes:
        match node:
            case Call(kernel=PartCopy()):
                found.append(around)
            case Loop(extent=extent, body=body):
                found += copied(body, around * extent)
            case Grid(axes=axes, body=body):
                found += copied(body, around * int(np.prod([axis.extent for axis in axes])))
    return found


def test_rows_are_copied_once_for_all_turns() -> None:
    """Two panels of eight rows; 256 steps, in two parts."""
    lowered = lower(product(16, (8, 32), 32), Isa.AVX2)
    assert copied(lowered.roots) == [2 * 2, 2 * 2]
    blocks = [call.kernel for call, _ in calls_of(lowered.roots) if type(call.kernel) is GemmBlock]
    assert blocks
    assert all(one.parts and not one.splits_numbers for one in blocks)
    assert lowered.thread_scratch_bytes == 2 * 16 * 256 * 8


@pytest.mark.parametrize(
    ("rows", "sums", "turns"),
    [(8, (8, 32), 32), (16, (8, 32), 2), (16, (2, 32), 32), (640, (8, 32), 32)],
)
def test_others_are_read_where_they_lie(rows: int, sums: tuple[int, int], turns: int) -> None:
    """One panel, few columns, panels that stay near as they are, more rows than the room holds."""
    assert copied(lower(product(rows, sums, turns), Isa.AVX2).roots) == []


@pytest.mark.parametrize("isa", [isa for isa in Isa if isa.vector_registers >= 32])
def test_many_registers_read_rows_where_they_lie(isa: Isa) -> None:
    assert copied(lower(product(16, (8, 32), 32), isa).roots) == []


def test_rows_that_others_write_are_copied_every_turn() -> None:
    lowered = lower(product(16, (8, 32), 32, after="fill: fill"), Isa.AVX2)
    assert set(copied(lowered.roots)) == {2 * 32 * 2}


def test_a_thread_does_some_turns_of_a_grid_for_one_copy() -> None:
    lowered = lower(product(16, (8, 32), 96, policy="parallel"), Isa.AVX2)
    (grid,) = lowered.roots
    assert isinstance(grid, Grid)
    assert [axis.extent for axis in grid.axes] == [2, 16]  # Six turns at a time.
    assert copied(grid.body) == [2, 2]


def test_a_small_grid_keeps_its_points() -> None:
    lowered = lower(product(16, (8, 32), 24, policy="parallel"), Isa.AVX2)
    (grid,) = lowered.roots
    assert isinstance(grid, Grid)
    assert [axis.extent for axis in grid.axes] == [2, 24]
    assert copied(grid.body) == []


@pytest.mark.parametrize("kind", ["FP32", "FP64"])
@pytest.mark.parametrize("rows", [37, 48])
@pytest.mark.parametrize("policy", ["sequential", "parallel"])
@pytest.mark.parametrize(("before", "after"), [("", ""), ("zero: zero", "relu: relu")])
@pytest.mark.parametrize("sums", [(8, 32), (1, 199), (3, 100)])
def test_results_are_the_same(
    kind: str, rows: int, policy: str, before: str, after: str, sums: tuple[int, int]
) -> None:
    turns = 48
    program = product(rows, sums, turns, kind=kind, policy=policy, before=before, after=after)
    assert copied(lower(program, Isa.AVX2).roots)
    dtype = {"FP32": np.float32, "FP64": np.float64}[kind]
    draw, depth = np.random.default_rng(5), sums[0] * sums[1]
    operands = {
        "in0": draw.integers(-3, 4, 2 * (rows * depth + 8 * sums[0])).astype(dtype),
        "in1": draw.integers(-3, 4, turns * COLUMNS * depth).astype(dtype),
    }
    out = draw.integers(-3, 4, 2 * turns * COLUMNS * rows).astype(dtype)
    expected, modelled = out.copy(), out.copy()
    evaluate(program, operands | {"out": expected})
    evaluate_kernels(lower(program, Isa.AVX2), operands | {"out": modelled}, {})
    np.testing.assert_array_equal(modelled, expected)
    if runs_here(Isa.AVX2):
        compile_program(program, isa=Isa.AVX2, threads=2).run(operands | {"out": out})
        np.testing.assert_array_equal(out, expected)
