"""What blocks of columns ask for together is all that the next tile reads."""

from __future__ import annotations

from itertools import product

import pytest

from teir.lower.axes import TileAxis
from teir.lower.bringing import Brought, brought_rows


def axis(extent: int, stride: int) -> TileAxis:
    return TileAxis(extent, (stride, 0, 0))


def asked(brought: Brought) -> set[int]:
    """The bytes asked for, from the first part's own on."""
    extents, steps = brought.arguments[::2], brought.arguments[1::2]
    inside = [
        sum(index * step for index, step in zip(place, steps, strict=True))
        for place in product(*map(range, extents))
    ]
    return {
        part * brought.part_bytes + offset for part in range(brought.parts) for offset in inside
    }


@pytest.mark.parametrize("blocks", [1, 3, 11, 40])
@pytest.mark.parametrize("row_bytes", [40, 192, 320])
@pytest.mark.parametrize(
    "reductions",
    [(axis(12, 4096),), (axis(32, 29440), axis(5, 942080)), (axis(2, 640), axis(9, 5120))],
)
def test_every_row_of_every_reduction_is_asked_for(
    reductions: tuple[TileAxis, ...], row_bytes: int, blocks: int
) -> None:
    brought = brought_rows(row_bytes, reductions, blocks)
    if brought is None:
        assert blocks <= 3
        return
    assert brought.parts <= blocks
    starts = [
        sum(index * one.strides[0] for index, one in zip(place, reductions, strict=True))
        for place in product(*(range(one.extent) for one in reductions))
    ]
    wanted = {start + line for start in starts for line in range(0, row_bytes, 64)}
    assert wanted <= asked(brought)


def test_parts_that_are_too_large_are_not_asked_for() -> None:
    assert brought_rows(192, (axis(512, 4096),), 2) is None
    assert brought_rows(192, (axis(2, 64), axis(2, 640), axis(64, 5120)), 8) is None


def test_a_single_product_leaves_nothing_to_ask_for() -> None:
    assert brought_rows(192, (), 8) is None
