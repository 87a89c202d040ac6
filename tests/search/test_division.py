"""Each thread does an equal part of a matrix-like step alone, where one axis divides."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_alike, planned
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.nodes import IterationNode, Policy
from teir.search.choice import Packing, Sharing
from teir.search.default_choice import default_choice
from teir.search.tree import TreeProgram

SIZES = {"p": 12, "q": 24, "r": 12, "s": 5, "t": 106, "u": 10}
TEXT = "trus,pqtu->pqrs"


def program_of(text: str, extents: dict[str, int], threads: int, work: int = 1) -> TreeProgram:
    machine = replace(USUAL, threads=threads, threaded_work=work)
    return planned(text, extents, machine, DataType.FP64)


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
    program = program_of(TEXT, SIZES, 2, 2**16)
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
    program = program_of(TEXT, SIZES | changed, threads, 2**10)
    assert sharing(program) not in (Sharing.PARTS, Sharing.NONE)
    assert check(program.program).ok


def test_rows_and_columns_are_divided_where_neither_side_has_parts_enough() -> None:
    extents = {"p": 3, "q": 67, "r": 35, "s": 37, "t": 3, "u": 50} | {"r": 14, "q": 99}
    program = program_of(TEXT, extents, 6)
    assert sharing(program) is Sharing.PARTS
    assert sorted(shared_extents(program)) == [2, 3]


def test_a_step_with_little_work_is_not_divided() -> None:
    program = program_of(TEXT, SIZES, 2, 2**40)
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
    programs = [program_of(text, sizes, count).program for count in (1, threads)]
    assert_alike(programs, text, sizes, sum(extents) + threads)
