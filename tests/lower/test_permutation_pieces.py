"""Pieces of rows and columns: they cover every index once and fit one call."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from teir.lower.axes import TileAxis
from teir.lower.permutation_pieces import cut


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from((1, 2, 3, 7, 16, 24, 50, 1000, 5000)), min_size=1, max_size=3),
    st.sampled_from((4, 8, 16)),
    st.sampled_from((256, 2048)),
)
def test_every_index_lies_in_one_piece(extents: list[int], unit: int, most: int) -> None:
    while prod(extents[:-1]) > most // 8:
        extents.pop(0)
    axes, stride = [], 1
    for extent in extents:
        axes.append(TileAxis(extent, (stride,)))
        stride *= extent
    least = min(unit, stride)
    seen = np.zeros(stride, int)
    for piece in cut(tuple(axes), unit, least, most):
        inside = np.zeros(1, int) + sum(piece.offsets)
        for axis in piece.axes:
            inside = np.add.outer(np.arange(axis.extent) * axis.strides[0], inside).ravel()
        assert least <= inside.size <= most
        walk = TileAxis(1, (0,)) if piece.loop is None else piece.loop
        for step in range(walk.extent):
            seen[inside + step * walk.strides[0]] += 1
    assert (seen == 1).all()
