"""Shapes and formats as callers give them."""

from __future__ import annotations

from typing import Any

import pytest

import teir
from teir.arrays.sparse_shapes import checked_format, checked_shape
from teir.errors import TeirError

LONG = 10**6000


def test_the_outermost_axis_says_which_levels_are_usual() -> None:
    shape = (2**33, 3)
    assert str(checked_format(None, None, shape, 1)) == "ss"
    assert str(checked_format(None, (1, 0), shape, 1)) == "ds:1,0"
    assert str(checked_format("ds", None, shape, 1)) == "ds"
    assert str(checked_format(None, None, (), 1)) == ""


@pytest.mark.parametrize("order", [(0,), (0, 0), (0, 2), (1, -1), (10**5000, 0), 3])
def test_orders_that_are_none_are_refused(order: object) -> None:
    with pytest.raises(TeirError, match="TEIR660 at mode_order: expected the axes 0 to 1"):
        checked_format("ds", order, (3, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(10**5000, 3), (2**62,), (-1,), ("3",), 3])
def test_shapes_that_are_none_are_refused(shape: object) -> None:
    with pytest.raises(TeirError, match="TEIR671 at shape: expected"):
        checked_shape(shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "further", "code"),
    [
        ((LONG, 1.5), {}, "TEIR671"),
        ((3, 3), {"mode_order": (LONG, 1.5)}, "TEIR660"),
        ((3, 3), {"levels": LONG}, "TEIR660"),
    ],
)
def test_numbers_too_long_to_write_beside_other_mistakes(
    shape: Any, further: dict[str, Any], code: str
) -> None:
    with pytest.raises(TeirError, match=f"{code}.*too long to write"):
        teir.Sparse.from_coo([[0], [1]], [1.0], shape, **further)
