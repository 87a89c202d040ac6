"""How an extent is cut: the examples of sections 5.5.2 and 5.5.4, and even blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teir.ir.nodes import Role
from teir.passes.extents import best_split, even_block


@pytest.mark.parametrize(
    ("extent", "role", "largest", "smallest", "split"),
    [
        (1600, Role.M, 32, 16, (50, 32)),
        (1600, Role.M, 1024, 16, (20, 80)),
        (1600, Role.M, 1024, 1, (2, 800)),
        (1009, Role.M, 32, 1, None),
        (36, Role.M, 16, 1, (3, 12)),
        (1600, Role.N, 30, 1, (80, 20)),
        (14, Role.N, 7, 1, (7, 2)),
        (1600, Role.K, 30, 1, (64, 25)),
        (1600, Role.K, 30, 100, None),
    ],
)
def test_exact_splits(
    extent: int, role: Role, largest: int, smallest: int, split: tuple[int, int] | None
) -> None:
    assert best_split(extent, role, largest, smallest) == split


@given(st.integers(1, 3000), st.sampled_from(tuple(Role)), st.integers(1, 600), st.integers(1, 40))
def test_an_exact_split_keeps_the_bounds(
    extent: int, role: Role, largest: int, smallest: int
) -> None:
    split = best_split(extent, role, largest, smallest)
    if split is not None:
        blocks, block = split
        assert blocks * block == extent
        assert smallest <= block <= largest
        assert blocks >= smallest


@given(st.integers(1, 5000), st.integers(1, 600), st.sampled_from((1, 4, 16, 64)))
def test_a_block_fits_and_is_even(extent: int, largest: int, granule: int) -> None:
    block = even_block(extent, largest, granule)
    assert 1 <= block <= max(largest, granule)
    if extent > largest and block < extent:
        assert block % granule == 0 or extent % block == 0


def test_a_prime_is_cut_evenly() -> None:
    assert even_block(1009, 256) == 253
    assert even_block(1000, 256) == 250
    assert even_block(1000, 524, 64) == 512
