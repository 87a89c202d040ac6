"""Axes while a program is made: splitting and fusing."""

from __future__ import annotations

import pytest

from teir.search.step import Span, fuse

BOTH = {"in0": 4, "out": 4}


def test_a_split_walks_the_same_indices() -> None:
    span = Span("i", 10, {"in0": 8}, {"in0": 100})
    outer, inner = span.split(3)
    rest = span.rest(9)
    walked = [
        100 + outer.strides["in0"] * block + inner.strides["in0"] * index
        for block in range(outer.extent)
        for index in range(inner.extent)
    ]
    walked += [rest.offsets["in0"] + 8 * index for index in range(rest.extent)]
    assert walked == [100 + 8 * index for index in range(10)]
    assert not inner.offsets


def test_halves_of_an_axis_that_nothing_moves_are_different_axes() -> None:
    """Programs share axes of one label and walk, and no axis is iterated inside itself."""
    outer, inner = Span("i", 8, {}, {}).split(4)
    middle, inmost = inner.split(2)
    assert len({outer.label, middle.label, inmost.label}) == 3
    assert Span("i", 8, {"in0": 4}, {}).split(4)[0].label == "i"


@pytest.mark.parametrize(
    ("axes", "fused"),
    [
        ([Span("i", 3, {"in0": 16, "out": 16}, {}), Span("j", 4, BOTH, {})], [("ij", 12)]),
        ([Span("j", 4, BOTH, {}), Span("i", 3, {"in0": 16, "out": 16}, {})], [("ij", 12)]),
        ([Span("i", 3, {"in0": 16, "out": 20}, {}), Span("j", 4, BOTH, {})], [("i", 3), ("j", 4)]),
        ([Span("i", 3, {"in0": 16}, {}), Span("j", 4, BOTH, {})], [("i", 3), ("j", 4)]),
        (
            [
                Span("i", 2, {"in0": 48, "out": 48}, {}),
                Span("j", 3, {"in0": 16, "out": 16}, {}),
                Span("k", 4, BOTH, {}),
            ],
            [("ijk", 24)],
        ),
    ],
)
def test_axes_fuse_where_every_tensor_allows(axes: list[Span], fused: list) -> None:
    assert [(axis.label, axis.extent) for axis in fuse(axes)] == fused


def test_fused_axes_keep_their_offsets() -> None:
    outer = Span("i", 3, {"in0": 16}, {"in0": -32})
    (axis,) = fuse([outer, Span("j", 4, {"in0": 4}, {"in0": -12})])
    assert axis.offsets == {"in0": -44}


def test_the_rest_of_an_axis_begins_where_a_loop_of_one_turn_goes() -> None:
    place, rest = Span("i", 9, {"in0": 16, "out": 4}, {"in0": 32}).rest_in_loop(8)
    assert (place.extent, place.strides, place.offsets) == (1, {}, {"in0": 160, "out": 32})
    assert (rest.extent, rest.strides, rest.offsets) == (1, {"in0": 16, "out": 4}, {})
