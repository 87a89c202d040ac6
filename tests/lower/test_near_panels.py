"""Panels ask for the part of A that is multiplied next, so that it fits the first cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.ir.evaluate import evaluate
from teir.ir.parsing import parse_program
from teir.lower.kernel_program import Call, KernelNode, inner_nodes
from teir.lower.kernels import PanelBlock
from teir.lower.lower import lower
from teir.lower.near_panels import Panel, near_parts
from teir.pipeline.executable import compile_program
from teir.target import Isa

SIZES = [(96, 48, 48), (96, 20, 301), (104, 9, 500), (48, 50, 700)]


def tiles(rows: int, columns: int, k: int, hints: str = '{"prefetch": ["in0"]}') -> str:
    """Four tiles of so many adjacent rows."""
    row_bytes = 4 * rows
    return f"""teir 1 "tiles"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis p = 4: in0 {row_bytes * k}, out {row_bytes * columns}
axis m = {rows}: in0 4, out 4
axis n = {columns}: in1 {4 * k}, out {row_bytes}
axis k = {k}: in0 {row_bytes}, in1 4
primitive product = Contraction FP32 (in0, in1 -> out; M=[m], N=[n], K=[k]) with {hints}
sequential all over p
  one: product
"""


def calls_of(text: str, isa: Isa) -> Iterator[tuple[Call, PanelBlock]]:
    def walk(nodes: tuple[KernelNode, ...]) -> Iterator[Call]:
        for node in nodes:
            if isinstance(node, Call):
                yield node
            else:
                yield from walk(inner_nodes(node))

    for call in walk(lower(parse_program(text), isa).roots):
        assert isinstance(call.kernel, PanelBlock)
        yield call, call.kernel


def asking(text: str, isa: Isa = Isa.AVX512_ZEN5) -> list[tuple[Call, PanelBlock]]:
    return [(call, kernel) for call, kernel in calls_of(text, isa) if kernel.brings]


@pytest.mark.parametrize("steps", [1, 7, 48, 1000])
@pytest.mark.parametrize("is_whole", [False, True])
def test_the_parts_of_a_tile_are_all_steps_of_all_panels_once(steps: int, is_whole: bool) -> None:
    panels = [Panel(192 * number, 192) for number in range(3)]
    parts = list(near_parts(panels, steps, 600, 10**6, is_whole))
    found = [
        (part.number, step) for part in parts for step in range(part.first, part.first + part.steps)
    ]
    assert sorted(found) == [(number, step) for number in range(3) for step in range(steps)]
    assert len(found) == 3 * steps
    assert len(parts) == 3 or not is_whole


def test_each_part_asks_for_the_one_that_follows_and_the_last_for_the_next_tile() -> None:
    panels = [Panel(192 * number, 192) for number in range(3)]
    parts = list(near_parts(panels, 1000, 600, 10**6, is_whole=False))
    places = [part.first * 600 + panels[part.number].start_bytes for part in parts]
    assert len(parts) > 3
    assert [part.ahead_bytes for part in parts[:-1]] == [
        following - place for place, following in pairwise(places)
    ]
    assert places[-1] + parts[-1].ahead_bytes == 10**6


def test_a_tile_of_very_many_parts_has_none() -> None:
    assert not list(near_parts([Panel(0, 192)] * 65, 48, 600, 10**6, is_whole=True))


@pytest.mark.parametrize(("rows", "columns", "k"), [(96, 20, 300), (48, 50, 704)])
def test_what_is_asked_for_is_all_but_the_first_part_and_that_of_the_next_tile(
    rows: int, columns: int, k: int
) -> None:
    calls, column_bytes = asking(tiles(rows, columns, k)), 4 * rows

    def part_of(call: Call, kernel: PanelBlock, ahead: int) -> set[int]:
        begins = call.operands[0].offset_bytes + ahead
        columns_of_a = range(begins, begins + call.arguments[0] * column_bytes, column_bytes)
        return {place + row for place in columns_of_a for row in range(0, 4 * kernel.rows, 4)}

    asked = set[int]().union(*(part_of(*one, one[0].arguments[7]) for one in calls))
    whole = set(range(0, k * column_bytes, 4))
    first = part_of(*calls[0], 0)
    assert asked == (whole - first) | {place + k * column_bytes for place in first}


@pytest.mark.skipif(not runs_here(Isa.AVX512_ZEN5), reason="needs AVX-512")
@pytest.mark.parametrize(("rows", "columns", "k"), SIZES)
def test_tiles_that_ask_are_what_the_evaluator_says(rows: int, columns: int, k: int) -> None:
    program, draw = parse_program(tiles(rows, columns, k)), np.random.default_rng(3)
    sizes = {"in0": 4 * rows * k, "in1": columns * k, "out": 4 * rows * columns}
    operands = {name: draw.integers(-3, 4, size).astype("f4") for name, size in sizes.items()}
    expected = {name: one.copy() for name, one in operands.items()}
    evaluate(program, expected)
    compile_program(program, threads=1, isa=Isa.AVX512_ZEN5).run(operands)
    np.testing.assert_array_equal(operands["out"], expected["out"])


def test_only_the_last_part_of_the_sum_asks_for_the_results_of_the_next_tile() -> None:
    text = tiles(96, 20, 500, '{"prefetch": ["in0", "out"]}')
    claiming = [call for call, kernel in calls_of(text, Isa.AVX512_ZEN5) if kernel.claims]
    assert claiming
    assert all(call.arguments[0] + call.operands[0].offset_bytes // 384 == 500 for call in claiming)


def test_where_requests_are_kept_a_panel_asks_for_its_own_part_of_the_next_tile() -> None:
    near = asking(tiles(96, 48, 48))
    far = asking(tiles(96, 48, 48), Isa.AVX512)
    assert {call.arguments[7] for call, _ in far} == {4 * 96 * 48}
    assert {call.arguments[7] for call, _ in near} != {4 * 96 * 48}
