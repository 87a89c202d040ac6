"""Products of factors of two types, on copies in FP32 that the second cache holds."""

from __future__ import annotations

from math import prod

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation

TINY = replace(USUAL, l1_bytes=256, l2_bytes=1024)
EXTENTS = {"a": 17, "b": 19, "c": 5, "d": 3, "e": 16, "f": 9}


@pytest.mark.parametrize("data_type", [DataType.BF16, DataType.FP16])
@pytest.mark.parametrize("machine", [USUAL, TINY, replace(TINY, threads=2, threaded_work=64)])
@pytest.mark.parametrize(
    "text", ["bfe,fd->bfe", "ab,cd->ac", "bca,cda->dc", "abc,abd->ab", "abd,bc->ac", "aeb,ebd->ea"]
)
def test_factors_of_two_types_mean_what_numpy_computes(text, machine, data_type) -> None:
    program = planned(text, EXTENTS, machine, data_type).program
    assert_exact(program, text, EXTENTS, data_type, 3)


@pytest.mark.parametrize(("l2_bytes", "has_blocks"), [(1 << 20, False), (1 << 14, True)])
def test_copies_that_are_not_near_are_made_in_blocks(l2_bytes: int, has_blocks: bool) -> None:
    extents = {"b": 40, "f": 30, "e": 20, "d": 3}
    machine = replace(USUAL, l2_bytes=l2_bytes)
    program = planned("bfe,fd->bfe", extents, machine, DataType.BF16).program
    axes = program.axis_table()
    copied = [
        prod(axes[name].extent for name in (*one.m, *one.n))
        for one in program.primitives
        if one.operation is Operation.COPY and one.inputs == ("in0",)
    ]
    assert (max(copied) < 40 * 30 * 20) == has_blocks
    assert_exact(program, "bfe,fd->bfe", extents, DataType.BF16, 3)


def test_factors_of_one_type_are_not_copied() -> None:
    program = planned("ab,bc->ac", EXTENTS, USUAL, DataType.BF16).program
    assert not [one for one in program.scratch if one.name.endswith("_wide")]
