"""Operands that lie across each other: the smaller one is laid as the other lies, once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, shapes_of, stated
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.nodes import Operation, Program
from teir.ir.printing import print_program
from teir.pipeline.operand_types import OperandType, contiguous
from teir.search.machine import Machine
from teir.search.tree import contraction_program

EXTENTS = {"c": 2, "n": 5, "s": 2100, "x": 6, "y": 7}
ACROSS = ("syx,nxy->ns", "nxy,syx->ns", "csyx,cnxy->cns", "syxc,ncxy->cns")


FAR = replace(USUAL, l2_bytes=2 << 20, l3_bytes=105 << 20)


def program_of(
    text: str, extents: dict[str, int], threads: int, machine: Machine = USUAL
) -> Program:
    types = [contiguous(DataType.FP32, shape) for shape in shapes_of(text, extents)]
    return program_of_types(text, types, threads, machine)


def program_of_types(
    text: str, types: Sequence[OperandType], threads: int, machine: Machine = USUAL
) -> Program:
    machine = replace(machine, threads=threads, threaded_work=2**10)
    return contraction_program(stated(text, types), ((0, 1),), machine).program


def relaid_copies(program: Program) -> int:
    return sum(
        one.operation is Operation.COPY and "relaid" in one.output for one in program.primitives
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", ACROSS)
def test_relaid_operands_mean_what_numpy_computes(text: str, threads: int) -> None:
    program = program_of(text, EXTENTS, threads)
    assert_exact(program, text, EXTENTS, DataType.FP32, 11)


STREAM = {"c": 1000, "x": 9, "y": 10, "s": 12, "n": 5}


@pytest.mark.parametrize(
    ("text", "changed", "copies"),
    [
        ("cxys,ynx->cns", {}, 1),
        ("cxys,xny->cns", {}, 1),
        ("cxys,nxy->cns", {}, 0),
        ("cxys,xyn->cns", {}, 0),
        ("xcys,ynx->cns", {}, 0),
        ("cxys,ynx->cns", {"c": 900}, 0),
        ("cxys,ynx->cns", {"c": 1600, "x": 5}, 0),
        ("cxys,ynx->cns", {"n": 3001}, 0),
    ],
    ids=["turned", "apart", "one axis", "rows", "no stream", "small", "short sums", "as large"],
)
def test_rows_of_a_large_operand_that_make_one_stream_stay_one(
    text: str, changed: dict[str, int], copies: int
) -> None:
    assert relaid_copies(program_of(text, STREAM | changed, 1, FAR)) == copies
    assert relaid_copies(program_of(text, STREAM | changed, 1)) == 0


def test_products_of_one_stream_mean_what_numpy_computes() -> None:
    program = program_of("cxys,ynx->cns", STREAM, 1, FAR)
    assert_exact(program, "cxys,ynx->cns", STREAM, DataType.FP32, 13)


REPEATING = (
    ("syxz,nxyz->ns", (2100, 7, 6, 3), (5, 6, 7, 3), (168, 28, 4, 0)),
    ("csyx,cnxy->cns", (2, 2100, 7, 6), (2, 5, 6, 7), (0, 168, 28, 4)),
)
"""The second operand repeats along z, which is summed, and along c, which is in all three."""


@pytest.mark.parametrize(("text", "first", "second", "strides_bytes"), REPEATING)
def test_no_place_is_kept_for_indices_along_which_an_operand_repeats(
    text: str,
    first: tuple[int, ...],
    second: tuple[int, ...],
    strides_bytes: tuple[int, ...],
) -> None:
    whole = contiguous(DataType.FP32, first)
    repeats = replace(contiguous(DataType.FP32, second), strides_bytes=strides_bytes)
    program = program_of_types(text, (whole, repeats), 1)
    assert relaid_copies(program) == 1
    assert check(program).ok, print_program(program).text


@pytest.mark.parametrize("text", ACROSS[:3])
def test_the_smaller_operand_is_moved(text: str) -> None:
    assert relaid_copies(program_of(text, EXTENTS, 1)) == 1


def test_operands_that_agree_and_larger_ones_stay() -> None:
    assert relaid_copies(program_of("syx,nyx->ns", EXTENTS, 1)) == 0
    assert relaid_copies(program_of("yxs,nxy->ns", EXTENTS, 1)) == 0
    assert relaid_copies(program_of("syx,nxy->ns", EXTENTS | {"n": 2101}, 1)) == 0
    assert relaid_copies(program_of("syx,nxy->ns", EXTENTS | {"s": 2047}, 1)) == 0


@pytest.mark.parametrize("text", ["syx,nxy->ns", "nxy,syx->ns"])
def test_a_much_smaller_operand_of_long_sums_is_moved_for_few_rows_too(text: str) -> None:
    extents = {"n": 3, "s": 40, "x": 11, "y": 9}
    program = program_of(text, extents, 1)
    assert relaid_copies(program) == 1
    assert_exact(program, text, extents, DataType.FP32, 5)
    assert relaid_copies(program_of(text, extents | {"s": 11}, 1)) == 0
    assert relaid_copies(program_of(text, extents | {"x": 7}, 1)) == 0


COLUMNS = {"a": 3, "b": 4, "c": 700, "e": 20, "x": 2}


@pytest.mark.parametrize(
    ("text", "changed", "copies"),
    [
        ("bae,ec->abc", {}, 1),
        ("bea,ec->cab", {"c": 4000, "e": 80}, 1),
        ("abe,ec->abc", {}, 0),
        ("bae,ec->acb", {}, 0),
        ("bae,ce->abc", {}, 0),
        ("bae,ec->abc", {"c": 70}, 0),
        ("bae,ec->abc", {"b": 17}, 0),
        ("bae,ec->abc", {"a": 12, "b": 12, "c": 900}, 0),
        ("bae,ec->abc", {"a": 12, "b": 12, "c": 900, "e": 70}, 1),
    ],
    ids=["rows", "turned", "one axis", "apart", "across", "few", "wide", "many", "long sums"],
)
def test_columns_that_follow_each_other_in_the_output_alone_are_joined(
    text: str, changed: dict[str, int], copies: int
) -> None:
    assert relaid_copies(program_of(text, COLUMNS | changed, 1)) == copies


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", ["bae,ec->abc", "bea,ec->cab", "bxea,exc->abxc"])
def test_products_of_joined_columns_mean_what_numpy_computes(text: str, threads: int) -> None:
    program = program_of(text, COLUMNS, threads)
    assert_exact(program, text, COLUMNS, DataType.FP32, 17)


def test_joined_columns_are_one_axis_of_the_product() -> None:
    program = program_of("bae,ec->abc", COLUMNS, 1)
    assert {axis.extent for axis in program.axes if axis.name.startswith("ab")} == {12}
