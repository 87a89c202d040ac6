"""Slabs of lanes in parts that the second cache holds."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.planned import SMALL, USUAL, assert_alike, planned
from teir.dtypes import DataType
from teir.ir.nodes import IterationNode, Node, Operation, Program
from teir.search.emission import Body, Emission, Roles
from teir.search.lane_parts import emit_parts, packed_part, part_sizes
from teir.search.machine import Machine
from teir.search.step import Span

TEXT = "ikb,kjb->ijb"


@given(
    rows=st.integers(1, 300),
    columns=st.integers(1, 300),
    sums=st.integers(1, 2000),
    room=st.integers(1, 4000),
)
def test_a_part_fits_and_is_no_larger_than_all(
    rows: int, columns: int, sums: int, room: int
) -> None:
    part = part_sizes(rows, columns, sums, room)
    if part is None:
        return
    assert (part.rows + part.columns) * part.sums + part.rows * part.columns <= room
    assert 1 <= part.rows <= rows
    assert 1 <= part.columns <= columns
    assert part.sums >= 8


def test_what_fits_is_not_cut() -> None:
    assert part_sizes(10, 10, 100, 2100) is None
    assert part_sizes(10, 10, 100, 2099) is not None


@given(
    side=st.integers(1, 3000),
    others=st.integers(1, 100),
    sums=st.integers(1, 100),
    room=st.integers(1, 4000),
    others_are_packed=st.booleans(),
)
def test_a_packed_part_fits_beside_the_others(
    side: int, others: int, sums: int, room: int, others_are_packed: bool
) -> None:
    part = packed_part(side, others, sums, room, others_are_packed)
    if part is None:
        return
    assert side * sums > 2 * room
    assert (part + others) * sums + part * others <= room
    assert part >= 2 * others or not others_are_packed


def test_a_packed_side_is_not_cut_where_that_brings_more_again() -> None:
    assert packed_part(800, 3, 6, 256, False) == (256 - 18) // 9
    assert packed_part(80, 3, 6, 256, False) is None
    assert packed_part(800, 40, 6, 256, False) is None
    assert packed_part(800, 14, 6, 256, True) is None


@given(extents=st.lists(st.integers(1, 9), min_size=1, max_size=3), most=st.integers(1, 100))
def test_parts_take_every_index_once_in_order(extents: list[int], most: int) -> None:
    """As a program that copies part by part: what it copies to is filled, in order."""
    strides = [8 * prod(extents[place + 1 :]) for place in range(len(extents))]
    axes = tuple(
        Span(f"k{place}", extent, {"a": stride, "out": stride}, {})
        for place, (extent, stride) in enumerate(zip(extents, strides, strict=True))
    )
    emission = Emission()
    sizes: list[int] = []

    def leaf(inside: tuple[Span, ...]) -> Body:
        sizes.append(prod(axis.extent for axis in inside))
        return emission.leaf(Operation.COPY, ("a",), "out", Roles(m=inside))

    body = emit_parts(emission, axes, most, leaf)
    assert max(sizes) <= most
    assert _places(body.nodes, emission) == list(range(0, 8 * prod(extents), 8))


def _places(nodes: tuple[Node, ...], emission: Emission) -> list[int]:
    """Where the nodes come on tensor ``a``, one after the other."""
    axes = {axis.name: axis for axis in emission.axes.values()}
    primitives = {primitive.name: primitive for primitive in emission.primitives.values()}
    places: list[int] = []
    for node in nodes:
        if isinstance(node, IterationNode):
            inside, walk = _places(node.children, emission), (axes[node.axis],)
        else:
            inside, walk = [0], tuple(axes[name] for name in primitives[node.primitive].axes)
        for axis in reversed(walk):
            start, stride = axis.offsets["a"], axis.strides["a"]
            inside = [start + stride * index + at for index in range(axis.extent) for at in inside]
        places += inside
    return places


def _planned(extents: dict[str, int], machine: Machine) -> Program:
    return planned(TEXT, extents, machine, DataType.FP64).program


def _loops_around_products(program: Program) -> set[str]:
    products = {p.name for p in program.primitives if p.operation is Operation.CONTRACTION}
    return {
        loop.axis
        for loop in program.nodes()
        if isinstance(loop, IterationNode)
        and any(getattr(child, "primitive", None) in products for child in loop.children)
    }


@pytest.mark.parametrize(
    ("extents", "in_parts"),
    [
        ({"i": 7, "j": 11, "k": 130, "b": 24}, True),
        ({"i": 7, "j": 11, "k": 90, "b": 24}, False),
        ({"i": 4, "j": 11, "k": 130, "b": 24}, False),
    ],
    ids=["long sums", "short sums", "few rows"],
)
def test_long_sums_are_made_in_parts(extents: dict[str, int], in_parts: bool) -> None:
    assert bool(_loops_around_products(_planned(extents, SMALL))) == in_parts
    assert not _loops_around_products(_planned(extents, USUAL))


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (TEXT, {"i": 7, "j": 11, "k": 130, "b": 30}),
        ("jke,ibek->ijbe", {"i": 40, "j": 3, "k": 4, "b": 30, "e": 5}),
        ("ibek,ke->ibe", {"i": 80, "k": 6, "b": 10, "e": 3}),
    ],
    ids=["of long sums", "of packed columns", "of packed rows"],
)
def test_parts_change_no_bit(text: str, extents: dict[str, int]) -> None:
    programs = [planned(text, extents, one, DataType.FP64).program for one in (SMALL, USUAL)]
    assert _loops_around_products(programs[0]) - _loops_around_products(programs[1])
    assert_alike(programs, text, extents, 3)
