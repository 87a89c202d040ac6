"""Panels of rows for short BF16 sums, and products whose operands are laid out for them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Order, Packing
from teir.search.machine import Machine
from teir.search.pair_panels import pair_panel, pair_runs

CCSD_T = {"a": 24, "b": 12, "c": 12, "d": 24, "e": 12, "f": 12, "g": 24}


@pytest.mark.parametrize(
    ("rows", "panel"),
    [
        (288, 96),
        (192, 96),
        (128, 128),
        (120, 120),
        (104, 104),
        (102, 102),
        (293, 128),
        (602, 96),
        (96, 96),
    ],
)
def test_panels_leave_few_rows_for_other_tiles(rows: int, panel: int) -> None:
    assert pair_panel(rows) == panel


@pytest.mark.parametrize(
    ("rows", "outer", "runs"),
    [(24, 12, 4), (24, 6, 1), (8, 12, 12), (16, 6, 6), (12, 8, 8), (10, 16, 1), (40, 4, 1)],
)
def test_short_rows_fill_pairs_of_vectors(rows: int, outer: int, runs: int) -> None:
    assert pair_runs(rows, outer) == runs


@pytest.mark.parametrize("text", ["caeg,bgfd->fedcba", "cged,bafg->fedcba", "agfe,cbdg->fedcba"])
def test_large_results_of_short_sums_are_written_in_order(text: str) -> None:
    choice = choice_of(text, CCSD_T, USUAL, DataType.BF16)
    assert (choice.packed_a, choice.packed_b) == (Packing.WHOLE, Packing.WHOLE)
    assert (choice.order, choice.panel, choice.prefetches_out) == (Order.OUTPUT, 96, True)
    assert choice.column_block % 4 == 0


@pytest.mark.parametrize("depth", [12, 130])
def test_other_sums_keep_their_layouts(depth: int) -> None:
    choice = choice_of("caeg,bgfd->fedcba", CCSD_T | {"g": depth}, USUAL, DataType.BF16)
    assert choice.order is not Order.OUTPUT


def test_tile_registers_and_short_vectors_have_panels_of_their_own() -> None:
    for machine in (replace(USUAL, has_tiles=True), replace(USUAL, vector_bytes=32)):
        choice = choice_of("mk,nk->nm", {"m": 288, "n": 288, "k": 24}, machine, DataType.BF16)
        assert choice.panel != 96


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", ["caeg,bgfd->fedcba", "cged,bafg->fedcba", "agfe,cbdg->fedcba"])
def test_programs_mean_what_numpy_computes(text: str, threads: int) -> None:
    extents = {"a": 24, "b": 3, "c": 4, "d": 2, "e": 4, "f": 8, "g": 9}
    machine = replace(USUAL, l2_bytes=2048, threads=threads)
    assert_exact(
        planned(text, extents, machine, DataType.BF16).program, text, extents, DataType.BF16, 5
    )


QUICK = replace(USUAL, multiplies_whole=True)


@pytest.mark.parametrize("text", ["km,kn->nm", "mk,kn->nm"])
def test_columns_of_long_sums_are_turned_for_pairs(text: str) -> None:
    """Where many rows read them: one load then brings two factors."""
    sizes = {"m": 96, "n": 40, "k": 200}
    choice = choice_of(text, sizes, QUICK, DataType.BF16)
    assert choice.packed_b is Packing.WHOLE
    program = planned(text, sizes, QUICK, DataType.BF16).program
    steps = {axis.strides.get("in1_packed") for axis in program.axes if axis.name.startswith("k")}
    assert DataType.BF16.width in steps


@pytest.mark.parametrize(
    ("text", "sizes", "machine", "data_type"),
    [
        ("km,nk->nm", {"m": 96, "n": 40, "k": 200}, QUICK, DataType.BF16),
        ("km,kn->nm", {"m": 48, "n": 40, "k": 200}, QUICK, DataType.BF16),
        ("km,kn->nm", {"m": 96, "n": 40, "k": 200}, QUICK, DataType.FP32),
        ("km,kn->nm", {"m": 96, "n": 40, "k": 200}, replace(QUICK, has_tiles=True), DataType.BF16),
        ("km,kn->nm", {"m": 96, "n": 40, "k": 200}, USUAL, DataType.BF16),
    ],
)
def test_other_columns_stay_where_they_lie(
    text: str, sizes: dict[str, int], machine: Machine, data_type: DataType
) -> None:
    assert choice_of(text, sizes, machine, data_type).packed_b is Packing.NONE


def test_products_of_turned_columns_are_exact() -> None:
    text, sizes = "abm,abn->nm", {"m": 70, "n": 33, "a": 9, "b": 31}
    program = planned(text, sizes, QUICK, DataType.BF16).program
    assert "in1_packed" in program.tensor_table()
    assert_exact(program, text, sizes, DataType.BF16, seed=5)
