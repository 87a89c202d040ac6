"""Rows of unsorted rows, diagonals and blocks, against coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from teir.arrays.sparse_rows import ordered_fibres, rows_of_blocks, rows_of_diagonals
from teir.arrays.sparse_storage import Compressed

INDEX_TYPES = (np.int32, np.int64)


def _dense(level: Compressed, values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Refuses rows out of order: every element is stored once, ascending."""
    result = np.zeros(shape, values.dtype)
    for row in range(shape[0]):
        crd = level.crd[level.pos[row] : level.pos[row + 1]]
        assert (np.diff(crd) > 0).all()
        result[row, crd] = values[level.pos[row] : level.pos[row + 1]]
    assert level.pos[-1] == level.crd.size == values.size
    return result


@pytest.mark.parametrize("index_type", INDEX_TYPES)
@pytest.mark.parametrize("seed", range(6))
def test_fibres_in_any_order_are_put_in_order(seed: int, index_type: type) -> None:
    draw = np.random.default_rng(seed)
    shape = (int(draw.integers(1, 9)), int(draw.integers(1, 12)))
    rows = [draw.permutation(shape[1])[: draw.integers(0, shape[1] + 1)] for _ in range(shape[0])]
    pos = np.cumsum([0, *map(len, rows)]).astype(index_type)
    crd = np.concatenate(rows).astype(index_type)
    values = draw.standard_normal(crd.size)
    expected = np.zeros(shape)
    expected[np.repeat(np.arange(shape[0]), np.diff(pos)), crd] = values
    found = ordered_fibres(Compressed(pos=pos, crd=crd), shape[1], values)
    assert found is not None
    assert (_dense(*found, shape) == expected).all()
    assert found[0].crd.dtype == index_type


def test_a_coordinate_given_twice_is_left_to_the_general_way() -> None:
    level = Compressed(pos=np.array([0, 3]), crd=np.array([4, 1, 4]))
    assert ordered_fibres(level, 5, np.ones(3)) is None


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (1, 6), (6, 1), (0, 4), (4, 0)])
@pytest.mark.parametrize("width", [1, 4, 9])
def test_diagonals_become_rows_as_scipy_reads_them(shape: tuple[int, int], width: int) -> None:
    draw = np.random.default_rng(width)
    offsets = draw.permutation(np.arange(-shape[0] - 1, shape[1] + 2))[:5]
    data = draw.integers(-1, 2, (offsets.size, width)).astype(np.float64)
    found = rows_of_diagonals(offsets, data, shape)
    if shape[0] > 2 * width:
        assert found is None
        return
    expected = np.zeros(shape)
    for offset, diagonal in zip(offsets, data, strict=True):
        for column in range(min(width, shape[1])):
            if 0 <= column - offset < shape[0]:
                expected[column - offset, column] = diagonal[column]
    assert found is not None
    assert (_dense(*found, shape) == expected).all()
    assert (found[1] != 0).all()


def test_an_offset_given_twice_is_left_to_the_general_way() -> None:
    assert rows_of_diagonals(np.array([1, 1]), np.ones((2, 4)), (4, 4)) is None


@pytest.mark.parametrize("index_type", INDEX_TYPES)
@pytest.mark.parametrize("blocks", [(1, 1), (2, 3), (4, 1), (1, 5)])
def test_blocks_become_rows(blocks: tuple[int, int], index_type: type) -> None:
    draw = np.random.default_rng(7)
    pos = np.array([0, 2, 2, 3], index_type)
    crd = np.array([1, 3, 0], index_type)
    values = draw.standard_normal(crd.size * blocks[0] * blocks[1])
    shape = (3 * blocks[0], 4 * blocks[1])
    expected = np.zeros((3, 4, *blocks))
    expected[[0, 0, 2], crd] = values.reshape(-1, *blocks)
    found = rows_of_blocks(Compressed(pos=pos, crd=crd), values, blocks, shape)
    assert (_dense(*found, shape) == expected.transpose(0, 2, 1, 3).reshape(shape)).all()
    assert found[0].crd.dtype == found[0].pos.dtype == index_type


def test_columns_beyond_the_index_type_widen_it() -> None:
    """Block 2^31 - 1 of two columns begins beyond what int32 counts to."""
    level = Compressed(pos=np.array([0, 1], np.int32), crd=np.array([2**31 - 1], np.int32))
    found, _ = rows_of_blocks(level, np.ones(2), (1, 2), (1, 2**32))
    assert found.crd.tolist() == [2**32 - 2, 2**32 - 1]
