"""Batches of small products, the batch innermost, whose rows come from a far third cache."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, assert_alike, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program
from teir.search.machine import Machine

NEAR = replace(FAR, l3_bytes=64 << 20)
TEXT = "ikb,kjb->ijb"


def _planned(side: int, batch: int, machine: Machine) -> Program:
    extents = {"i": side, "j": side, "k": side, "b": batch}
    return planned(TEXT, extents, machine, DataType.FP64).program


def _copied(program: Program) -> set[str]:
    """The operands that are copied in slabs."""
    copies = (one for one in program.primitives if one.operation is Operation.COPY)
    return {name for one in copies for name in one.inputs}


def _longest_run(program: Program) -> int:
    """Bytes of the longest row of a slab."""
    rows = [
        axis.extent * 8
        for axis in program.axes
        if any(name.endswith("slab") and stride == 8 for name, stride in axis.strides.items())
    ]
    return max(rows)


@pytest.mark.parametrize(
    ("side", "batch", "machine", "copied"),
    [
        (7, 10_007, FAR, {"in0", "in1"}),
        (7, 10_007, NEAR, set()),
        (7, 1009, FAR, set()),
        (4, 32_769, FAR, set()),
    ],
    ids=["many rows from afar", "near third cache", "held by the second", "few rows"],
)
def test_many_rows_from_afar_are_packed(
    side: int, batch: int, machine: Machine, copied: set[str]
) -> None:
    assert _copied(_planned(side, batch, machine)) == copied


@pytest.mark.parametrize(
    ("side", "machine", "run_bytes"),
    [(8, NEAR, 512), (4, FAR, 512), (8, FAR, 2048), (13, FAR, 1024), (24, FAR, 512)],
    ids=["near", "in the first cache", "long", "a quarter of the second cache", "short"],
)
def test_rows_of_packed_slabs_are_as_long_as_the_caches_permit(
    side: int, machine: Machine, run_bytes: int
) -> None:
    """Rows whole pages apart are packed on every machine."""
    assert _longest_run(_planned(side, 4096, machine)) == run_bytes


def test_packed_batches_give_the_same_bits() -> None:
    extents = {"i": 5, "j": 6, "k": 7, "b": 6001}
    programs = [planned(TEXT, extents, one, DataType.FP64).program for one in (FAR, NEAR)]
    assert _copied(programs[0]) == {"in0", "in1"}
    assert_alike(programs, TEXT, extents, 5)


@pytest.mark.parametrize(
    ("text", "batch", "copied"),
    [
        ("adcb,bd->cab", 3, {"in1"}),
        ("adcb,bd->cab", 300, {"in1"}),
        ("eikb,ekjb->eijb", 7, set()),
    ],
    ids=["a few, read once", "many, read once", "a few, read again"],
)
def test_rows_that_are_read_once_or_short_stay(text: str, batch: int, copied: set[str]) -> None:
    """Each row of a slab begins with a line: copies of 28 MB took 300 MB."""
    extents = {"a": 60, "c": 40, "d": 105, "b": batch, "e": 5000} | dict.fromkeys("ijk", 7)
    program = planned(text, extents, FAR, DataType.FP32).program
    assert _copied(program) & {"in0", "in1"} == copied


@pytest.mark.parametrize(
    ("text", "changed", "expected"),
    [
        ("kaf,kncf->anfc", {}, True),
        ("kaf,kncf->anfc", {"c": 9}, False),
        ("kaf,kncf->anfc", {"f": 1}, False),
        ("kaf,kncf->anfc", {"a": 150}, False),
        ("akf,fnk->nfa", {}, True),
    ],
    ids=["few in a row", "more", "no batch", "near", "lanes"],
)
def test_batches_inside_a_large_operand_of_long_sums_are_moved_out(
    text: str, changed: dict[str, int], expected: bool
) -> None:
    extents = {"k": 100, "a": 900, "f": 6, "n": 40, "c": 5} | changed
    program = planned(text, extents, FAR, DataType.FP64).program
    copied = [one.inputs[0] for one in program.primitives if "turned" in one.output]
    assert ("in0" in copied) == expected


@pytest.mark.parametrize(("columns", "expected"), [(40, True), (2, False)])
def test_where_the_third_cache_is_near_those_that_many_rows_meet_are_too(
    columns: int, expected: bool
) -> None:
    extents = {"k": 100, "a": 900, "f": 6, "n": columns, "c": 9}
    program = planned("kaf,kncf->anfc", extents, NEAR, DataType.FP64).program
    assert any("in0_turned" in one.output for one in program.primitives) == expected


@pytest.mark.parametrize(("columns", "expected"), [(656, True), (130, False)])
def test_pairs_in_an_operand_that_no_cache_holds_are_moved_apart(
    columns: int, expected: bool
) -> None:
    extents = {"a": 6, "b": columns, "c": 40, "d": 49, "e": 2}
    program = planned("dea,cdbe->ebca", extents, FAR, DataType.FP64).program
    assert any("turned" in one.output for one in program.primitives) == expected


@pytest.mark.parametrize(
    ("sum_of", "side", "expected"),
    [(40, 300, True), (39, 300, False), (80, 60, False)],
    ids=["far", "short sums", "near"],
)
def test_batches_of_large_matrices_are_made_one_after_the_other(
    sum_of: int, side: int, expected: bool
) -> None:
    extents = {"i": side, "j": side, "k": sum_of, "b": 24}
    program = planned(TEXT, extents, FAR, DataType.FP64).program
    assert any("apart" in one.output for one in program.primitives) == expected
