"""Permutations of every second element, every third, and so on: made dense tile by tile.

    out[b, a] = in[a, 2 b]:   for tiles: T[a, b] = in;  out[b, a] = T

Squares are turned of whole vectors; in one step each element would be moved alone.
"""

from __future__ import annotations

from teir.ir.nodes import Tensor
from teir.passes.stepped_rows import FEWEST_IN_A_ROW, WIDEST_BYTES
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.pair_tiles import pair_blocks
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step
from teir.search.tile_loops import emit_through_scratch, emit_tiles
from teir.target import LINE_BYTES

_FEWEST = 512
"""Elements that are worth two steps."""
_LONG_ROW = 8
"""Elements of a row of the output that is picked from the input in one step."""


def stepped_row(tensor: Tensor, step: Step) -> Span | None:
    """The innermost axis of a tensor where its elements lie apart, but in one line, and some follow
    one another so."""
    name, width, step_bytes = tensor.name, tensor.data_type.width, 0
    for axis in step.axes:
        stride = axis.strides.get(name)
        if stride is None:
            continue
        if stride <= width:
            return None
        step_bytes = min(stride, step_bytes or stride)
    if not 0 < step_bytes <= LINE_BYTES // 2 or step_bytes % width or width > WIDEST_BYTES:
        return None
    axes = outermost_first([axis for axis in step.axes if name in axis.strides], tensor)
    end = step_bytes
    for axis in reversed(axes):
        if axis.stride(name) != end:
            break
        end *= axis.extent
    return axes[-1] if end >= FEWEST_IN_A_ROW * step_bytes else None


def is_stepped_turn(step: Step) -> bool:
    """True for a permutation of an input read in steps along another axis than the output has."""
    (source,), target = step.inputs, step.output
    row, width = stepped_row(source, step), target.data_type.width
    if row is None or source.data_type is not target.data_type:
        return False
    if extent_of(step.axes) < _FEWEST or any(axis.offsets for axis in step.axes):
        return False
    if min(axis.stride(target.name) for axis in step.axes) != width:
        return False
    return row.stride(target.name) > width or row.extent < _LONG_ROW


def emit_stepped_turn(emission: Emission, step: Step, machine: Machine) -> Body:
    """The nodes of what `is_stepped_turn`."""
    (source,), target = step.inputs, step.output

    def inside(tile: tuple[Span, ...]) -> Body:
        return emit_through_scratch(emission, step, "dense", outermost_first(tile, source))

    return emit_tiles(emission, step, target, pair_blocks(step, target, source), machine, inside)
