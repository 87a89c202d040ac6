"""Which copies turn a few elements, and along which axes."""

from __future__ import annotations

import pytest

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis
from teir.lower.copy_kernels import ShortTranspose
from teir.lower.elementwise import lower_elementwise
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.target import Isa


def copied(*axes: TileAxis, isa: Isa = Isa.AVX512, brings: bool = False) -> tuple[KernelNode, ...]:
    """What a copy of FP32 along these axes lowers to."""
    operands = tuple(Address(slot=slot, offset_bytes=0) for slot in range(2))
    types = (DataType.FP32, DataType.FP32)
    return lower_elementwise(Operation.COPY, axes, operands, types, isa, brings=brings)


def short_call(nodes: tuple[KernelNode, ...]) -> Call | None:
    (node,) = nodes
    is_short = isinstance(node, Call) and isinstance(node.kernel, ShortTranspose)
    return node if isinstance(node, Call) and is_short else None


def test_vectors_are_put_together() -> None:
    call = short_call(copied(TileAxis(100, (4, 12)), TileAxis(3, (400, 4))))
    assert call is not None
    assert call.kernel == ShortTranspose(element_bytes=4, side=3, lanes=16, joins=True)
    assert call.arguments == (100, 400, 1, 0, 0)


def test_rows_are_taken_apart_in_every_turn_of_a_loop() -> None:
    outer = TileAxis(50, (108, 200))
    call = short_call(copied(outer, TileAxis(9, (12, 4)), TileAxis(3, (4, 64))))
    assert call is not None
    assert call.kernel == ShortTranspose(element_bytes=4, side=3, lanes=8, joins=False)
    assert call.arguments == (9, 64, 50, 108, 200)


@pytest.mark.parametrize(
    "axes",
    [
        (TileAxis(100, (4, 28)), TileAxis(7, (400, 4))),
        (TileAxis(100, (4, 16)), TileAxis(3, (400, 4))),
        (TileAxis(100, (4, 12)), TileAxis(3, (0, 4))),
        (TileAxis(100, (12, 12)), TileAxis(3, (4, 4))),
    ],
    ids=["longer in the caches", "with gaps", "repeated", "in order"],
)
def test_others_are_copied_otherwise(axes: tuple[TileAxis, ...]) -> None:
    assert short_call(copied(*axes)) is None


def test_longer_sides_of_what_no_cache_holds_are_turned_too() -> None:
    call = short_call(copied(TileAxis(10**6, (4, 28)), TileAxis(7, (4 * 10**6, 4))))
    assert call is not None


def test_what_is_far_is_turned_too() -> None:
    rows = TileAxis(100, (12, 4)), TileAxis(3, (4, 1024))
    assert short_call(copied(*rows, brings=True)) == short_call(copied(*rows))


def test_a_vector_holds_two_elements_at_least() -> None:
    rows = TileAxis(100, (4, 12)), TileAxis(3, (400, 4))
    call = short_call(copied(*rows, isa=Isa.NEON))
    assert call is not None
    assert call.kernel == ShortTranspose(element_bytes=4, side=3, lanes=4, joins=True)


def test_of_two_short_axes_the_longer_fills_the_vectors() -> None:
    call = short_call(copied(TileAxis(4, (12, 4)), TileAxis(3, (4, 16))))
    assert call is not None
    assert call.kernel == ShortTranspose(element_bytes=4, side=3, lanes=4, joins=False)
