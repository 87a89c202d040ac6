"""Which axis of a permutation threads share.

    parallel t over parts of an axis { the permutation of a part }
    the permutation of what is left, if anything

The axis is one whose parts lie in long pieces in the input and in the output: threads that read or
write short pieces meet each other's lines and pages. As few parts as finish soonest: a thread that
makes several walks over the pages of all of them.
"""

from __future__ import annotations

import msgspec

from teir.ir.nodes import Tensor
from teir.passes.parallelise import CHUNKS, waited_for
from teir.search.step import Span, Step, is_adjacent

_PIECE_BYTES = 512
"""Bytes of a piece that takes twice its time."""
_RUN = 16
"""Indices of a part of an adjacent axis, or a multiple: squares are full."""


class Shared(msgspec.Struct, frozen=True, gc=False):
    """The axis that threads share, and how many of its indices one part takes."""

    axis: Span
    part: int


def shared_parts(step: Step, threads: int) -> Shared:
    """The axis that all threads together finish soonest, the farthest in the output of equals."""
    out = step.output.name
    axes = sorted(step.axes, key=lambda axis: axis.stride(out), reverse=True)
    found = [Shared(axis, _part(axis, step, threads)) for axis in axes]
    return min(found, key=lambda one: _cost(one, step, threads))


def _part(axis: Span, step: Step, threads: int) -> int:
    """Indices of the parts that end soonest, the fewest parts of equals."""
    granule = _RUN if any(is_adjacent(axis, one) for one in _tensors(step)) else 1
    best = axis.extent
    for count in range(min(threads, axis.extent), CHUNKS * threads + 1):
        part = axis.extent // count
        if part > granule:
            part -= part % granule
        if part and waited_for(axis.extent, part, threads) < waited_for(axis.extent, best, threads):
            best = part
    return best


def _cost(shared: Shared, step: Step, threads: int) -> float:
    extent = shared.axis.extent
    piece_bytes = min(shared.part * shared.axis.stride(one.name) for one in _tensors(step))
    waits = waited_for(extent, shared.part, threads) / extent
    return waits * (1 + _PIECE_BYTES / piece_bytes)


def _tensors(step: Step) -> tuple[Tensor, ...]:
    return (*step.inputs, step.output)
