"""Panels of complex rows that register blocks read in parts, pair by pair of vectors."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.panel_rows import panel_of

PARTS = replace(USUAL, l2_bytes=2 << 20, multiplies_twice=True)
SMALL = replace(PARTS, l1_bytes=1024, l2_bytes=1 << 15)
LANES = {DataType.C64: 8, DataType.C128: 4}


@pytest.mark.parametrize("data_type", LANES)
def test_panels_are_four_vectors_where_rows_are_in_parts(data_type: DataType) -> None:
    lanes = LANES[data_type]
    extents = {"m": 24 * lanes, "n": 300, "k": 300}
    assert choice_of("km,nk->nm", extents, PARTS, data_type).panel == 4 * lanes
    rows = replace(PARTS, multiplies_twice=False)
    extents = {"m": 9 * lanes, "n": 300, "k": 300}
    assert choice_of("km,nk->nm", extents, PARTS, data_type).panel == 4 * lanes
    assert choice_of("km,nk->nm", extents, rows, data_type).panel == 3 * lanes


@pytest.mark.parametrize(
    ("rows", "outer", "columns", "panel"), [(6, 24, 186, 96), (8, 12, 96, 32), (8, 12, 12, 24)]
)
def test_short_rows_make_pairs_of_vectors(rows: int, outer: int, columns: int, panel: int) -> None:
    """Six rows are 24 only where no pairs are wanted: few columns read elements."""
    extents = {"r": outer, "s": rows, "n": columns, "t": 56, "u": 5}
    (step,) = planned("trus,ntu->nrs", extents, PARTS, DataType.C64).matrix_steps
    assert panel_of(step.shape, PARTS) == panel


@pytest.mark.parametrize("text", ["km,nk->nm", "trus,ntu->nrs"])
def test_programs_mean_what_numpy_computes(text: str) -> None:
    extents = {"m": 41, "n": 20, "k": 17, "t": 3, "u": 5, "r": 6, "s": 6}
    program = planned(text, extents, SMALL, DataType.C64).program
    assert_exact(program, text, extents, DataType.C64, 8)
