"""Permutations of few elements in a row on both sides, in two steps through scratch.

    in[s, x, y] -> out[y, x, s], s and y a few:  T[x, y, s] = in;  out = T, row by row of s
    in[x, y, s] -> out[s, y, x]:                 T[y, x, s] = in, row by row of s;  out = T

The few elements of one side meet a run of several axes of the other, which fills vectors; what is
left moves whole rows of them. In one step each element would be moved alone. Measured on Zen 4,
drawn permutations of less than 3 MB: 0.12 to 1.5 of the time, in the mean 0.35 (FP32) and 0.7
(FP64).
"""

from __future__ import annotations

import msgspec

from teir.ir.nodes import Tensor
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.pair_tiles import Blocks, pair_blocks
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step, is_adjacent
from teir.search.tile_loops import emit_through_scratch, emit_tiles

_FEW = 16
"""Elements of a row of either side by each other up to which their squares are mostly empty."""
_LONG_RUN = 16
"""Elements that follow one another on the other side and fill vectors."""
_FEWEST = 512


class TwoTurns(msgspec.Struct, frozen=True, gc=False):
    """A permutation in tiles; the few elements next to each other on the output come first where
    it ``is_joined``, else those on the input come last."""

    step: Step
    blocks: Blocks
    is_joined: bool


def two_turns_of(step: Step) -> TwoTurns | None:
    """The step as two turns; None where either side has longer rows, one turn does, or nothing
    fills vectors."""
    (source,), target = step.inputs, step.output
    if extent_of(step.axes) < _FEWEST or any(axis.offsets for axis in step.axes):
        return None
    along_input, along_output = (outermost_first(step.axes, one) for one in (source, target))
    first, last, width = along_input[-1], along_output[-1], target.data_type.width
    if first is last or first.extent * last.extent > _FEW:
        return None
    one_turn = (
        first.stride(target.name) == last.extent * width
        or last.stride(source.name) == first.extent * width
    )
    if one_turn:
        return None
    blocks = pair_blocks(step, target, source)
    joined = _run(along_input, last, source, blocks)
    split = _run(along_output, first, target, blocks)
    if max(joined, split) < _LONG_RUN:
        return None
    return TwoTurns(step, blocks, joined >= split)


def _run(axes: tuple[Span, ...], few: Span, tensor: Tensor, blocks: Blocks) -> int:
    """Elements of a tile that follow one another along the innermost of these axes but one."""
    run, end = 1, tensor.data_type.width
    for axis in reversed(axes):
        if axis is few or axis.stride(tensor.name) != end:
            break
        run *= blocks.get(id(axis), 1)
        if blocks.get(id(axis)) != axis.extent:
            break
        end *= axis.extent
    return run


def emit_two_turns(emission: Emission, turns: TwoTurns, machine: Machine) -> Body:
    """The nodes of a step that `two_turns_of` recognised."""
    step = turns.step
    (source,), target = step.inputs, step.output
    few, many = (target, source) if turns.is_joined else (source, target)

    def inside(tile: tuple[Span, ...]) -> Body:
        others = [axis for axis in tile if not is_adjacent(axis, few)]
        nearest = [axis for axis in tile if is_adjacent(axis, few)]
        return emit_through_scratch(
            emission, step, "rows", (*outermost_first(others, many), *nearest)
        )

    return emit_tiles(emission, step, target, turns.blocks, machine, inside)
