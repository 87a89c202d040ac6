"""Which copies turn rows that they pick every second element of, every third, and so on."""

from __future__ import annotations

import pytest

from teir.lower.axes import TileAxis
from teir.lower.calls import kernels_of
from teir.lower.copy_kernels import PermuteCopy, ShortTranspose, TransposeCopy
from teir.lower.kernel_program import Address, KernelNode
from teir.lower.stepped_turns import lower_stepped_turn
from teir.target import Isa

OPERANDS = tuple(Address(slot=slot, offset_bytes=0) for slot in range(2))
ROOM = Address(slot=2, offset_bytes=0)


def lowered(axes: tuple[TileAxis, ...], width: int, isa: Isa) -> tuple[KernelNode, ...] | None:
    return lower_stepped_turn(axes, OPERANDS, width, isa, 0, ROOM, False, False)


@pytest.mark.parametrize(
    ("axes", "kernel"),
    [
        (
            (TileAxis(20, (8, 160)), TileAxis(40, (160, 4))),
            TransposeCopy(element_bytes=4, lanes=16, step=2),
        ),
        (
            (TileAxis(20, (12, 12)), TileAxis(3, (240, 4))),
            ShortTranspose(element_bytes=4, side=3, lanes=16, joins=True, step=3),
        ),
        (
            (TileAxis(3, (8, 80)), TileAxis(20, (24, 4))),
            ShortTranspose(element_bytes=4, side=3, lanes=16, joins=False, step=2),
        ),
        (
            (TileAxis(1000, (16, 4000)), TileAxis(1000, (16000, 4))),
            PermuteCopy(element_bytes=4, lanes=16, step=4),
        ),
    ],
    ids=["squares", "few put together", "few taken apart", "large"],
)
def test_rows_are_turned_as_they_are_picked(
    axes: tuple[TileAxis, ...], kernel: TransposeCopy | ShortTranspose | PermuteCopy
) -> None:
    assert kernels_of(lowered(axes, 4, Isa.AVX512) or ()) == {kernel}


@pytest.mark.parametrize(
    ("axes", "width", "isa"),
    [
        ((TileAxis(20, (8, 160)), TileAxis(40, (160, 4))), 4, Isa.AVX2),
        ((TileAxis(20, (4, 160)), TileAxis(40, (80, 4))), 4, Isa.AVX512),
        ((TileAxis(20, (20, 160)), TileAxis(40, (400, 4))), 4, Isa.AVX512),
        ((TileAxis(20, (8, 160)), TileAxis(40, (164, 4))), 4, Isa.AVX512),
        ((TileAxis(20, (8, 160)), TileAxis(40, (0, 4))), 4, Isa.AVX512),
        ((TileAxis(20, (32, 640)), TileAxis(40, (640, 16))), 16, Isa.AVX512),
        ((TileAxis(20, (8, 4)), TileAxis(40, (160, 80))), 4, Isa.AVX512),
        ((TileAxis(3, (8, 160)), TileAxis(40, (160, 4))), 4, Isa.AVX512),
    ],
    ids=["no masks", "adjacent", "far", "between", "repeated", "wide", "not turned", "few"],
)
def test_others_are_copied_otherwise(axes: tuple[TileAxis, ...], width: int, isa: Isa) -> None:
    assert lowered(axes, width, isa) is None
