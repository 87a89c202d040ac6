"""Short rows that follow one another in the output make one axis of a packed panel."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program
from teir.ir.printing import print_program
from teir.search.choice import Packing
from teir.search.machine import Machine

TINY = Machine(vector_bytes=16, l1_bytes=256, l2_bytes=2048, threads=1, threaded_work=1)
SHORT = {"p": 5, "q": 6, "r": 13, "s": 5, "t": 4, "u": 4}
LONGER = {"p": 4, "q": 4, "r": 25, "s": 17, "t": 3, "u": 5}
TERMS = ("trus,pqtu->pqrs", "srut,qptu->pqrs", "sutr,tupq->pqrs", "pqtu,trus->pqrs")


def program_of(
    text: str, extents: dict[str, int], machine: Machine, data_type: DataType = DataType.FP32
) -> Program:
    return planned(text, extents, machine, data_type).program


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
    program = program_of(text, extents, replace(machine, threads=threads))
    assert_exact(program, text, extents, DataType.FP32, 5)


def test_rows_are_put_together_where_vectors_are_saved() -> None:
    program = program_of("trus,pqtu->pqrs", SHORT, USUAL)
    assert lanes_of(program) == {50, 15}
    many = SHORT | {"p": 20, "q": 20, "r": 12}
    assert lanes_of(program_of("trus,pqtu->pqrs", many, USUAL)) == {60}


def test_a_part_of_the_rows_makes_a_panel_of_its_own() -> None:
    program = program_of("srut,qptu->pqrs", LONGER, USUAL)
    assert lanes_of(program) == {204, 221}


def test_low_rows_are_put_together_where_many_columns_meet_them() -> None:
    low = {"p": 16, "q": 16, "r": 20, "s": 16, "t": 4, "u": 8}
    assert lanes_of(program_of("trus,pqtu->pqrs", low, USUAL)) == {48, 32}
    few = low | {"p": 8, "q": 8}
    assert lanes_of(program_of("trus,pqtu->pqrs", few, USUAL)) == {16}


@pytest.mark.parametrize(("outer", "rows"), [(256, 32), (252, 48), (254, 16)])
def test_short_rows_of_short_sums_fill_as_many_vectors_as_divide_them(
    outer: int, rows: int
) -> None:
    extents = {"a": outer, "b": 8, "c": 146, "d": 6, "e": 4}
    assert rows in lanes_of(program_of("aeb,dec->cdab", extents, USUAL))


def test_few_columns_do_not_pay_for_packing() -> None:
    few = SHORT | {"p": 1, "q": 2}
    program = program_of("trus,pqtu->pqrs", few, USUAL)
    assert all(one.operation is not Operation.COPY for one in program.primitives)


def test_low_panels_of_pairs_are_put_together() -> None:
    wide = {"p": 16, "q": 9, "r": 4, "s": 32, "t": 8, "u": 8}
    program = program_of("trus,pqtu->pqrs", wide, USUAL, DataType.BF16)
    assert lanes_of(program) == {64}
    assert lanes_of(program_of("trus,pqtu->pqrs", wide, USUAL)) == {32}


@pytest.mark.parametrize(
    ("rows", "depth", "data_type", "expected"),
    [
        (288, 24, DataType.FP32, {48}),
        (288, 200, DataType.BF16, {64, 32}),
        (260, 200, DataType.BF16, {48, 20}),
        (288, 24, DataType.BF16, {96}),
    ],
)
def test_narrow_types_take_fewer_panels_unless_the_last_is_low(
    rows: int, depth: int, data_type: DataType, expected: set[int]
) -> None:
    extents = {"m": rows, "n": 288, "k": depth}
    assert lanes_of(program_of("mk,nk->nm", extents, USUAL, data_type)) == expected


@pytest.mark.parametrize(("columns", "is_near"), [(6912, True), (20000, False)])
def test_short_sums_pack_operands_near_the_second_cache_whole(columns: int, is_near: bool) -> None:
    extents = {"m": 288, "n": columns, "k": 24}
    program = program_of("mk,nk->nm", extents, USUAL, DataType.FP64)
    assert ("scratch in1_packed" in print_program(program).text) == is_near


@pytest.mark.parametrize(
    ("depth", "data_type", "expected"),
    [
        (32, DataType.FP32, {96}),
        (128, DataType.FP32, {48}),
        (32, DataType.BF16, {96}),
        (200, DataType.BF16, {48}),
    ],
)
def test_streams_of_short_sums_make_long_panels(
    depth: int, data_type: DataType, expected: set[int]
) -> None:
    extents = {"m": 96, "n": 60000, "k": depth}
    assert lanes_of(program_of("mk,nk->nm", extents, USUAL, data_type)) == expected


@pytest.mark.parametrize(
    ("columns", "depth", "lanes"), [(100, 71, 64), (100, 200, 32), (10, 71, 32)]
)
def test_rows_of_whole_vectors_follow_where_short_runs_leave_the_caches(
    columns: int, depth: int, lanes: int
) -> None:
    """Runs of two vectors become runs of four, where columns enough meet them in a short sum."""
    extents = {"r": 2000, "s": 32, "u": depth, "q": columns}
    program = program_of("rus,qu->qrs", extents, USUAL)
    assert max(lanes_of(program)) == lanes


def steps_of(program: Program) -> set[int]:
    """Bytes from one step of the sum to the next in packed rows."""
    axes = {axis.name: axis for axis in program.axes}
    return {
        stride
        for primitive in program.primitives
        if primitive.operation is Operation.CONTRACTION
        for name in primitive.k[-1:]
        for tensor, stride in axes[name].strides.items()
        if tensor.startswith("in0_packed")
    }


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize("text", ["trus,pqtu->pqrs", "srut,qptu->pqrs"])
def test_steps_begin_with_lines_where_vectors_are_lines(text: str, data_type: DataType) -> None:
    extents = SHORT | {"p": 20, "q": 20, "r": 12, "t": 6, "u": 8}
    narrow = replace(USUAL, vector_bytes=32)
    in_lines = program_of(text, extents, USUAL, data_type)
    assert any(step % 64 for step in steps_of(program_of(text, extents, narrow, data_type)))
    assert steps_of(in_lines)
    assert all(step % 64 == 0 for step in steps_of(in_lines))
    assert_exact(in_lines, text, extents, data_type, 5)


@pytest.mark.parametrize(
    ("rows", "step"),
    [(11, 44), (12, 64), (16, 64), (351, 1408), (1023, 4160), (1024, 4096)],
)
def test_rounding_makes_no_steps_of_pages_and_no_packed_rows_much_larger(
    rows: int, step: int
) -> None:
    """Lines whole pages apart meet in one set of the first cache."""
    text, extents = "tur,qtu->qr", {"r": rows, "t": 6, "u": 40, "q": 70}
    usual = choice_of(text, extents, USUAL, DataType.FP32)
    choice = replace(usual, packed_a=Packing.WHOLE, panel=rows)
    made = planned(text, extents, USUAL, DataType.FP32, (choice,)).program
    assert steps_of(made) == {step}


def test_short_rows_of_two_products_are_packed_as_one() -> None:
    extents = {"b": 4, "f": 2, "a": 36, "g": 3, "c": 7, "d": 21, "e": 29}
    text = "bfagc,defg->bedgac"
    choice = choice_of(text, extents, USUAL, DataType.FP64)
    assert choice.packed_a is not Packing.NONE
    assert choice.panel >= 24
    assert_exact(
        planned(text, extents, USUAL, DataType.FP64).program, text, extents, DataType.FP64, 3
    )
