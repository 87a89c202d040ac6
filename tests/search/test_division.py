"""Each thread does an equal part of a matrix-like step alone; what is left follows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, USUAL, assert_alike, assert_exact, planned, step_of
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.nodes import IterationNode, Policy
from teir.search.choice import Packing, Sharing
from teir.search.default_choice import default_choice, parts_of
from teir.search.division import every_division
from teir.search.shape import product_shape
from teir.search.step import normalise
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
    [({"q": 5}, 5), ({"p": 7, "q": 7, "r": 1, "s": 7}, 3)],
    ids=["five", "small"],
)
def test_what_would_leave_much_is_shared_otherwise(changed: dict[str, int], threads: int) -> None:
    program = program_of(TEXT, SIZES | changed, threads, 2**10)
    assert sharing(program) not in (Sharing.PARTS, Sharing.NONE)
    assert check(program.program).ok


def test_what_is_left_follows_the_parts() -> None:
    extents = {"a": 41, "b": 2047, "k": 16}
    machine = replace(USUAL, threads=2, threaded_work=1)
    program = planned("ak,bk->ba", extents, machine, DataType.FP64)
    assert sharing(program) is Sharing.PARTS
    walks = {axis.name: axis.extent for axis in program.program.axes}
    shared = [
        walks[node.axis]
        for node in program.program.roots
        if isinstance(node, IterationNode) and node.policy is Policy.PARALLEL
    ]
    assert shared == [2]
    assert any(walks[one] == 1023 for one in walks)
    assert len(program.program.roots) > 1
    assert_exact(program.program, "ak,bk->ba", extents, DataType.FP64, 1)


def test_an_axis_is_cut_whose_parts_share_few_lines() -> None:
    """The rows divide, but 75 x 23 lines would hold the ends of both parts."""
    extents = {"a": 16, "b": 75, "c": 23, "k": 14}
    machine = replace(USUAL, threads=2, threaded_work=1)
    (step,) = planned("cka,bk->bca", extents, machine, DataType.FP64).matrix_steps
    division = parts_of(step.shape, machine)
    assert division is not None
    assert [axis.extent for axis in division.loops] == [2]
    assert division.edges == 1
    assert division.part.columns == 37
    assert [rest.columns for rest in division.rests] == [1]


def test_rows_and_columns_may_both_leave_some() -> None:
    extents = {"a": 101, "b": 97, "k": 64}
    machine = replace(USUAL, threads=4, threaded_work=1)
    (step,) = planned("ka,kb->ba", extents, machine, DataType.FP64).matrix_steps
    found = [one for one in every_division(step.shape, machine) if len(one.rests) == 2]
    assert found
    for one in found:
        parts = one.part.rows * one.part.columns * machine.threads
        left = sum(rest.rows * rest.columns for rest in one.rests)
        assert parts + left == 101 * 97


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


def test_nothing_is_left_that_takes_a_part_of_every_line() -> None:
    """48 bytes of each of 8040 rows of 1488 bytes would be left."""
    extents = {"a": 23, "b": 12, "c": 31, "d": 20, "e": 402}
    machine = replace(FAR, threads=2)
    shape = product_shape(normalise(step_of("aed,edcb->cab", extents)))
    assert shape is not None
    assert any(one.again == 12 * 8040 for one in every_division(shape, machine))
    assert parts_of(shape, machine) is None
    near = replace(machine, l2_bytes=64 << 20, l3_bytes=256 << 20)
    assert not any(one.again for one in every_division(shape, near))


@pytest.mark.parametrize("rows", [9, 8])
def test_one_row_left_of_a_narrow_result_is_rounded_to_its_place(rows: int) -> None:
    extents = {"a": rows, "b": 26, "c": 40, "f": 2, "g": 64, "h": 2}
    machine = replace(USUAL, threads=2)
    program = planned("ghcf,agfhcb->ba", extents, machine, DataType.BF16)
    assert program.matrix_steps
    assert check(program.program).ok
