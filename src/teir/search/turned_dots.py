"""Sums of products of two tensors that lie turned to each other: ``ik,ki->``, traces of products.

    parallel blocks of i { copy the block of the second input, turned; Contraction K=[i, k] lanes }
    zero; Contraction K=[block]

Every block is summed apart, and the sums are added in order, so the result does not depend on the
threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.ir.nodes import Operation, Tensor
from teir.search.dots import LONG_LANES_BYTES, lane_count, sum_of_pieces
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.shape import extent_of
from teir.search.step import Span, Step
from teir.target import rows_apart

_BLOCK = 64
_BLOCK_BYTES = 2**19
"""Rows of a block and its bytes at most. No fact of the machine: blocks decide the rounding."""
_FEWEST = 1024
"""Products from which turning an input first is worth a copy."""


@dataclass(frozen=True, slots=True)
class TurnedDot:
    """A sum of all products: ``along`` is adjacent on the first input, ``across`` on the second."""

    step: Step
    along: Span
    across: Span
    outer: tuple[Span, ...]


def turned_dot_of(step: Step) -> TurnedDot | None:
    """The step as a turned dot; None for every other step."""
    if len(step.inputs) != 2 or len(step.reductions) != len(step.axes):
        return None
    if extent_of(step.axes) < _FEWEST:
        return None
    first, second = step.inputs
    along = next((axis for axis in step.axes if _is_adjacent_only(axis, first, second)), None)
    across = next((axis for axis in step.axes if _is_adjacent_only(axis, second, first)), None)
    if along is None or across is None:
        return None
    outer = tuple(axis for axis in step.axes if axis is not along and axis is not across)
    return TurnedDot(step, along, across, outer)


def _is_adjacent_only(axis: Span, near: Tensor, far: Tensor) -> bool:
    return axis.stride(near.name) == near.data_type.width < axis.stride(far.name)


def emit_turned_dot(emission: Emission, dot: TurnedDot, machine: Machine) -> Body:
    """The nodes of a step that `turned_dot_of` recognised."""
    first, second = dot.step.inputs
    width = second.data_type.width
    row_bytes = rows_apart(dot.along.extent * width)
    block = max(1, min(_BLOCK, _BLOCK_BYTES // row_bytes))
    lanes = lane_count(LONG_LANES_BYTES, dot.step.output.data_type, dot.along)

    def part(tile: Span, parts: str) -> Body:
        turned = Tensor(name=emission.name(f"{second.name}_turned"), data_type=second.data_type)
        along, across = dot.along.on(turned.name, width), tile.on(turned.name, row_bytes)

        def one() -> Body:
            roles = Roles(m=(across,), n=(along,))
            copy = emission.leaf(Operation.COPY, (second.name,), turned.name, roles)
            return copy + emission.leaf(
                Operation.CONTRACTION,
                (first.name, turned.name),
                parts,
                Roles(k=(across, along)),
                data_type=first.data_type,
                lanes=lanes,
            )

        body = emission.loops(dot.outer, one, parallel=False)
        return Body(body.nodes, (*body.scratch, turned))

    return sum_of_pieces(emission, dot.step, cut(dot.across, block), machine, part)
