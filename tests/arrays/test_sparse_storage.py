"""Elements sorted and summed: by keys with their places below them, by keys, by columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teir.arrays.levels import parse_format
from teir.arrays.sparse_storage import compress, sorted_sums
from teir.errors import NoRoomError

SIZES = {
    "place below the key": (7, 5, 9),
    "key alone": (2**20, 2**20, 2**18),
    "columns": (2**30, 2**30, 2**30),
}


@pytest.mark.parametrize("extents", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_elements_are_sorted_and_each_stored_once(extents: tuple[int, ...], seed: int) -> None:
    draw = np.random.default_rng(seed)
    count = 40 + seed
    columns = [draw.integers(0, min(3, extent), count) for extent in extents]
    columns[0][: count // 2] = extents[0] - 1
    columns[-1][1::2] = extents[-1] - 1
    values = draw.integers(-50, 50, count).astype(np.float64)
    kept, sums = sorted_sums(columns, values, extents)
    expected: dict[tuple[int, ...], float] = {}
    for place in range(count):
        coordinate = tuple(int(column[place]) for column in columns)
        expected[coordinate] = expected.get(coordinate, 0.0) + values[place]
    found = list(zip(*(column.tolist() for column in kept), strict=True))
    assert found == sorted(expected)
    assert sums.tolist() == [expected[coordinate] for coordinate in found]


@pytest.mark.parametrize("extents", SIZES.values(), ids=SIZES)
def test_equal_coordinates_are_summed_as_they_come(extents: tuple[int, ...]) -> None:
    """Sums of other orders have other bits."""
    row = np.array([1, 0, 1, 0, 1, 0])
    zeros = np.zeros(6, np.int64)
    values = np.array([1e16, 1.0, -1e16, 1e16, 1.0, -1e16])
    kept, sums = sorted_sums([row, zeros, zeros], values, extents)
    assert kept[0].tolist() == [0, 1]
    in_order = np.add.reduceat(values[np.argsort(row, kind="stable")], [0, 3])
    backwards = np.add.reduceat(values[np.argsort(row, kind="stable")][::-1], [0, 3])
    assert sums.tolist() == in_order.tolist() != backwards[::-1].tolist()


@pytest.mark.parametrize("levels", ["ds", "sd"])
def test_levels_that_no_memory_holds_are_refused(
    monkeypatch: pytest.MonkeyPatch, levels: str
) -> None:
    zeros = np.zeros

    def small_zeros(shape: int, dtype: np.dtype[np.generic]) -> np.ndarray[Any, Any]:
        if shape >= 2**33:
            raise MemoryError
        return zeros(shape, dtype)

    monkeypatch.setattr(np, "zeros", small_zeros)
    extents = [2**33, 3] if levels == "ds" else [3, 2**33]
    column = np.zeros(1, np.int64)
    with pytest.raises(NoRoomError, match=r"TEIR677 at levels: expected memory for .*8,589,934,5"):
        compress([column, column], np.ones(1), extents, parse_format(levels).levels)
