"""The types of intermediates: narrow numbers are summed in FP32 and rounded once."""

from __future__ import annotations

import pytest

from search.planned import USUAL, of_shapes, shapes_of
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.nodes import Program
from teir.search.tree import TreeOptions, contraction_program

NARROW = (DataType.BF16, DataType.FP16)
LARGE = dict.fromkeys("abcdef", 40)


def program_of(text: str, extents: dict[str, int], data_type: DataType) -> Program:
    """The program of two or three operands, the first two of which meet first."""
    contraction = of_shapes(text, shapes_of(text, extents), data_type)
    path = ((0, 1),) * (len(contraction.inputs) - 1)
    program = contraction_program(contraction, path, USUAL, TreeOptions(rearrange=False)).program
    assert check(program).ok
    return program


def parts_of(program: Program) -> list[DataType]:
    """The types of the intermediates."""
    return [one.data_type for one in program.scratch if one.name.startswith("part")]


@pytest.mark.parametrize("data_type", NARROW)
@pytest.mark.parametrize(
    "text", ["bfe,fd->bfe", "ab,cd->ac", "bca,cda->dc", "da,efa->dea", "abc,abd->ab", "abd,bc->ac"]
)
def test_what_one_operand_is_summed_over_alone_stays_wide(text: str, data_type: DataType) -> None:
    parts = parts_of(program_of(text, LARGE, data_type))
    assert parts
    assert set(parts) == {DataType.FP32}


@pytest.mark.parametrize("data_type", NARROW)
@pytest.mark.parametrize("text", ["ba,ab,ab->b", "ab,ba,ab->ab", "ab,bc,c->a", "ab,bc,ac->ac"])
def test_products_that_meet_no_matrix_stay_wide(text: str, data_type: DataType) -> None:
    parts = parts_of(program_of(text, LARGE, data_type))
    assert parts
    assert set(parts) == {DataType.FP32}


@pytest.mark.parametrize(
    ("data_type", "extent", "kept"),
    [
        (DataType.BF16, 32, DataType.BF16),
        (DataType.BF16, 31, DataType.FP32),
        (DataType.FP16, 32, DataType.FP32),
        (DataType.FP64, 32, DataType.FP64),
        (DataType.C64, 32, DataType.C64),
    ],
)
def test_products_that_meet_matrices_of_bf16_are_rounded(data_type, extent, kept) -> None:
    program = program_of("ab,bc,cd->ad", dict.fromkeys("abcd", extent), data_type)
    assert parts_of(program) == [kept]


def test_matrices_that_meet_a_sum_need_no_rounding() -> None:
    program = program_of("ab,bc,cde->ad", LARGE, DataType.BF16)
    assert set(parts_of(program)) == {DataType.FP32}
