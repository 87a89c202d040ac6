"""Results in short runs that rows of one operand and of the other take turns in.

    out[x, n, y, m] = sum of A[x, y, k] * B[m, n, k], m a few:
    T[n, m, x, y] = product with the rows of one operand side by side;  out = T

Written where they belong, such results leave vectors empty, and each of their lines is met by many
tiles. Whether it is better to move them once more depends on all extents, so the programs of both
are compared by `teir.search.model`, with assumed speeds: what is chosen depends on no measurement.

Measured on Zen 4, drawn products of up to four axes of 2 to 40 on each side, those whose program
changed: 0.09 to 1.13 of the time, 0.63 (FP64) and 0.52 (FP32) in the mean; 0.29 to 1.23, 0.7, of
complex numbers; 0.06 to 2.5, 0.32 (BF16) and 0.47 (FP16).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from teir.search.emission import Emission
from teir.search.in_parts import (
    EmitStep,
    InParts,
    axes_of,
    emit_in_parts,
    in_parts,
    is_batch,
    moved_to,
    repeats_of,
    starts_where_it_moves,
)
from teir.search.machine import Machine, assumed_speeds
from teir.search.model import predict
from teir.search.shape import ProductShape, extent_of, outermost_first
from teir.search.shared_lines import row_run_bytes
from teir.search.step import Span, Step
from teir.target import LINE_BYTES

_GAIN = 1.5
"""How many times as long the program that writes them at once is expected to take, at least."""
_FEWEST_PRODUCTS = 1 << 17
"""Of a step that is worth comparing programs of."""
_SHORT_SUM = 2
"""Products of a result below which moving it costs more than they do."""


def alternating_result(
    emission: Emission, step: Step, shape: ProductShape, machine: Machine, emit: EmitStep
) -> InParts | None:
    """The step with its result in another order, then moved; None where that pays less.

    ``emit`` makes the step as it is, or the product before the copy. The programs are compared as
    one thread runs them.
    """
    if not _may_alternate(step, shape):
        return None
    alone = replace(machine, threads=1)
    best, least = None, _seconds(step, None, alone, emit) / _GAIN
    for order in _orders(step):
        taken = _seconds(step, order, alone, emit)
        if taken < least:
            best, least = order, taken
    return None if best is None else _moved(emission, step, best)


def _may_alternate(step: Step, shape: ProductShape) -> bool:
    """True for products of some size whose results lie in runs shorter than a line, no axis of them
    repeated: one that no input moves is on no side, and would be summed over."""
    if extent_of(step.axes) < _FEWEST_PRODUCTS or extent_of(shape.k) < _SHORT_SUM:
        return False
    if repeats_of(step):
        return False
    return row_run_bytes(shape) < LINE_BYTES and starts_where_it_moves(step)


def _orders(step: Step) -> Iterator[tuple[Span, ...]]:
    """Batches, then the rows of one operand, then those of the other, each as the result has
    them."""
    out = step.output
    free = outermost_first(axes_of(out, step), out)
    batches = [axis for axis in free if is_batch(axis, step)]
    sides = [
        [axis for axis in free if axis not in batches and axis.stride(tensor.name)]
        for tensor in step.inputs
    ]
    for first, last in (sides, sides[::-1]):
        order = (*batches, *first, *last)
        if list(order) != list(free):
            yield order


def _moved(emission: Emission, step: Step, order: tuple[Span, ...]) -> InParts:
    return in_parts(step, step.axes, [moved_to(emission, step.output, "ordered", order)])


def _seconds(step: Step, order: tuple[Span, ...] | None, machine: Machine, emit: EmitStep) -> float:
    """What the model expects of the step, its result made in this order; None: as it lies."""
    emission = Emission()
    tensors = (*step.inputs, step.output)
    for tensor in tensors:
        emission.name(tensor.name)
    if order is None:
        body = emit(emission, step, machine)
    else:
        body = emit_in_parts(emission, _moved(emission, step, order), machine, emit)
    speeds = assumed_speeds(machine.vector_bytes, machine.l3_bytes)
    return predict(emission.program("", tensors, body), machine, speeds).seconds
