"""Which permutations have too little along the two axes of unit stride."""

from __future__ import annotations

import pytest

from teir.passes.short_sides import has_short_sides


@pytest.mark.parametrize(
    ("extents", "unit_in", "unit_out", "wanted"),
    [
        ((2,) * 12, 2, 2, True),
        ((2,) * 9, 2, 2, False),
        ((64, 64, 2, 2), 2, 2, False),
        ((16, 2, 2, 2, 2, 8), 2, 8, False),
        ((7, 2, 6, 5, 4), 7, 4, True),
    ],
)
def test_short_sides(extents, unit_in, unit_out, wanted) -> None:
    assert has_short_sides(extents, unit_in, unit_out) == wanted
