"""Sums over axes on both sides of those that stay: far ones first, then the near ones.

    out[x] = sum over k, r of A[k, x, r]:  T[x, r] = sum over k of whole rows;
                                           out[x] = sum over r of T
    out[x] = sum of A[k, x, r] * w[k]:     T[x, r] = sum over k of A * w;  out[x] = sum over r of T
    out[x] = sum of A[k, x, r] * w[r]:     T[x, r] = sum over k of A;  out[x] = sum over r of T * w

Rows come in the order they lie in, while T waits in the second cache, in the type that sums are
formed in. Otherwise every result gathers short pieces far apart. Measured on Zen 4, drawn sums:
0.11 to 1.4 of the time, in the mean 0.48 (FP32), 0.63 (FP64) and 0.54 (BF16, FP16); with weights,
from 4 MB on, 0.06 to 1.14, in the mean 0.72 and 0.80.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.search.emission import Body, Emission
from teir.search.in_parts import EmitStep, axes_of, starts_where_it_moves
from teir.search.machine import BEYOND_L2, Machine
from teir.search.shape import dense, extent_of, outermost_first
from teir.search.step import Span, Step, elements_of

_FEWEST_ROWS = 8
"""Rows that repay writing and reading their sum."""
_LONGEST_PIECE_BYTES = 8192
"""Longer pieces are read as fast where they lie."""


def near_sums_of(step: Step, machine: Machine) -> tuple[Span, ...]:
    """The reductions inside all axes that stay, where the others are better summed before; none
    for other steps."""
    operand = _summed(step) if step.reductions else None
    if operand is None or not starts_where_it_moves(step):
        return ()
    kind, free = step.output.data_type, axes_of(step.output, step)
    if any(one.data_type is not kind for one in step.inputs) or not _adds_up(kind):
        return ()
    nearest = min(axis.stride(operand.name) for axis in free)
    near = tuple(axis for axis in step.reductions if axis.stride(operand.name) < nearest)
    rows = extent_of(step.reductions) // extent_of(near)
    piece_bytes = extent_of(near) * kind.accumulator.width
    if not near or rows < _FEWEST_ROWS or piece_bytes > _LONGEST_PIECE_BYTES:
        return ()
    far = [axis for axis in step.reductions if axis not in near]
    if len(step.inputs) > 1 and not _is_worth_weights(step, operand, (near, far), machine):
        return ()
    return near if extent_of(free) * piece_bytes <= machine.l2_bytes else ()


def _adds_up(kind: DataType) -> bool:
    """True for a type whose sums scratch can hold: its own, or the wider one of narrow types."""
    return kind.accumulator is kind or kind.is_narrow


def _is_worth_weights(
    step: Step, operand: Tensor, sides: Sequence[Sequence[Span]], machine: Machine
) -> bool:
    """True where the other input has axes of one side alone, and the operand comes from afar:
    with weights of both sides, or near, sums took up to seven times as long."""
    (weights,) = (one for one in step.inputs if one is not operand)
    weighted = [any(axis.stride(weights.name) for axis in side) for side in sides]
    moves_all = all(axis.stride(operand.name) for axis in step.axes)
    size_bytes = elements_of(operand, step) * operand.data_type.width
    return moves_all and weighted.count(True) == 1 and size_bytes >= BEYOND_L2 * machine.l2_bytes


def _summed(step: Step) -> Tensor | None:
    """The only input, or the one of two that all axes of the result move and the other none."""
    free = axes_of(step.output, step)
    moving = [one for one in step.inputs if any(axis.stride(one.name) for axis in free)]
    if len(step.inputs) > 2 or len(moving) != 1:
        return None
    return moving[0] if all(axis.stride(moving[0].name) for axis in free) else None


def emit_summed_twice(
    emission: Emission, step: Step, near: Sequence[Span], machine: Machine, emit: EmitStep
) -> Body:
    """The sum over the others, in scratch, then that over ``near``; ``emit`` makes each."""
    operand, out = _summed(step), step.output
    assert operand is not None
    kind = out.data_type.accumulator
    sums = Tensor(name=emission.name(f"{operand.name}_sums"), data_type=kind)
    kept = outermost_first([*axes_of(out, step), *near], operand)
    strides = dense(kept, kind.width)
    far = [axis for axis in step.reductions if axis not in near]
    weights = [one for one in step.inputs if one is not operand]
    early = [one for one in weights if any(axis.stride(one.name) for axis in far)]
    late = [one for one in weights if one not in early]

    def summed(inputs: Sequence[Tensor], target: Tensor, summed_axes: Sequence[Span]) -> Body:
        names = [one.name for one in (*inputs, target) if one is not sums]
        on_sums = [axis.only(*names).on(sums.name, strides[id(axis)]) for axis in kept]
        axes = (*on_sums, *[axis.only(*names) for axis in summed_axes])
        is_kept = target is sums or step.is_kept
        return emit(emission, Step(tuple(inputs), target, axes, is_kept), machine)

    body = summed((operand, *early), sums, far) + summed((sums, *late), out, ())
    return Body(body.nodes, (*body.scratch, sums))
