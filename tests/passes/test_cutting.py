"""Blocks of an axis that differ by one index at most."""

from __future__ import annotations

import pytest

from teir.ir.nodes import Axis
from teir.ir.parsing import parse_program
from teir.passes.cutting import cut_evenly
from teir.passes.draft import Draft

TEXT = """teir 1 "zeros"
tensor out: FP32
axis m = EXTENT: out 4 + 8
primitive zero = Zero FP32 (out; M=[m], N=[])
clear: zero
"""


def indices(axes: dict[str, Axis], blocks: str | None, inside: str) -> list[list[int]]:
    """The bytes of ``out`` that the blocks of a piece touch."""

    def walk(name: str | None) -> range:
        if name is None:
            return range(1)
        axis = axes[name]
        step = axis.strides["out"]
        return range(axis.offsets["out"], axis.offsets["out"] + step * axis.extent, step)

    return [[far + near for near in walk(inside)] for far in walk(blocks)]


@pytest.mark.parametrize(
    ("extent", "largest", "sizes"),
    [
        (32, 13, [11, 11, 10]),
        (32, 6, [6, 6, 5, 5, 5, 5]),
        (30, 6, [6] * 5),
        (7, 6, [4, 3]),
        (5, 6, [5]),
        (6, 6, [6]),
    ],
)
def test_blocks_are_even_and_meet(extent: int, largest: int, sizes: list[int]) -> None:
    draft = Draft(parse_program(TEXT.replace("EXTENT", str(extent))))
    pieces = cut_evenly(draft, "m", largest)
    blocks = [one for piece in pieces for one in indices(draft.axes, piece.blocks, piece.inside)]
    assert [len(block) for block in blocks] == sizes
    assert [one for block in blocks for one in block] == list(range(8, 8 + 4 * extent, 4))
