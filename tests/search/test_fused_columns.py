"""Steps fused for a few columns of the largest of them, whose rows are packed before the loops."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import teir
from search.planned import USUAL, of_shapes
from teir.ir.check import check
from teir.ir.nodes import IterationNode, Node, Operation
from teir.lower.slots import assign_slots
from teir.search.fused_steps import FusedSteps
from teir.search.machine import Machine
from teir.search.tree import TreeProgram, contraction_program

NEAR = replace(USUAL, l2_bytes=2**18)
TEXT, PATH = "km,ijd,dk->ijm", ((1, 2), (0, 1))
SHAPES = ((512, 256), (40, 16, 8), (8, 512))


def planned(
    machine: Machine, text: str = TEXT, shapes: tuple[tuple[int, ...], ...] = SHAPES
) -> TreeProgram:
    return contraction_program(of_shapes(text, shapes), PATH, machine)


def operations(tree: TreeProgram, nodes: tuple[Node, ...]) -> list[Operation]:
    """What the invocations below do, in order."""
    kinds = {one.name: one.operation for one in tree.program.primitives}
    found: list[Operation] = []
    for node in nodes:
        if isinstance(node, IterationNode):
            found += operations(tree, node.children)
        else:
            found.append(kinds[node.primitive])
    return found


def test_a_few_columns_are_made_and_used_at_a_time() -> None:
    fused, whole = planned(NEAR), planned(USUAL)
    assert fused.fused == FusedSteps((("i", 2),))
    assert whole.fused is None
    assert 2 * assign_slots(fused.program).run_scratch_bytes < (
        assign_slots(whole.program).run_scratch_bytes
    )
    assert check(fused.program).ok


def test_rows_are_packed_before_the_loops_and_sums_made_whole() -> None:
    tree = planned(NEAR)
    *before, loop = tree.program.roots
    assert set(operations(tree, tuple(before))) == {Operation.COPY}
    assert Operation.COPY not in operations(tree, (loop,))
    assert {axis.extent for axis in tree.program.axes if axis.name.startswith("k")} == {512}


def test_loops_over_more_than_one_index() -> None:
    shapes = ((512, 256), (10, 4, 16, 8), (8, 512))
    tree = planned(NEAR, "km,ihjd,dk->ihjm", shapes)
    assert tree.fused == FusedSteps((("i", 1), ("h", 2)))
    outer = tree.program.roots[-1]
    assert isinstance(outer, IterationNode)
    assert isinstance(outer.children[0], IterationNode)


def test_it_computes_the_product() -> None:
    draw = np.random.default_rng(3)
    arrays = [draw.integers(-2, 3, shape).astype(np.float32) for shape in SHAPES]
    right = np.einsum(TEXT, *arrays, optimize=True)
    out = np.full(right.shape, 7, np.float32)
    program = planned(NEAR).program
    names = [tensor.name for tensor in program.tensors]
    teir.run(program, dict(zip(names, [*arrays, out], strict=True)))
    np.testing.assert_array_equal(out, right)


@pytest.mark.parametrize(
    ("text", "shapes", "why"),
    [
        (TEXT, ((512, 200), *SHAPES[1:]), "few rows"),
        (TEXT, ((400, 256), (48, 16, 8), (8, 400)), "short sums"),
        (TEXT, ((512, 256), (40, 16, 40), (40, 512)), "the other steps are a large part"),
        ("km,ijd,dk->jmi", SHAPES, "lanes are cut"),
        ("ikm,ijd,dk->ijm", ((40, 512, 256), *SHAPES[1:]), "products are repeated"),
        (TEXT, ((512, 1100), *SHAPES[1:]), "the third cache does not hold the rows"),
    ],
)
def test_no_loop_where_it_does_not_pay(
    text: str,
    shapes: tuple[tuple[int, ...], ...],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("teir.search.tree.fused_steps", lambda *_: None)
    assert planned(NEAR, text, shapes).fused is None, why


def test_several_threads_share_every_step() -> None:
    assert planned(replace(NEAR, threads=2)).fused is None


def test_rows_come_from_a_near_third_cache_only() -> None:
    shapes = ((1024, 256), (1200, 16, 8), (8, 1024))
    server = replace(USUAL, l2_bytes=2 << 20, l3_bytes=65 << 20)
    assert planned(server, TEXT, shapes).fused is None
    assert planned(replace(server, l3_bytes=64 << 20), TEXT, shapes).fused is not None
