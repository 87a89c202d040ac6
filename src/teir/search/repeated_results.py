"""Sums of products that results repeat along an axis which no input moves.

    out[a, b] = sum of A[a, k] * B[k], b is moved by nothing else:
    T[a] = product;  out = T

Formed where they belong, every repetition would be a row of its own: the sum is formed again for
each, and an operand is packed as often as it is repeated, which took gigabytes of scratch.
"""

from __future__ import annotations

from teir.search.emission import Emission
from teir.search.in_parts import (
    InParts,
    axes_of,
    in_parts,
    moved_to,
    repeats_of,
    starts_where_it_moves,
)
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Step

_FEWEST = 4
"""Repetitions beside which writing the results once more, and reading them, is little."""


def repeated_result(emission: Emission, step: Step) -> InParts | None:
    """The step without the axes that repeat its result, which is copied along them afterwards.

    None for other steps than sums of products, and where there are few repetitions.
    """
    if len(step.inputs) != 2 or not step.reductions:
        return None
    out = step.output
    repeats = repeats_of(step)
    if extent_of(repeats) < _FEWEST or not starts_where_it_moves(step):
        return None
    moved = [axis for axis in axes_of(out, step) if axis not in repeats]
    once = moved_to(emission, out, "once", outermost_first(moved, out))
    axes = [axis for axis in step.axes if axis not in repeats]
    parts = in_parts(step, axes, [once])
    (copy,) = parts.after
    along = tuple(axis.only(out.name) for axis in repeats)
    whole = Step(copy.inputs, copy.output, (*copy.axes, *along), step.is_kept)
    return InParts((), (), parts.product, (whole,), parts.scratch)
