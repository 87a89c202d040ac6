"""What operands are copied for: lines met again, many readers, few sets of a cache."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Packing
from teir.search.machine import Machine

NEAR = replace(FAR, l3_bytes=16 << 20)
TEXT = "afbk,kcf->cbfa"
EXTENTS = {"a": 16, "f": 15, "b": 3, "c": 836, "k": 35}


@pytest.mark.parametrize(
    ("changed", "machine", "data_type", "expected"),
    [
        ({}, FAR, DataType.FP64, Packing.WHOLE),
        ({}, NEAR, DataType.FP64, Packing.NONE),
        ({"c": 200}, FAR, DataType.FP64, Packing.NONE),
        ({}, FAR, DataType.FP32, Packing.NONE),
        ({"k": 48}, FAR, DataType.FP32, Packing.WHOLE),
    ],
    ids=["lines again", "near third cache", "few lines", "short sums", "long sums"],
)
def test_when_columns_are_packed(
    changed: dict[str, int], machine: Machine, data_type: DataType, expected: Packing
) -> None:
    assert choice_of(TEXT, EXTENTS | changed, machine, data_type).packed_b is expected


def test_what_it_computes() -> None:
    extents = EXTENTS | {"f": 8}
    program = planned(TEXT, extents, FAR, DataType.FP64).program
    assert_exact(program, TEXT, extents, DataType.FP64, 1)


PAGES = "ak,ckb->bca"
SIDES = {"a": 37, "k": 40, "c": 60, "b": 640}


@pytest.mark.parametrize(
    ("text", "changed", "machine", "expected"),
    [
        (PAGES, {}, FAR, Packing.WHOLE),
        (PAGES, {}, NEAR, Packing.NONE),
        (PAGES, {"c": 25}, FAR, Packing.NONE),
        (PAGES, {"b": 255}, FAR, Packing.NONE),
        (PAGES, {"k": 31}, FAR, Packing.NONE),
        ("ak,bkc->bca", {}, FAR, Packing.NONE),
    ],
    ids=["pages", "near third cache", "few pages", "short steps", "short sums", "inner columns"],
)
def test_when_pages_are_packed(
    text: str, changed: dict[str, int], machine: Machine, expected: Packing
) -> None:
    choice = choice_of(text, SIDES | changed, machine, DataType.C128)
    assert choice.packed_b is expected


def test_what_packed_pages_compute() -> None:
    extents = SIDES | {"a": 5, "c": 33, "b": 513}
    program = planned(PAGES, extents, FAR, DataType.FP64).program
    assert_exact(program, PAGES, extents, DataType.FP64, 1)


@pytest.mark.parametrize(
    ("text", "columns", "data_type", "machine", "packs"),
    [
        ("mlk,klr->rm", 6, DataType.FP64, FAR, False),
        ("mlk,klr->rm", 6, DataType.FP32, FAR, True),
        ("mlk,klr->rm", 6, DataType.FP64, USUAL, True),
        ("kml,klr->rm", 6, DataType.FP64, FAR, False),
        ("mkl,klr->rm", 5, DataType.FP64, replace(FAR, threads=2), False),
    ],
    ids=["few", "FP32", "near third cache", "other sums", "two threads"],
)
def test_few_columns_meet_rows_that_lie_along_the_sum_in_place(
    text: str, columns: int, data_type: DataType, machine: Machine, *, packs: bool
) -> None:
    extents = {"m": 300, "l": 24, "k": 81, "r": columns}
    choice = choice_of(text, extents, machine, data_type)
    assert (choice.packed_a is not Packing.NONE) == packs
    small = extents | {"m": 37, "k": 19}
    assert_exact(planned(text, small, machine, data_type).program, text, small, data_type, 1)


CROWDED = "jbihdca,heifgj->dcfebag"
POWERS = {"a": 4, "b": 16, "c": 8, "d": 8, "e": 2, "f": 2, "g": 8, "h": 2, "i": 4, "j": 4}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [({}, Packing.WHOLE), ({"d": 7}, Packing.NONE), ({"e": 1, "f": 1}, Packing.NONE)],
    ids=["powers of two", "many sets", "one panel"],
)
def test_columns_and_sums_in_few_sets_are_packed(
    changed: dict[str, int], expected: Packing
) -> None:
    choice = choice_of(CROWDED, POWERS | changed, USUAL, DataType.FP64)
    assert choice.packed_b is expected
