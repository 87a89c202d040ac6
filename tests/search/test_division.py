"""Each thread does an equal part of a matrix-like step alone, where one axis divides."""

from __future__ import annotations

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import IterationNode, Policy
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.choice import Packing, Sharing
from teir.search.default_choice import default_choice
from teir.search.machine import Machine
from teir.search.tree import TreeProgram, contraction_program

SIZES = {"p": 12, "q": 24, "r": 12, "s": 5, "t": 106, "u": 10}
TEXT = "trus,pqtu->pqrs"


def planned(text: str, extents: dict[str, int], threads: int, work: int = 1) -> TreeProgram:
    machine = Machine(
        vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=threads, threaded_work=work
    )
    shapes = [tuple(extents[index] for index in term) for term in text.split("->")[0].split(",")]
    types = tuple(contiguous(DataType.FP64, shape) for shape in shapes)
    problem = state_problem(parse_subscripts(text), types, None, None)
    assert problem.contraction is not None
    return contraction_program(problem.contraction, ((0, 1),), machine)


def shared_extents(program: TreeProgram) -> list[int]:
    """The extents of the parallel loops that are the only root."""
    found = []
    (node,) = program.program.roots
    while isinstance(node, IterationNode) and node.policy is Policy.PARALLEL:
        found.append(next(a.extent for a in program.program.axes if a.name == node.axis))
        node = node.children[0]
    return found


def sharing(program: TreeProgram) -> Sharing:
    (step,) = program.matrix_steps
    return default_choice(step.shape, step.machine).sharing


def test_every_thread_packs_the_rows_of_its_part() -> None:
    program = planned(TEXT, SIZES, 2, 2**16)
    (step,) = program.matrix_steps
    assert sharing(program) is Sharing.PARTS
    assert default_choice(step.shape, step.machine).packed_a is not Packing.NONE
    assert shared_extents(program) == [2]


@pytest.mark.parametrize(
    ("changed", "threads"),
    [({"r": 11, "p": 11, "q": 23}, 2), ({}, 5), ({"p": 7, "q": 7, "r": 1, "s": 7}, 3)],
    ids=["odd", "five", "small"],
)
def test_what_does_not_divide_is_shared_otherwise(changed: dict[str, int], threads: int) -> None:
    program = planned(TEXT, SIZES | changed, threads, 2**10)
    assert sharing(program) not in (Sharing.PARTS, Sharing.NONE)
    assert check(program.program).ok


def test_rows_and_columns_are_divided_where_neither_side_has_parts_enough() -> None:
    extents = {"p": 3, "q": 67, "r": 35, "s": 37, "t": 3, "u": 50} | {"r": 14, "q": 99}
    program = planned(TEXT, extents, 6)
    assert sharing(program) is Sharing.PARTS
    assert sorted(shared_extents(program)) == [2, 3]


def test_a_step_with_little_work_is_not_divided() -> None:
    program = planned(TEXT, SIZES, 2, 2**40)
    assert sharing(program) is Sharing.NONE


@pytest.mark.parametrize("threads", [2, 3, 4, 6])
@pytest.mark.parametrize("text", [TEXT, "rstu,tuqp->pqrs", "srut,qptu->pqrs"])
@pytest.mark.parametrize(
    "extents", [(4, 6, 6, 8, 3, 5), (13, 2, 24, 1, 2, 9), (6, 5, 3, 16, 4, 4), (7, 3, 5, 12, 2, 2)]
)
def test_parts_are_the_whole_and_sum_alike(
    text: str, extents: tuple[int, ...], threads: int
) -> None:
    sizes = dict(zip("pqrstu", extents, strict=True))
    draw = np.random.default_rng(sum(extents) + threads)
    terms = text.split("->")[0].split(",")
    first, second = (draw.standard_normal([sizes[index] for index in term]) for term in terms)
    results = []
    for count in (1, threads):
        program = planned(text, sizes, count).program
        assert check(program).ok
        out = np.full([sizes[index] for index in "pqrs"], np.nan)
        evaluate(program, {"in0": first, "in1": second, "out": out})
        results.append(out)
    assert np.array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], np.einsum(text, first, second), rtol=1e-12, atol=1e-12)
