"""Short sums of long rows that few columns meet are read in place where the third cache is far."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Packing
from teir.search.machine import Machine
from teir.search.rows_in_place import rows_in_place

NEAR = replace(FAR, l3_bytes=16 << 20)
TEXT = "ak,kb->ab"


def reads_in_place(extents: dict[str, int], machine: Machine, data_type: DataType) -> bool:
    """Rows in place beside columns that are packed."""
    choice = choice_of(TEXT, extents, machine, data_type)
    return (choice.packed_a, choice.packed_b) == (Packing.NONE, Packing.WHOLE)


@pytest.mark.parametrize(
    ("columns", "rows", "depth", "machine", "expected"),
    [
        (13, 60_000, 7, FAR, True),
        (100, 30_000, 48, FAR, True),
        (100, 30_000, 48, NEAR, False),
        (100, 30_000, 48, replace(FAR, threads=2), True),
        (100, 30_000, 400, FAR, False),
        (13, 300_000, 24, FAR, False),
        (3, 250_000, 7, FAR, False),
        (300, 2000, 20, FAR, False),
        (13, 2000, 7, FAR, False),
    ],
    ids=[
        "both were packed",
        "rows were brought again",
        "near third cache",
        "two threads",
        "long sums",
        "asked for",
        "few columns",
        "many columns",
        "results that stay",
    ],
)
def test_when_rows_stay(
    columns: int, rows: int, depth: int, machine: Machine, expected: bool
) -> None:
    extents = {"a": columns, "b": rows, "k": depth}
    assert reads_in_place(extents, machine, DataType.FP32) == expected


@pytest.mark.parametrize(("columns", "streams"), [(32, False), (33, True)])
def test_results_of_few_columns_go_through_the_caches(columns: int, streams: bool) -> None:
    extents = {"a": columns, "b": 40_000, "k": 7}
    assert reads_in_place(extents, FAR, DataType.FP64)
    assert choice_of(TEXT, extents, FAR, DataType.FP64).streams == streams


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize("columns", [13, 50])
def test_rows_in_place_mean_what_numpy_computes(columns: int, data_type: DataType) -> None:
    extents = {"a": columns, "b": 270, "k": 5}
    (step,) = planned(TEXT, extents, FAR, data_type).matrix_steps
    choice = rows_in_place(step.shape, 5, FAR)
    assert choice is not None
    program = planned(TEXT, extents, FAR, data_type, (choice,)).program
    assert_exact(program, TEXT, extents, data_type, 3)
