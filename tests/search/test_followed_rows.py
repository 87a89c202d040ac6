"""Sums over rows on pages of their own are cut short where the third cache is far."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, assert_exact, choice_of, loops_of, planned
from teir.dtypes import DataType
from teir.search.machine import Machine

NEAR = replace(FAR, l3_bytes=16 << 20)
ROWS, COLUMNS = "ka,kb->ba", "ka,kb->ab"
EXTENTS = {"a": 4000, "b": 8, "k": 320}


@pytest.mark.parametrize(
    ("text", "changed", "machine", "data_type", "expected"),
    [
        (ROWS, {}, FAR, DataType.FP64, 32),
        (ROWS, {"b": 40}, FAR, DataType.FP64, 64),
        (COLUMNS, {"b": 24}, FAR, DataType.FP32, 32),
        (COLUMNS, {"b": 40}, FAR, DataType.FP64, 64),
        (ROWS, {"b": 13}, FAR, DataType.C64, 64),
        (ROWS, {"b": 40, "a": 1000}, FAR, DataType.FP64, 512),
        (ROWS, {"b": 65}, FAR, DataType.FP64, 512),
        (ROWS, {"k": 120}, FAR, DataType.FP64, 512),
        (ROWS, {"a": 500, "k": 2000}, FAR, DataType.FP64, 64),
        (ROWS, {"a": 64, "k": 20000}, FAR, DataType.FP64, 64),
        (ROWS, {"a": 63, "k": 20000}, FAR, DataType.FP64, 512),
        (ROWS, {"a": 600, "k": 400}, FAR, DataType.FP64, 512),
        (ROWS, {}, NEAR, DataType.FP64, 512),
        (ROWS, {}, FAR, DataType.BF16, 2048),
    ],
    ids=[
        "few columns",
        "some columns",
        "few rows",
        "some rows",
        "complex",
        "some columns of what is near",
        "many columns",
        "short sums",
        "many rows within a page",
        "rows of 512 bytes",
        "shorter rows",
        "rows that stay",
        "near third cache",
        "wider sums",
    ],
)
def test_how_deep_blocks_are(
    text: str, changed: dict[str, int], machine: Machine, data_type: DataType, expected: int
) -> None:
    assert choice_of(text, EXTENTS | changed, machine, data_type).depth == expected


@pytest.mark.parametrize("text", [ROWS, COLUMNS, "kba,ckb->bca"])
def test_what_it_computes(text: str) -> None:
    extents = EXTENTS | {"a": 1700, "b": 9, "c": 5, "k": 165}
    extents = {index: extents[index] for index in set(text) & set(extents)}
    program = planned(text, extents, FAR, DataType.FP64).program
    assert_exact(program, text, extents, DataType.FP64, 1)
    assert any(loop.startswith("k") for loop in loops_of(program))


@pytest.mark.parametrize(("depth", "loops"), [(198, ["k", "ba"]), (90, [])])
def test_tiles_of_results_take_rows_in_blocks_where_sums_are_cut(
    depth: int, loops: list[str]
) -> None:
    extents = {"a": 635, "b": 53, "c": 8, "k": depth}
    program = planned("kba,ck->cab", extents, FAR, DataType.FP64).program
    assert "tile" in {tensor.name for tensor in program.scratch}
    assert loops_of(program)[:2] == loops
