"""Panels ask for the next tile's A a few lines at a time, each for a share of its rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import teir
from teir.ir.evaluate import evaluate
from teir.ir.parsing import parse_program
from teir.lower.asked_in_passing import shares
from teir.lower.kernel_program import Call, KernelNode, inner_nodes
from teir.lower.kernels import PanelBlock
from teir.lower.lower import lower
from teir.target import LINE_BYTES, Isa

ASKING = '{"prefetch": ["in0"]}'


def tiles(rows: int, columns: int, k: int) -> str:
    """Four tiles of so many adjacent rows; A is asked for."""
    row_bytes = 4 * rows
    return f"""teir 1 "tiles"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis p = 4: in0 {row_bytes}, out {row_bytes}
axis m = {rows}: in0 4, out 4
axis n = {columns}: in1 {4 * k}, out {4 * row_bytes}
axis k = {k}: in0 {4 * row_bytes}, in1 4
primitive product = Contraction FP32 (in0, in1 -> out; M=[m], N=[n], K=[k]) with {ASKING}
sequential all over p
  one: product
"""


def panels_of(text: str, isa: Isa = Isa.AVX512_INTEL) -> Iterator[tuple[Call, PanelBlock]]:
    def walk(nodes: tuple[KernelNode, ...]) -> Iterator[Call]:
        for node in nodes:
            if isinstance(node, Call):
                yield node
            else:
                yield from walk(inner_nodes(node))

    for call in walk(lower(parse_program(text), isa).roots):
        assert isinstance(call.kernel, PanelBlock)
        yield call, call.kernel


def asked_by(call: Call, kernel: PanelBlock) -> Iterator[int]:
    """The places in A that a call asks for, as from where its own panel begins."""
    k, a_k, ahead = call.arguments[0], call.arguments[1], call.arguments[7]
    steps_bytes, row_bytes, blocks = call.arguments[-5:-2]
    line = row = ahead
    for _ in range(blocks * (k // 4) * kernel.spreads):
        yield line
        if line + LINE_BYTES < row + row_bytes:
            line += LINE_BYTES
            continue
        row = row if row + a_k >= ahead + steps_bytes else row + a_k
        line = row


@pytest.mark.parametrize(("panels", "k"), [(1, 5), (2, 5), (3, 48), (8, 8), (5, 17)])
def test_the_shares_of_the_panels_are_all_steps(panels: int, k: int) -> None:
    found = list(shares(k, 256, [64 * number for number in range(panels)]))
    assert [share.start_bytes for share in found] == [64 * number for number in range(panels)]
    steps = [step for share in found for step in range(share.first, share.first + share.steps)]
    assert steps == list(range(k))


@pytest.mark.parametrize(("panels", "k"), [(9, 48), (4, 3)])
def test_many_panels_and_short_sums_have_no_shares(panels: int, k: int) -> None:
    assert not list(shares(k, 256, range(panels)))


@pytest.mark.parametrize(("rows", "columns", "k"), [(96, 48, 48), (48, 24, 17), (104, 48, 30)])
def test_all_lines_of_the_next_tile_are_asked_for(rows: int, columns: int, k: int) -> None:
    text, found = tiles(rows, columns, k), set[int]()
    for call, kernel in panels_of(text):
        if kernel.spreads:
            begins = call.operands[0].offset_bytes
            found |= {begins + place for place in asked_by(call, kernel)}
    next_tile = range(4 * rows, 4 * rows * (1 + 4 * k), 4 * 4 * rows)
    assert found == {row + line for row in next_tile for line in range(0, 4 * rows, LINE_BYTES)}


@pytest.mark.parametrize(("rows", "columns", "k"), [(96, 48, 48), (48, 24, 17), (104, 48, 30)])
def test_tiles_that_ask_are_what_the_evaluator_says(rows: int, columns: int, k: int) -> None:
    program, draw = parse_program(tiles(rows, columns, k)), np.random.default_rng(3)
    sizes = {"in0": 4 * rows * k, "in1": columns * k, "out": 4 * rows * columns}
    operands = {name: draw.integers(-3, 4, size).astype("f4") for name, size in sizes.items()}
    expected = {name: one.copy() for name, one in operands.items()}
    evaluate(program, expected)
    teir.run(program, operands, threads=1)
    np.testing.assert_array_equal(operands["out"], expected["out"])


@pytest.mark.parametrize(("columns", "k"), [(9, 48), (20, 3)], ids=["one block", "short sum"])
def test_few_blocks_and_short_sums_ask_at_once(columns: int, k: int) -> None:
    asking = [kernel for _, kernel in panels_of(tiles(48, columns, k)) if kernel.brings]
    assert asking
    assert not any(kernel.spreads for kernel in asking)


def test_only_where_it_was_measured_panels_ask_a_few_lines_at_a_time() -> None:
    asking = [kernel for _, kernel in panels_of(tiles(96, 48, 48), Isa.AVX512) if kernel.brings]
    assert asking
    assert not any(kernel.spreads for kernel in asking)
