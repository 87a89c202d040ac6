"""Runs as wide as an element of another type are copied as such elements."""

from __future__ import annotations

import pytest

from lower.test_permutation import OPERANDS, ROOM, axes_of, calls_below, copied
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis
from teir.lower.elementwise import lower_elementwise
from teir.lower.wide_elements import wide_elements
from teir.target import Isa


@pytest.mark.parametrize(
    ("run", "width", "wide"), [(2, 2, 4), (2, 4, 8), (4, 4, 16), (8, 2, 16), (2, 8, 16)]
)
def test_runs_of_a_few_elements_are_one(run: int, width: int, wide: int) -> None:
    axes = axes_of((run, 30, 40), (0, 2, 1), 0, width)
    assert wide_elements(axes, width) == (axes[1:], wide)
    data_type = next(
        one for one in (DataType.FP16, DataType.FP32, DataType.FP64) if one.width == width
    )
    types = (data_type, data_type)
    nodes = lower_elementwise(Operation.COPY, axes, OPERANDS, types, Isa.AVX512, room=ROOM)
    assert {call.kernel.element_bytes for call in calls_below(nodes)} == {wide}
    assert copied(nodes, axes, width)


def test_other_axes_stay() -> None:
    odd = axes_of((3, 30, 40), (0, 2, 1), 0, 4)
    long = axes_of((4, 30, 40), (0, 2, 1), 0, 8)
    apart = axes_of((2, 30, 40), (1, 0, 2), 0, 4)
    alone = [TileAxis(2, (4, 4))]
    for axes, width in ((odd, 4), (long, 8), (apart, 4), (alone, 4)):
        assert wide_elements(axes, width) == (axes, width)
