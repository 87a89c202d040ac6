"""Copies of rows in parts leave the loops that do not move the rows, and only those."""

from __future__ import annotations

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.calls import kernels_of
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernel_program import Call, KernelNode, Loop
from teir.lower.kernels import PartCopy
from teir.lower.lower import lower
from teir.pipeline.executable import compile_program
from teir.target import Isa

M, N, K = 32, 20, 6


def product(loops: str, *, before: str = "", after: str = "", k: int = 3, m: int = M) -> Program:
    """Tiles of ``m`` x 20 results in loops; ``before`` and ``after`` are more leaves inside them.

    in0[m, k][row, step], in1[n, k][column, step], out[m, n].
    """
    w = DataType.C64.width
    indented = []
    for depth, name in enumerate(loops):
        indented.append(f"{'  ' * depth}sequential l{name} over {name}")
    inside = "  " * len(loops)
    leaves = [f"{inside}{leaf}" for leaf in (before, "do_gemm: gemm", after) if leaf]
    return parse_program(f"""teir 1 "product"
tensor in0: C64
tensor in1: C64
tensor in2: C64
tensor out: C64
axis m = 2: in0 {k * K * m * w}, in2 {k * K * m * w}, out {3 * N * m * w}
axis n = 3: in1 {k * K * N * w}, out {N * m * w}
axis k = {k}: in0 {K * m * w}, in1 {K * N * w}, in2 {K * m * w}
axis mp = {m}: in0 {w}, in2 {w}, out {w}
axis np = {N}: in1 {K * w}, out {m * w}
axis kp = {K}: in0 {m * w}, in1 {w}, in2 {m * w}
primitive zero = Zero(out; M=[mp], N=[np])
primitive twice = Copy(in2 -> in0; M=[mp], N=[kp])
primitive gemm = Contraction C64 (in0, in1 -> out; M=[mp], N=[np], K=[kp])
primitive other = Contraction C64 (in2, in1 -> out; M=[mp], N=[np], K=[kp])
{chr(10).join((*indented, *leaves))}
""")


def copies_inside(nodes: tuple[KernelNode, ...], around: int = 0) -> list[int]:
    """Turns of the loops around every copy."""
    found = []
    for node in nodes:
        if isinstance(node, Call) and isinstance(node.kernel, PartCopy):
            found.append(max(around, 1))
        elif isinstance(node, Loop):
            found += copies_inside(node.body, max(around, 1) * node.extent)
    return found


def results(program: Program, isa: Isa, k: int = 3, m: int = M) -> np.ndarray:
    random = np.random.default_rng(3)
    sizes = {"in0": 2 * k * K * m, "in1": 3 * k * K * N, "in2": 2 * k * K * m, "out": 6 * N * m}
    images = {}
    for name, size in sizes.items():
        numbers = random.standard_normal(size) + 1j * random.standard_normal(size)
        images[name] = numbers.astype(np.complex64)
    evaluate_kernels(lower(program, isa), images, {})
    return images["out"].view(np.uint8)


@pytest.mark.parametrize(
    ("loops", "turns"),
    [("n", 1), ("mn", 2), ("nm", 2), ("mnk", 2), ("nmk", 2), ("mkn", 6), ("kmn", 6)],
)
def test_rows_are_copied_once_where_the_room_holds_them(loops: str, turns: int) -> None:
    """A loop over sums right around a product is part of it."""
    program = product(loops)
    lowered = lower(program, Isa.AMX)
    assert copies_inside(lowered.roots) == [turns]
    np.testing.assert_array_equal(results(program, Isa.AMX), results(program, Isa.AVX512))


def test_the_room_holds_the_rows_of_every_turn() -> None:
    tile = M * K * DataType.C64.width
    assert lower(product("nm"), Isa.AMX).thread_scratch_bytes == 2 * tile
    assert lower(product("nmk"), Isa.AMX).thread_scratch_bytes == 6 * tile


def test_rows_of_more_turns_than_the_room_holds_stay_inside() -> None:
    program = product("nmk", k=100)
    assert copies_inside(lower(program, Isa.AMX).roots) == [6]


@pytest.mark.parametrize("leaf", ["do_twice: twice", "do_other: other"])
@pytest.mark.parametrize("is_before", [True, False])
def test_rows_or_a_room_that_others_write_stay_inside(leaf: str, is_before: bool) -> None:
    """A leaf beside the product writes its rows, or copies rows of its own to the same room."""
    program = product("mn", before=leaf) if is_before else product("mn", after=leaf)
    assert set(copies_inside(lower(program, Isa.AMX).roots)) == {6}
    np.testing.assert_array_equal(results(program, Isa.AMX), results(program, Isa.AVX512))


def test_a_start_from_zero_and_work_on_results_stay_behind() -> None:
    program = product("mnk", after="do_zero: zero")
    assert copies_inside(lower(program, Isa.AMX).roots) == [6]
    np.testing.assert_array_equal(results(program, Isa.AMX), results(program, Isa.AVX512))


@pytest.mark.parametrize("m", [16, 29, 40, 61, 72])
def test_every_height_of_a_tile_is_copied_right(m: int) -> None:
    program = product("mnk", m=m)
    assert PartCopy in {type(one) for one in kernels_of(lower(program, Isa.AMX).roots)}
    ours, plain = (results(program, isa, m=m) for isa in (Isa.AMX, Isa.AVX512))
    np.testing.assert_array_equal(ours, plain)


@pytest.mark.skipif(not runs_here(Isa.AMX), reason="tile registers")
@pytest.mark.parametrize("loops", ["mn", "nm", "mnk", "kmn"])
@pytest.mark.parametrize("m", [29, 72])
def test_native_code_gives_the_results_of_the_evaluator(loops: str, m: int) -> None:
    """Exactly, on small integers."""
    program = product(loops, m=m)
    random = np.random.default_rng(3)
    sizes = {"in0": 6 * K * m, "in1": 9 * K * N, "in2": 6 * K * m, "out": 6 * N * m}
    ours = {}
    for name, size in sizes.items():
        numbers = random.integers(-2, 3, size) + 1j * random.integers(-2, 3, size)
        ours[name] = numbers.astype(np.complex64)
    theirs = {name: array.copy() for name, array in ours.items()}
    compile_program(program, threads=1).run(ours)
    evaluate_kernels(lower(program, Isa.AMX), theirs, {})
    np.testing.assert_array_equal(ours["out"], theirs["out"])
