"""Sums of products over whole tiles."""

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.ir.tile_arithmetic import contract


@pytest.mark.parametrize("lanes", [None, 1, 8])
def test_a_sum_without_terms_is_its_start(lanes: int | None) -> None:
    start = np.array([1.0, -2.0, 4.0])
    total = contract((np.ones((3, 0)), np.ones((3, 0))), start, DataType.FP64, lanes)
    assert np.array_equal(total, start)


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_chains_take_every_so_many_th_product(lanes: int) -> None:
    draw = np.random.default_rng(lanes)
    left, right = draw.standard_normal((2, 3, 5, 19))
    total = contract((left, right), np.zeros(3), DataType.FP64, lanes)
    chains = [np.zeros(3) for _ in range(lanes)]
    for row in range(5):
        for place in range(19):
            chains[place % lanes] += left[:, row, place] * right[:, row, place]
    while len(chains) > 1:
        half = len(chains) // 2
        chains = [one + other for one, other in zip(chains[:half], chains[half:], strict=True)]
    assert np.array_equal(total, chains[0])
