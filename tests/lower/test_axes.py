"""Axes of tiles: strides by operand, and loops around kernels."""

from __future__ import annotations

from teir.ir.nodes import Axis, Bytes
from teir.lower.axes import TileAxis, fuse_adjacent, tile_axes, wrap_in_loops
from teir.lower.kernel_program import Address, Loop, Step


def test_tile_axes_have_a_stride_for_every_operand_that_is_asked_for() -> None:
    axes = [
        Axis(name="m", extent=5, strides=Bytes({"a": 4, "c": 8})),
        Axis(name="one", extent=1, strides=Bytes({"a": 4})),
        Axis(name="k", extent=7, strides=Bytes({"a": 20, "b": 12})),
    ]
    expected = {"a": (4, 20), "b": (0, 12), "c": (8, 0)}
    for operands in (("c",), ("a", "b"), ("a", "b", "c"), ("b", "a", "b"), ("a", "b", "c", "a")):
        found = tile_axes(axes, operands)
        assert [axis.extent for axis in found] == [5, 7]
        for number, name in enumerate(operands):
            assert tuple(axis.strides[number] for axis in found) == expected[name]


def test_axes_fuse_where_the_outer_one_goes_on_on_every_operand() -> None:
    chain = [TileAxis(2, (96, 48)), TileAxis(3, (32, 16)), TileAxis(4, (8, 4))]
    assert fuse_adjacent(chain) == [TileAxis(24, (8, 4))]
    apart = [TileAxis(3, (40, 16)), TileAxis(4, (8, 4))]
    assert fuse_adjacent(apart) == apart


def test_loops_step_each_slot_once() -> None:
    axes = [TileAxis(3, (4, 0, 8)), TileAxis(5, (40, 0, 40))]
    (outer,) = wrap_in_loops(axes, [Address(slot=slot, offset_bytes=0) for slot in (0, 1, 0)], ())
    assert isinstance(outer, Loop)
    assert (outer.extent, outer.steps) == (3, (Step(slot=0, stride_bytes=8),))
    (inner,) = outer.body
    assert isinstance(inner, Loop)
    assert (inner.extent, inner.steps) == (5, (Step(slot=0, stride_bytes=40),))
