"""Which copies pick every second element, every third, and so on."""

from __future__ import annotations

import pytest

from teir.lower.axes import TileAxis
from teir.lower.copy_kernels import SteppedCopy
from teir.lower.kernel_program import Address, Call
from teir.lower.stepped_copies import lower_stepped
from teir.target import Isa

OPERANDS = tuple(Address(slot=slot, offset_bytes=0) for slot in range(2))


def test_rows_are_picked_in_every_turn_of_a_loop() -> None:
    axes = (TileAxis(5, (1000, 80)), TileAxis(20, (12, 4)))
    (call,) = lower_stepped(axes, OPERANDS, 4, Isa.AVX512, follows_input=False, may_turn=True) or ()
    assert isinstance(call, Call)
    assert call.kernel == SteppedCopy(element_bytes=4, step=3, lanes=16)
    assert call.arguments == (20, 5, 1000, 80)


@pytest.mark.parametrize(
    ("axes", "isa"),
    [
        ((TileAxis(20, (8, 4)),), Isa.AVX2),
        ((TileAxis(20, (10, 4)),), Isa.AVX512),
        ((TileAxis(20, (64, 4)),), Isa.AVX512),
        ((TileAxis(3, (8, 4)),), Isa.AVX512),
        ((TileAxis(20, (8, 80)), TileAxis(20, (160, 4))), Isa.AVX512),
        ((TileAxis(20, (4, 80)), TileAxis(20, (8, 4))), Isa.AVX512),
        ((TileAxis(20, (0, 4)),), Isa.AVX512),
    ],
    ids=["no masks", "no step", "a line", "few", "turned", "adjacent", "repeated"],
)
def test_others_are_copied_otherwise(axes: tuple[TileAxis, ...], isa: Isa) -> None:
    assert lower_stepped(axes, OPERANDS, 4, isa, follows_input=False, may_turn=True) is None


def test_rows_are_picked_where_no_kernel_turns() -> None:
    axes = (TileAxis(2, (4, 80)), TileAxis(20, (8, 4)))
    nodes = lower_stepped(axes, OPERANDS, 4, Isa.AVX512, follows_input=False, may_turn=False)
    (call,) = nodes or ()
    assert isinstance(call, Call)
    assert call.kernel == SteppedCopy(element_bytes=4, step=2, lanes=16)
    assert call.arguments == (20, 2, 4, 80)
