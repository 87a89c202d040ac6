"""Permutations of every second element, every third, and so on.

    out[b, a] = in[a, 2 b]:   for tiles: out[b, a] = in
                              for tiles: T[a, b] = in;  out[b, a] = T

Squares are turned of rows that are picked from a few vectors each; where elements lie farther apart
or fill no squares, tiles are made dense first. Large ones are one tile, which the lowering cuts.
Measured on Zen 4, drawn views of every second element, without scratch: 0.69 (FP64), 0.75 (FP32)
and 0.83 (FP16) of the time in the mean (0.3 to 1.3).
"""

from __future__ import annotations

from teir.ir.nodes import Tensor
from teir.passes.short_sides import SHORT_NEAR_SIDES
from teir.passes.stepped_rows import (
    FEWEST_IN_A_ROW,
    FEWEST_IN_A_SQUARE,
    TURNED_STEPS,
    WIDEST_BYTES,
)
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.pair_tiles import pair_blocks
from teir.search.permutations import FAR_BYTES, LARGE_BYTES
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step
from teir.search.tile_loops import emit_through_scratch, emit_tiles
from teir.target import LINE_BYTES

_FEWEST = 512
"""Elements that are worth two steps."""
_FEWEST_BESIDE_FEW = 8
"""Elements of a row that few elements of the other side meet: 1.1 to 3 times as long with fewer."""
_FEWEST_IN_LARGE, _NARROW_ROW_BYTES = 8, 16
"""Elements of a side of squares narrower than `WIDEST_BYTES` in what is large, up to 1.7 times as
long in smaller ones, and its bytes elsewhere."""
_FAR_WIDTH = 4
"""Narrower elements took up to 3.4 times as long in what is far."""
_LONG_ROW_BYTES = 192
"""Shorter rows of squares begin and end in lines of others, which a tile should have together."""
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


def fills_squares(step: Step, machine: Machine) -> bool:
    """True for what `is_stepped_turn` where kernels turn rows as they pick them, for which they
    need vectors of a line."""
    source, width = step.inputs[0], step.output.data_type.width
    first, last = innermost(step)
    step_bytes = first.stride(source.name)
    if not machine.writes_lines or first is last or step_bytes // width not in TURNED_STEPS:
        return False
    reads = [axis.stride(source.name) for axis in step.axes]
    if any(read % step_bytes or not read for read in reads):
        return False
    joins = _goes_on(first, last, step.output) and last.extent in SHORT_NEAR_SIDES
    shorter, longer = sorted((first.extent, last.extent))
    if joins or (_goes_on(last, first, source) and first.extent in SHORT_NEAR_SIDES):
        return longer >= _FEWEST_BESIDE_FEW
    if width == WIDEST_BYTES:
        return shorter >= FEWEST_IN_A_SQUARE
    if shorter < (_FEWEST_IN_LARGE if _size(step) >= LARGE_BYTES else _NARROW_ROW_BYTES // width):
        return False
    return width >= _FAR_WIDTH if is_far_turn(step) else _has_own_lines(step)


def is_far_turn(step: Step) -> bool:
    """True for what is one tile of all axes, which the lowering cuts as it does dense ones."""
    return _size(step) >= FAR_BYTES


def _size(step: Step) -> int:
    return extent_of(step.axes) * step.output.data_type.width


def innermost(step: Step) -> tuple[Span, Span]:
    """The innermost axes of the input and of the output."""
    first, last = (outermost_first(step.axes, one)[-1] for one in (step.inputs[0], step.output))
    return first, last


def _goes_on(outer: Span, inner: Span, tensor: Tensor) -> bool:
    """True where one step of ``outer`` leads where ``inner`` ends."""
    return outer.stride(tensor.name) == inner.extent * inner.stride(tensor.name)


def _has_own_lines(step: Step) -> bool:
    """True where the rows of a square do not begin and end in lines of other squares.

    Narrow elements took up to 2.5 times as long as dense tiles of several axes.
    """
    source = step.inputs[0]
    first, last = innermost(step)
    if first.extent * first.stride(source.name) >= _LONG_ROW_BYTES:
        return True
    return not any(_goes_on(axis, first, source) for axis in step.axes if axis is not last)


def emit_dense_turn(emission: Emission, step: Step, machine: Machine) -> Body:
    """The nodes of what `is_stepped_turn`, tiles made dense first."""
    (source,), target = step.inputs, step.output

    def inside(tile: tuple[Span, ...]) -> Body:
        return emit_through_scratch(emission, step, "dense", outermost_first(tile, source))

    return emit_tiles(emission, step, target, pair_blocks(step, target, source), machine, inside)
