"""Where tiles stand in the figures, and in which order they are numbered."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from teir.cli.figure import MOST, draw_program, place
from teir.cli.tile_grid import extent_of, picture_of, shown_indices
from teir.errors import TeirError
from teir.ir.parsing import parse_program

CONTRACTION = """teir 1 "trus,pqtu->pqrs <&>"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis p = 4: in1 768, out 576
axis r = 3: in0 512, out 32
axis t = 2: in0 1536, in1 64
axis s = 8: in0 4, out 4
axis q = 6: in1 128, out 96
axis u = 16: in0 32, in1 4
primitive gemm = Contraction FP32 (in0, in1 -> out; M=[s], N=[q], K=[u])
sequential p over p
  sequential r over r
    sequential t over t
      gemm: gemm
"""

PERMUTATION = """teir 1 "abcd->dcba"
tensor in0: FP32
tensor out: FP32
axis b = 30: in0 160, out 8
axis c = 4: in0 40, out 240
axis d = 10: in0 4, out 960
axis a = 2: in0 4800, out 4
primitive copy = Copy(in0 -> out; M=[d], N=[a])
sequential b over b
  sequential c over c
    copy: copy
"""


def test_axes_align_the_grids_of_a_product() -> None:
    picture = picture_of(parse_program(CONTRACTION))
    assert picture is not None
    in0, in1, out = picture.grids
    names = [tuple(axis.name for axis in axes) for axes in (in0.rows, in0.columns, in0.tile_rows)]
    assert names == [("r",), ("t",), ("s",)]
    assert (in1.rows, in1.columns) == (in0.columns, out.columns)
    assert out.rows == in0.rows
    assert (in1.tile_rows, in1.tile_columns) == (in0.tile_columns, out.tile_columns)
    placed_in0, placed_in1, placed_out = place(picture)
    assert placed_in0.y == placed_out.y
    assert placed_in1.x == placed_out.x
    assert placed_in1.y < placed_out.y
    assert placed_in0.x < placed_out.x


def test_tiles_and_elements_lie_where_the_strides_say() -> None:
    picture = picture_of(parse_program(CONTRACTION))
    assert picture is not None
    in0, _, out = picture.grids
    assert in0.tile_offset_bytes(2, 1) == 2 * 512 + 1536
    assert out.tile_offset_bytes(1, 3) == 32 + 3 * 576
    assert in0.element_offset_bytes(3, 2) == 3 * 4 + 2 * 32


def test_numbers_follow_the_addresses() -> None:
    program = parse_program(CONTRACTION)
    picture = picture_of(program)
    assert picture is not None
    color = place(picture)[2].color
    svg = ElementTree.fromstring(draw_program(program))
    numbers = [
        (float(element.get("y", 0)), float(element.get("x", 0)), int(element.text))
        for element in svg.iter()
        if element.get("fill") == color and element.text and element.text.isdigit()
    ]
    assert [number for _, _, number in sorted(numbers)] == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]


def test_long_grids_are_cut_and_say_so() -> None:
    picture = picture_of(parse_program(PERMUTATION))
    assert picture is not None
    assert not picture.is_product
    assert extent_of(picture.grids[0].rows) == 30
    assert shown_indices(30, MOST) == (0, 1, 2, 3, 4, None, 29)
    assert shown_indices(3, MOST) == (0, 1, 2)
    svg = draw_program(parse_program(PERMUTATION))
    assert "⋮" in svg
    assert f"+{29 * 160:,}" in svg


def test_names_are_escaped() -> None:
    assert "&lt;&amp;&gt;" in draw_program(parse_program(CONTRACTION))


def test_batches_are_named() -> None:
    text = CONTRACTION.replace(
        "axis t = 2: in0 1536, in1 64", "axis t = 2: in0 1536, in1 64, out 8192"
    )
    assert "batch axes, drawn at index 0: t (2)" in draw_program(parse_program(text))


def test_a_sparse_program_has_no_figure() -> None:
    text = """teir 1 "sparse"
tensor pos: I64
tensor crd: I64
tensor in0: FP32
tensor out: FP32
axis i = 3: pos 8, out 4
axis j = 5: crd 8, in0 4; segment pos pos crd crd by_position [in0]
primitive add = Contraction FP32 (in0 -> out; M=[], N=[], K=[])
sequential i over i
  sequential j over j
    add: add
"""
    with pytest.raises(TeirError) as caught:
        draw_program(parse_program(text))
    assert caught.value.findings[0].code == "TEIR808"
