"""Short runs of results, whose lines are filled in parts."""

from __future__ import annotations

import pytest

from search.planned import USUAL, choice_of
from teir.dtypes import DataType


@pytest.mark.parametrize(
    ("changed", "expected"),
    [({}, False), ({"a": 48}, True), ({"f": 1}, True)],
    ids=["short", "long", "columns follow"],
)
def test_short_runs_with_columns_elsewhere_stay_in_the_caches(
    changed: dict[str, int], expected: bool
) -> None:
    extents = {"a": 10, "h": 3, "f": 6, "k": 48, "d": 40_000} | changed
    choice = choice_of("dak,hfk->fdha", extents, USUAL, DataType.FP64)
    assert choice.streams is expected


def test_short_runs_of_short_sums_stay_in_the_caches() -> None:
    """Past them it took 21 times as long into a result that began at a line."""
    extents = {"a": 12, "b": 8, "c": 4, "d": 4, "e": 3, "f": 7, "g": 2, "h": 5, "i": 9}
    choice = choice_of("bdaic,eifhg->hdfcbega", extents, USUAL, DataType.FP64)
    assert not choice.streams
