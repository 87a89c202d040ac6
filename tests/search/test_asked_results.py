"""Which products ask for the lines of their results."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, choice_of
from teir.dtypes import DataType
from teir.search.choice import Order

NEAR = replace(FAR, l3_bytes=64 << 20)


@pytest.mark.parametrize(
    ("side", "depth", "is_asked"),
    [(1000, 24, False), (1000, 16, True), (2048, 64, False), (2048, 48, True)],
)
def test_sums_that_outlast_the_writing_of_a_line_ask_for_none(
    side: int, depth: int, is_asked: bool
) -> None:
    extents = {"e": side, "r": depth, "f": side}
    far, near = (choice_of("er,rf->ef", extents, one, DataType.FP32) for one in (FAR, NEAR))
    assert far.order is Order.OUTPUT
    assert far.prefetches_out is is_asked
    assert near.prefetches_out or near.order is not Order.OUTPUT


def test_short_rows_ask_for_the_lines_they_share() -> None:
    extents = {"i": 30, "j": 30, "k": 30, "l": 30, "r": 64}
    assert choice_of("ijr,klr->ikjl", extents, FAR, DataType.FP64).prefetches_out
