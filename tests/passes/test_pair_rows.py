"""Rows of a tile that no pairs of vectors form."""

from __future__ import annotations

import pytest

from teir.passes.pair_rows import rows_left_over


@pytest.mark.parametrize(
    ("rows", "left"), [(32, 0), (96, 0), (31, 31), (48, 48), (95, 95), (97, 33), (104, 40)]
)
def test_a_pair_of_vectors_goes_with_the_rows_left(rows: int, left: int) -> None:
    assert rows_left_over(rows) == left
