"""Regions against sets of bytes."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from teir.ir.check.collision import Budget
from teir.ir.check.regions import Region, is_covered, region

BOXES = st.builds(
    region,
    st.integers(0, 12).map(lambda element: 4 * element),
    st.lists(
        st.tuples(st.integers(0, 8).map(lambda element: 4 * element), st.integers(1, 4)),
        max_size=3,
    ),
)


def elements(box: Region) -> set[int]:
    points = product(*(range(extent) for _, extent in box.dims))
    strides = [stride for stride, _ in box.dims]
    return {box.begin + sum(map(int.__mul__, strides, point)) for point in points}


@given(BOXES, st.lists(BOXES, max_size=4))
@example(region(16, []), [region(0, [(8, 2)])])
@example(region(32, []), [region(0, [(8, 2), (20, 2)])])
@example(region(0, [(4, 3)]), [region(0, []), region(4, [(4, 2)])])
def test_covering_is_exact(read: Region, written: list[Region]) -> None:
    together = set().union(*map(elements, written))
    assert is_covered(read, written, 4, Budget(10_000)) == (elements(read) <= together)


@given(st.lists(st.tuples(st.integers(0, 24), st.integers(1, 8)), max_size=4))
def test_a_region_has_the_bytes_of_its_steps(dims: list[tuple[int, int]]) -> None:
    points = product(*(range(extent) for _, extent in dims))
    strides = [stride for stride, _ in dims]
    assert elements(region(7, dims)) == {7 + sum(map(int.__mul__, strides, one)) for one in points}
    assert region(0, [(16, 3), (4, 4)]).dims == ((4, 12),)
    assert region(0, [(48, 2), (4, 4), (16, 3), (200, 2)]).dims == ((200, 2), (4, 24))
    assert region(0, [(0, 5), (16, 1), (4, 3)]).dims == ((4, 3),)


def test_a_box_with_one_stride_twice_keeps_all_its_elements() -> None:
    twice = region(0, [(8, 2), (8, 3)])
    assert elements(twice) == {0, 8, 16, 24}
    assert is_covered(region(0, [(8, 4)]), [twice, region(8, [])], 4, Budget(100))


def test_main_and_remainder_columns_join_without_listing_rows() -> None:
    main = region(0, [(400_000, 1_000_000), (4, 64)])
    rest = region(256, [(400_000, 1_000_000), (4, 7)])
    whole = region(0, [(400_000, 1_000_000), (4, 71)])
    assert is_covered(whole, [main, rest], 4, Budget(100))
    beyond = region(0, [(400_000, 1_000), (4, 72)])
    assert not is_covered(beyond, [region(0, [(400_000, 1_000), (4, 71)])], 4, Budget(10_000))


def test_the_four_corners_of_two_splits_join_without_listing_rows() -> None:
    """Columns in a main part and a rest, rows too: what has joined joins again."""
    pitch = 400_000
    corners = [
        region(row * pitch + 4 * column, [(pitch, rows), (4, columns)])
        for row, rows in ((0, 1_000), (1_000, 500))
        for column, columns in ((0, 64), (64, 7))
    ]
    whole = region(0, [(pitch, 1_500), (4, 71)])
    assert is_covered(whole, corners, 4, Budget(100))
    assert is_covered(whole, corners[::-1], 4, Budget(100))
