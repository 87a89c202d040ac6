"""Columns that share lines with other batches alone are packed where the third cache is far."""

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
