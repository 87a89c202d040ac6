"""What may be chosen for one matrix-like step: the default, and what may be faster."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from teir.search.choice import Choice, Order, Packing, Sharing
from teir.search.default_choice import default_choice
from teir.search.machine import Machine
from teir.search.shape import ProductShape

_BLOCKS = ((2, 12), (3, 8), (4, 6))
_BLOCKS_OF_FEW = ((1, 11), (2, 6), (3, 4))
"""Vectors and columns of the register blocks that are tried; and in few registers."""


def choices(shape: ProductShape, machine: Machine) -> Iterator[Choice]:
    """The default, then the alternatives that may be faster, each once."""
    first = default_choice(shape, machine)
    seen = {first}
    yield first
    for other in _alternatives(first, shape, machine):
        if other not in seen:
            seen.add(other)
            yield other


def _alternatives(first: Choice, shape: ProductShape, machine: Machine) -> Iterator[Choice]:
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    if shape.m is not None:
        yield from (replace(first, packed_a=packing) for packing in Packing)
    if shape.n is not None:
        yield from (replace(first, packed_b=one) for one in (Packing.NONE, Packing.WHOLE))
    if first.sharing is Sharing.NONE:
        yield from (replace(first, order=order) for order in Order)
    yield replace(first, depth=first.depth // 2)
    for vectors, columns in _BLOCKS_OF_FEW if machine.has_few_registers else _BLOCKS:
        yield replace(first, panel=vectors * lanes, column_block=columns)
    if machine.writes_lines:
        yield replace(first, streams=not first.streams)
