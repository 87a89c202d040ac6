"""How an extent is cut: the examples of sections 5.5.2 and 5.5.4, and even blocks."""

from __future__ import annotations

from math import isqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teir.ir.nodes import Role
from teir.passes.extents import best_split, even_block, uneven_block


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


def _even_count(extent: int, largest: int, granule: int) -> int | None:
    fewest = -(-extent // largest)
    counts = range(fewest, fewest + fewest // 3 + 2)
    return next((n for n in counts if extent % n == 0 and extent // n % granule == 0), None)


@given(st.integers(4000, 400_000), st.integers(1, 60), st.sampled_from((1, 4, 16)))
def test_many_blocks_are_cut_as_if_every_count_were_tried(
    extent: int, largest: int, granule: int
) -> None:
    block, count = even_block(extent, largest, granule), _even_count(extent, largest, granule)
    if count is not None and extent > largest:
        assert block == extent // count
    else:
        assert block == extent or block % granule == 0


@given(st.integers(20_000, 200_000), st.integers(2000, 20_000), st.sampled_from((1, 16, 3000)))
def test_large_exact_blocks_are_the_largest_divisors(
    extent: int, largest: int, smallest: int
) -> None:
    split = best_split(extent, Role.K, largest, smallest)
    fewest = max(2, smallest)
    blocks = (block for block in range(largest, fewest - 1, -1) if extent % block == 0)
    expected = next((block for block in blocks if extent // block >= fewest), None)
    assert (split and split[1]) == expected


@pytest.mark.parametrize("extent", [10**12 + 39, 10**14 + 31, 2**61 - 1])
@pytest.mark.parametrize("largest", [1, 16, 10**6, 10**9])
def test_large_primes_are_cut_without_trying_every_count(extent: int, largest: int) -> None:
    block = even_block(extent, largest)
    assert 1 <= block <= largest
    for role in Role:
        assert best_split(extent, role, largest, 1) is None


def test_large_products_of_small_primes_are_cut_exactly() -> None:
    extent = 2**20 * 3**10 * 65_521
    assert extent % even_block(extent, isqrt(extent)) == 0
    assert best_split(extent, Role.K, 10**9, 1) is not None


@pytest.mark.parametrize(
    ("extent", "largest", "smallest", "block"),
    [(34, 32, 16, 18), (33, 24, 8, 24), (33, 32, 20, None), (35, 16, 16, None)],
)
def test_what_uneven_blocks_leave_is_not_too_short(
    extent: int, largest: int, smallest: int, block: int | None
) -> None:
    assert uneven_block(extent, Role.M, largest, smallest) == block


@given(st.integers(2, 400), st.sampled_from(tuple(Role)), st.integers(1, 80), st.integers(1, 80))
def test_uneven_blocks_are_found_where_there_are_any(
    extent: int, role: Role, largest: int, smallest: int
) -> None:
    good = {
        block
        for block in range(smallest, min(largest, extent) + 1)
        if extent % block == 0 or extent % block >= smallest
    }
    block = uneven_block(extent, role, largest, smallest)
    assert block in good if good else block is None


def test_uneven_blocks_of_large_extents_are_found_or_given_up_soon() -> None:
    for largest, smallest in ((1000, 900), (32, 31), (10**9, 10**9 - 1), (10**9, 10)):
        block = uneven_block(10**12 + 39, Role.M, largest, smallest)
        assert block is None or smallest <= block <= largest
