"""Columns that share lines, or pages, with others alone are packed where the third cache is far."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Packing
from teir.search.machine import Machine

NEAR = replace(FAR, l3_bytes=16 << 20)
TEXT = "afbk,kcf->cbfa"
EXTENTS = {"a": 4, "f": 15, "b": 13, "c": 836, "k": 35}


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
