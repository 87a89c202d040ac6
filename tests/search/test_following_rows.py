"""Short rows that follow one another in the output make one axis of a packed panel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Operation, Program
from teir.ir.printing import print_program
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.machine import Machine
from teir.search.tree import contraction_program

USUAL = Machine(vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=1, threaded_work=2**16)
TINY = Machine(vector_bytes=16, l1_bytes=256, l2_bytes=2048, threads=1, threaded_work=1)
SHORT = {"p": 5, "q": 6, "r": 13, "s": 5, "t": 4, "u": 4}
LONGER = {"p": 4, "q": 4, "r": 25, "s": 17, "t": 3, "u": 5}
TERMS = ("trus,pqtu->pqrs", "srut,qptu->pqrs", "sutr,tupq->pqrs", "pqtu,trus->pqrs")


def program_of(
    text: str,
    extents: dict[str, int],
    machine: Machine,
    data_type: DataType = DataType.FP32,
) -> tuple[Program, list[tuple[int, ...]]]:
    terms, _ = text.split("->")
    shapes = [tuple(extents[index] for index in term) for term in terms.split(",")]
    types = tuple(contiguous(data_type, shape) for shape in shapes)
    problem = state_problem(parse_subscripts(text), types, None, None)
    assert problem.contraction is not None
    return contraction_program(problem.contraction, ((0, 1),), machine).program, shapes


def lanes_of(program: Program) -> set[int]:
    """Extents of the M axes of the products."""
    extents = {axis.name: axis.extent for axis in program.axes}
    return {
        extents[name]
        for primitive in program.primitives
        if primitive.operation is Operation.CONTRACTION
        for name in (primitive.m[-1:] or ())
    }


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("machine", [USUAL, TINY], ids=["usual", "tiny"])
@pytest.mark.parametrize("extents", [SHORT, LONGER], ids=["short", "longer"])
@pytest.mark.parametrize("text", TERMS)
def test_panels_mean_what_numpy_computes(
    text: str, extents: dict[str, int], machine: Machine, threads: int
) -> None:
    program, shapes = program_of(text, extents, replace(machine, threads=threads))
    assert check(program).ok, print_program(program).text
    draw = np.random.default_rng(5)
    first, second = (draw.integers(-2, 3, shape).astype(np.float32) for shape in shapes)
    expected = np.einsum(text, first, second)
    out = np.full(expected.shape, 7, np.float32)
    evaluate(program, {"in0": first, "in1": second, "out": out})
    np.testing.assert_array_equal(out, expected)


def test_rows_are_put_together_where_vectors_are_saved() -> None:
    program, _ = program_of("trus,pqtu->pqrs", SHORT, USUAL)
    assert lanes_of(program) == {50, 15}
    many = SHORT | {"p": 20, "q": 20, "r": 12}
    assert lanes_of(program_of("trus,pqtu->pqrs", many, USUAL)[0]) == {60}


def test_a_part_of_the_rows_makes_a_panel_of_its_own() -> None:
    program, _ = program_of("srut,qptu->pqrs", LONGER, USUAL)
    assert lanes_of(program) == {204, 221}


def test_low_rows_are_put_together_where_many_columns_meet_them() -> None:
    low = {"p": 16, "q": 16, "r": 20, "s": 16, "t": 4, "u": 8}
    assert lanes_of(program_of("trus,pqtu->pqrs", low, USUAL)[0]) == {48, 32}
    few = low | {"p": 8, "q": 8}
    assert lanes_of(program_of("trus,pqtu->pqrs", few, USUAL)[0]) == {16}


def test_few_columns_do_not_pay_for_packing() -> None:
    few = SHORT | {"p": 1, "q": 2}
    program, _ = program_of("trus,pqtu->pqrs", few, USUAL)
    assert all(one.operation is not Operation.COPY for one in program.primitives)


def test_low_panels_of_pairs_are_put_together() -> None:
    wide = {"p": 16, "q": 9, "r": 4, "s": 32, "t": 8, "u": 8}
    program, _ = program_of("trus,pqtu->pqrs", wide, USUAL, DataType.BF16)
    assert lanes_of(program) == {64}
    assert lanes_of(program_of("trus,pqtu->pqrs", wide, USUAL)[0]) == {32}


@pytest.mark.parametrize(
    ("rows", "data_type", "expected"),
    [
        (288, DataType.FP32, {48}),
        (288, DataType.BF16, {64, 32}),
        (260, DataType.BF16, {48, 20}),
    ],
)
def test_narrow_types_take_fewer_panels_unless_the_last_is_low(
    rows: int, data_type: DataType, expected: set[int]
) -> None:
    extents = {"m": rows, "n": 288, "k": 24}
    assert lanes_of(program_of("mk,nk->nm", extents, USUAL, data_type)[0]) == expected


@pytest.mark.parametrize(("columns", "is_near"), [(6912, True), (20000, False)])
def test_short_sums_pack_operands_near_the_second_cache_whole(columns: int, is_near: bool) -> None:
    extents = {"m": 288, "n": columns, "k": 24}
    program, _ = program_of("mk,nk->nm", extents, USUAL, DataType.FP64)
    assert ("scratch in1_packed" in print_program(program).text) == is_near


@pytest.mark.parametrize(
    ("depth", "data_type", "expected"),
    [
        (32, DataType.FP32, {96}),
        (128, DataType.FP32, {48}),
        (32, DataType.BF16, {48}),
    ],
)
def test_streams_of_short_sums_make_long_panels(
    depth: int, data_type: DataType, expected: set[int]
) -> None:
    extents = {"m": 96, "n": 60000, "k": depth}
    assert lanes_of(program_of("mk,nk->nm", extents, USUAL, data_type)[0]) == expected


@pytest.mark.parametrize(
    ("columns", "depth", "lanes"), [(100, 71, 64), (100, 200, 32), (10, 71, 32)]
)
def test_rows_of_whole_vectors_follow_where_short_runs_leave_the_caches(
    columns: int, depth: int, lanes: int
) -> None:
    """Runs of two vectors become runs of four, where columns enough meet them in a short sum."""
    extents = {"r": 2000, "s": 32, "u": depth, "q": columns}
    program, _ = program_of("rus,qu->qrs", extents, USUAL)
    assert max(lanes_of(program)) == lanes
