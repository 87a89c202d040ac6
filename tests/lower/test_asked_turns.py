"""Rows of the next turn of a loop: which blocks ask for them, and from where on."""

from __future__ import annotations

import numpy as np
import pytest

from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.asking_kernels import CELL_BYTES, BeginAsking, BringLines
from teir.lower.calls import calls_of
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernel_program import Call, Storage
from teir.lower.kernels import GemmBlock
from teir.lower.lower import lower
from teir.target import Isa

ROWS, COLUMNS = 48, 24
HINT = 'with {"prefetch": ["in0"]}'
BOTH = 'with {"prefetch": ["in0", "in1"]}'


def product(hint: str = HINT, *, batches: int = 3, columns: int = COLUMNS) -> Program:
    """Turns over rows around turns over columns; a sum of three axes, each apart from the others
    in both inputs."""
    row_bytes = 4 * ROWS * 8
    return parse_program(f"""teir 1 "rows in place"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
axis p = 4: in0 {ROWS * 8} + 64, out {ROWS * 8}
axis q = 2: in1 {columns * 900 * 8}, out {columns * row_bytes}
axis m = {ROWS}: in0 8, out 8
axis n = {columns}: in1 7200, out {row_bytes}
axis t = {batches}: in0 {40 * row_bytes}, in1 1600
axis k = 40: in0 {row_bytes}, in1 16
primitive gemm = Contraction FP64 (in0, in1 -> out; M=[m], N=[n], K=[t, k]) {hint}
sequential rows over p
  sequential columns over q
    do_gemm: gemm
""")


def called(program: Program, isa: Isa = Isa.AVX512_ZEN5) -> list[Call]:
    return [call for call, _ in calls_of(lower(program, isa).roots)]


def asking(program: Program, isa: Isa = Isa.AVX512_ZEN5) -> list[Call]:
    calls = called(program, isa)
    return [one for one in calls if isinstance(one.kernel, GemmBlock) and one.kernel.asks]


def test_blocks_ask_for_the_rows_of_the_next_turn() -> None:
    lowered = lower(product(), Isa.AVX512_ZEN5)
    calls = [call for call, _ in calls_of(lowered.roots)]
    (begin,) = [call for call in calls if isinstance(call.kernel, BeginAsking)]
    blocks = [call for call in calls if isinstance(call.kernel, GemmBlock)]
    assert blocks
    assert all(call.kernel.asks and call.operands[3] == begin.operands[1] for call in blocks)
    assert begin.operands[0].offset_bytes == 64 + ROWS * 8
    assert begin.arguments == (ROWS * 8, 120, 4 * ROWS * 8, 1, 0)
    slot = lowered.slots[begin.operands[1].slot]
    assert slot.storage is Storage.THREAD
    assert slot.start_bytes + CELL_BYTES <= lowered.thread_scratch_bytes
    assert not any(isinstance(call.kernel, BringLines) for call in calls)


def blocks_of_both(columns: int = COLUMNS) -> Program:
    """Blocks of a sum of both inputs."""
    return parse_program(f"""teir 1 "blocks of the sum"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
axis b = 5: in0 {40 * ROWS * 8}, in1 320
axis m = {ROWS}: in0 8, out 8
axis n = {columns}: in1 1600, out {ROWS * 8}
axis k = 40: in0 {ROWS * 8}, in1 8
axis t = 2: in0 {200 * ROWS * 8}, in1 {columns * 1600}
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction FP64 (in0, in1 -> out; M=[m], N=[n], K=[t, k]) {BOTH}
sequential blocks over b
  do_zero: zero if first(b)
  do_gemm: gemm
""")


@pytest.mark.parametrize("isa", [Isa.AVX512, Isa.AVX512_ZEN5])
def test_blocks_ask_for_both_inputs_one_after_the_other(isa: Isa) -> None:
    calls = called(blocks_of_both(), isa)
    first, second = [call for call in calls if isinstance(call.kernel, BeginAsking)]
    assert first.operands[2] == second.operands[1] == second.operands[2]
    assert first.operands[0].offset_bytes == 40 * ROWS * 8
    assert first.arguments == (40 * ROWS * 8, 2, 200 * ROWS * 8, 1, 0)
    assert second.operands[0].offset_bytes == 320
    assert second.arguments == (320, 2 * COLUMNS, 1600, 1, 0)
    blocks = [call for call in calls if isinstance(call.kernel, GemmBlock)]
    assert blocks
    assert all(call.operands[3] == first.operands[1] for call in blocks)
    assert not any(call.arguments[15] for call in blocks)


def test_passes_ask_for_lines_enough() -> None:
    """Of few columns so many that they would not come in passing: nothing is asked for."""
    (lines,) = {one.kernel.asks for one in asking(blocks_of_both(), Isa.AVX512)}
    (fewer,) = {one.kernel.asks for one in asking(blocks_of_both(8 * COLUMNS), Isa.AVX512)}
    assert lines > fewer >= 1
    assert not asking(blocks_of_both(4), Isa.AVX512)


@pytest.mark.parametrize("program", [product(), blocks_of_both()], ids=["one input", "both"])
def test_blocks_that_ask_compute_the_same(program: Program) -> None:
    random = np.random.default_rng(3)
    sizes = {"in0": 8 + 120 * 4 * ROWS, "in1": 2 * COLUMNS * 900, "out": 4 * ROWS * 2 * COLUMNS}
    memory = {name: random.integers(-3, 4, size).astype(float) for name, size in sizes.items()}
    expected = {name: array.copy() for name, array in memory.items()}
    evaluate(program, expected)
    evaluate_kernels(lower(program, Isa.AVX512_ZEN5), memory, {})
    np.testing.assert_array_equal(memory["out"], expected["out"])


@pytest.mark.parametrize(
    ("program", "isa"),
    [
        (product(hint=""), Isa.AVX512_ZEN5),
        (product(hint='with {"prefetch": ["in1"]}', columns=1), Isa.AVX512_ZEN5),
        (product(), Isa.AVX512),
        (product(), Isa.AVX512_INTEL),
        (product(), Isa.AVX2),
    ],
    ids=["nothing named", "one column", "asks far", "asks by rows", "few registers"],
)
def test_other_blocks_do_not(program: Program, isa: Isa) -> None:
    assert not asking(program, isa)
    assert not any(isinstance(one.kernel, BeginAsking) for one in called(program, isa))


def test_blocks_ask_where_requests_are_kept_if_they_make_passes_enough() -> None:
    assert not asking(product(), Isa.AVX512)
    assert asking(product(columns=8 * COLUMNS), Isa.AVX512)
    assert not asking(product(columns=8 * COLUMNS), Isa.AVX512_INTEL)
