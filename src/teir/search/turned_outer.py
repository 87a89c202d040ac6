"""Products without sums of an operand that lies turned to short rows of results, tile by tile.

    out[x, y] = A[y, x] * B[y], y a few:
    tiles { A' = tile of A, laid as the result lies;  B' = B, repeated along some rows of results;
            out = A' * B' }

Such results would be made a few at a time, and A read element by element. Measured on Zen 4, drawn
outer products: 0.3 to 1.4 of the time, in the mean 0.8.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.search.copies import emit_copy
from teir.search.elementwise import emit_product
from teir.search.emission import Body, Emission
from teir.search.in_parts import in_parts, moved_to, starts_where_it_moves
from teir.search.machine import Machine
from teir.search.pair_tiles import pair_blocks
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step, is_adjacent, normalise
from teir.search.tile_loops import emit_tiles

_FEWEST_BYTES = 1 << 16
"""Of the results, from which tiles pay."""
_SHORT_ROW = 12
"""Results next to each other that leave vectors empty; for longer rows an operand is turned in
squares beside the product (`teir.search.elementwise`)."""
_LONG_ROW = 32
"""Factors next to each other, or one for so many results, that are read where they are."""
_REPEATED, _MOST_REPEATED = 64, 512
"""Factors of a row that are laid side by side where they are not, and those from which the same one
is not laid once more: there are then rows enough for each."""


def turned_operand(step: Step) -> Tensor | None:
    """The operand that moves with every result and lies turned to them, of a product without sums
    of short rows of results; None for all others."""
    out, element = step.output, step.output.data_type
    if len(step.inputs) != 2 or step.reductions or len(step.axes) < 2:
        return None
    if element is DataType.TF32 or any(one.data_type is not element for one in step.inputs):
        return None
    if extent_of(step.axes) * element.width < _FEWEST_BYTES or not starts_where_it_moves(step):
        return None
    along = outermost_first(step.axes, out)[-1]
    if along.extent >= _SHORT_ROW:
        return None
    for tensor in step.inputs:
        moves_always = all(axis.stride(tensor.name) for axis in step.axes)
        if moves_always and outermost_first(step.axes, tensor)[-1] is not along:
            return tensor
    return None


def emit_turned_operand(emission: Emission, step: Step, turned: Tensor, machine: Machine) -> Body:
    """The nodes of a step in which `turned_operand` found one."""
    out = step.output
    (other,) = (one for one in step.inputs if one is not turned)
    blocks = pair_blocks(step, out, turned)
    alone = replace(machine, threads=1)

    def inside(tile: tuple[Span, ...]) -> Body:
        order = outermost_first(tile, out)
        moved = [moved_to(emission, turned, "turned", order)]
        repeated = _repeated(other, order)
        if repeated is not None:
            moved.append(moved_to(emission, other, "repeated", repeated))
        part = in_parts(step, tile, moved)
        body = Body()
        for copy in part.before:
            body += emit_copy(emission, normalise(copy), alone)
        body += emit_product(emission, normalise(part.product), alone)
        return Body(body.nodes, (*body.scratch, *part.scratch))

    return emit_tiles(emission, step, out, blocks, machine, inside)


def _repeated(other: Tensor, order: Sequence[Span]) -> tuple[Span, ...] | None:
    """The axes of a copy that has a row of factors side by side; None where the operand has."""
    nearest = order[-1]
    is_row = is_adjacent(nearest, other) or not nearest.stride(other.name)
    if is_row and nearest.extent >= _LONG_ROW:
        return None
    row: list[Span] = []
    for axis in reversed(order):
        is_too_long = extent_of((*row, axis)) > _MOST_REPEATED and not axis.stride(other.name)
        if extent_of(row) >= _REPEATED or is_too_long:
            break
        row.append(axis)
    return tuple(axis for axis in order if axis in row or axis.stride(other.name))
