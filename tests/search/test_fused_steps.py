"""Steps fused in a loop over blocks of an index of the output."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from search.planned import USUAL, of_shapes
from strategies.contractions import Drawn, draw
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.printing import print_program
from teir.lower.slots import assign_slots
from teir.search.fused_steps import FusedSteps
from teir.search.machine import Machine
from teir.search.tree import TreeOptions, TreeProgram, contraction_program

SMALL = replace(USUAL, l2_bytes=4096)
CHAIN = ("id,dk,kj->ij", ((300, 8), (8, 100), (100, 8)))


def planned(
    text: str, shapes: tuple[tuple[int, ...], ...], machine: Machine, *, rearrange: bool = True
) -> TreeProgram:
    contraction = of_shapes(text, shapes)
    options = TreeOptions(rearrange=rearrange)
    return contraction_program(contraction, ((0, 1),) * (len(shapes) - 1), machine, options)


def scratch(tree: TreeProgram) -> int:
    return assign_slots(tree.program).run_scratch_bytes


def test_a_large_intermediate_stays_in_blocks() -> None:
    text, shapes = CHAIN
    fused, whole = planned(text, shapes, SMALL), planned(text, shapes, USUAL)
    assert fused.fused == FusedSteps((("i", 20),))
    assert whole.fused is None
    assert 10 * scratch(fused) < scratch(whole)
    assert [step.products for step in fused.steps] == [240_000, 240_000]
    assert check(fused.program).ok


def test_a_block_stays_in_the_second_cache_where_the_third_is_far() -> None:
    text, shapes = CHAIN[0], ((153_600, 8), *CHAIN[1][1:])
    server = replace(USUAL, l2_bytes=2 << 20, l3_bytes=65 << 20)
    near = planned(text, shapes, replace(server, l3_bytes=64 << 20)).fused
    assert near == FusedSteps((("i", 10_240),))
    assert planned(text, shapes, server).fused == FusedSteps((("i", 2_560),))


def test_every_thread_has_a_share_of_a_block() -> None:
    text, shapes = CHAIN
    fused = planned(text, shapes, replace(SMALL, threads=2)).fused
    assert fused == FusedSteps((("i", 30),))


def test_the_written_layouts_keep_their_loops_too() -> None:
    text, shapes = CHAIN
    assert planned(text, shapes, SMALL, rearrange=False).fused is None


@pytest.mark.parametrize(
    ("text", "shapes", "why"),
    [
        ("id,dk,kj->ij", ((300, 8), (8, 100), (100, 400)), "the output is large itself"),
        ("id,dk,kj->ji", ((300, 8), (8, 100), (100, 8)), "the lanes of the output"),
        ("id,kd,kj->ij", ((30, 8), (2000, 8), (2000, 8)), "what is read again is large"),
    ],
)
def test_no_loop_where_it_does_not_pay(
    text: str, shapes: tuple[tuple[int, ...], ...], why: str
) -> None:
    assert planned(text, shapes, SMALL).fused is None, why


@pytest.mark.parametrize(("depth", "is_fused"), [(128, True), (160, False)])
def test_bytes_count_beside_the_arithmetic(depth: int, is_fused: bool) -> None:
    shapes = ((300, depth), (depth, 1000), (1000, 100))
    tree = planned("id,dk,kj->ij", shapes, replace(USUAL, l2_bytes=2**18))
    assert (tree.fused is not None) == is_fused


def forced(drawn: Drawn, seed: int, monkeypatch: pytest.MonkeyPatch) -> TreeProgram:
    """The program with all steps of one or two indices of the output in blocks of some size."""
    order, extents = drawn.contraction.output.order, drawn.contraction.extents
    first = seed % max(1, len(order))
    found = FusedSteps(
        tuple(
            (index, 1 + seed % max(1, extents[index] - 1))
            for index in order[first : first + 1 + seed // 2 % 2]
        )
    )
    monkeypatch.setattr("teir.search.tree.fused_steps", lambda *_: found if order else None)
    monkeypatch.setattr("teir.search.standing_rows.SHORTEST_SUM", 1 + seed % 3)
    return contraction_program(drawn.contraction, drawn.path, USUAL)


@pytest.mark.parametrize("operands", [2, 3, 4])
@pytest.mark.parametrize("seed", range(20))
def test_any_loop_computes_the_same(
    seed: int, operands: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = draw(1100 * operands + seed, DataType.FP32, operands, size=4000)
    whole = contraction_program(drawn.contraction, drawn.path, USUAL)
    tree = forced(drawn, seed, monkeypatch)
    report = check(tree.program)
    assert report.ok, print_program(tree.program).text + "\n".join(map(str, report.findings))
    assert sorted(s.products for s in tree.steps) == sorted(s.products for s in whole.steps)
    drawn.out[...] = 7
    evaluate(tree.program, drawn.memory)
    np.testing.assert_array_equal(drawn.out, drawn.expected, err_msg=drawn.text)
