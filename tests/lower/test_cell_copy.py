"""Permutations of many short axes: the calls they are lowered to mean the same copy."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower.test_permutation import ROOM, TYPES, axes_of, calls_below, copied
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.axes import fuse_any_order
from teir.lower.cell_copy import lower_cells
from teir.lower.copy_kernels import (
    CELL_AXES,
    MOST_CELLS,
    MOST_IN_CELL,
    CellCopy,
    RowCopy,
    TransposeCopy,
)
from teir.lower.elementwise import lower_elementwise
from teir.lower.kernel_program import Address
from teir.target import Isa

OPERANDS = (Address(slot=0, offset_bytes=0), Address(slot=1, offset_bytes=0))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from((2, 2, 2, 3, 5, 7)), min_size=5, max_size=14),
    st.randoms(use_true_random=False),
    st.sampled_from((0, 0, 1)),
    st.sampled_from(TYPES),
)
def test_cells_copy_every_element(extents, random, gap, data_type) -> None:
    while prod(extents) > 1 << 15:
        extents.pop()
    order = list(range(len(extents)))
    random.shuffle(order)
    axes = axes_of(extents, order, gap, data_type.width)
    nodes = lower_cells(fuse_any_order(axes), OPERANDS, data_type.width, ROOM)
    if nodes is None:
        return
    for call in calls_below(nodes):
        assert isinstance(call.kernel, CellCopy)
        assert prod(call.arguments[:CELL_AXES]) <= MOST_IN_CELL
        assert prod(call.arguments[3 * CELL_AXES : 4 * CELL_AXES]) <= MOST_CELLS
    assert copied(nodes, axes, data_type.width)


def test_a_cell_fills_a_line_of_either_side() -> None:
    axes = axes_of((2,) * 14, range(13, -1, -1), 0, 8)
    nodes = lower_cells(axes, OPERANDS, 8, ROOM)
    assert nodes is not None
    calls = list(calls_below(nodes))
    assert [prod(call.arguments[:CELL_AXES]) for call in calls] == [64]
    assert [prod(call.arguments[36:48]) for call in calls] == [256]


@pytest.mark.parametrize("isa", [Isa.AVX2, Isa.AVX512, Isa.AMX])
@pytest.mark.parametrize(("extent", "is_cells"), [(2, True), (9, False)])
def test_short_axes_are_copied_as_cells_everywhere(isa: Isa, extent: int, is_cells: bool) -> None:
    axes = axes_of((extent, 2, 3, 4, 5, 2, 3, extent), (7, 3, 1, 5, 0, 2, 6, 4), 0, 4)
    types = (DataType.FP32, DataType.FP32)
    nodes = lower_elementwise(Operation.COPY, axes, OPERANDS, types, isa, room=ROOM)
    found = {isinstance(call.kernel, CellCopy) for call in calls_below(nodes)}
    assert found == {is_cells}


@pytest.mark.parametrize(("first", "kernel"), [(2, TransposeCopy), (7, RowCopy)])
def test_rows_of_both_sides_are_not_taken_apart(first: int, kernel: type) -> None:
    axes = axes_of((first, 4, 2, 3, 4, 5, 2), (0, 4, 2, 6, 1, 3, 5), 0, 4)
    assert lower_cells(axes, OPERANDS, 4, ROOM) is None
    types = (DataType.FP32, DataType.FP32)
    nodes = lower_elementwise(Operation.COPY, axes, OPERANDS, types, Isa.AVX512, room=ROOM)
    assert {type(call.kernel) for call in calls_below(nodes)} == {kernel}
    assert copied(nodes, axes, 4)
