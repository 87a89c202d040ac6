"""Permutations that are read as streams and written past the caches though a cache would hold them.

Where the third cache is slow for one core, what leaves the second costs about as much as memory. A
tile of squares then waits for one line after another of many rows: on Golden Cove permutations of
1.3 to 6 MB took 0.2 to 0.65 of the time as streams, and 0.5 to 1.0 of it with a read of the result.
Stored to the caches line by line they took as long as squares.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.passes.long_sides import long_sides
from teir.search.machine import Machine
from teir.search.shape import extent_of
from teir.search.shared_permutations import Shared
from teir.search.step import Span, Step
from teir.target import LINE_BYTES

_SECOND_CACHES = 1.25
_SECOND_CACHES_OF_LONG = 1.5
"""Input and output together, in second caches, from which this pays: below, reading the result
takes longer than is gained. Squares of elements of 16 bytes store whole lines and wait less."""
_SECOND_CACHES_UNALIKE = 1.04
"""The same where rows of the result begin at different places of a line: squares store across
lines, in 1.4 to 3.5 times the time of streams, and in 0.8 to 1.4 with a read of the result."""
_LONG_BYTES = 16
_NO_MORE = (1, 1)
"""Sides grow no further than to be long."""


class _Axis(msgspec.Struct, frozen=True, gc=False):
    extent: int
    strides: tuple[int, ...]


def _is_unit(axis: Span, step: Step) -> bool:
    """True for the axis along which the result is adjacent."""
    return axis.stride(step.output.name) == step.output.data_type.width


def is_streamed(step: Step, machine: Machine) -> bool:
    """True for a permutation of long sides that the second cache does not hold."""
    target = step.output
    width = target.data_type.width
    work = extent_of(step.axes)
    if not machine.follows_few_rows:
        return False
    caches = _SECOND_CACHES_OF_LONG if width >= _LONG_BYTES else _SECOND_CACHES
    if any(axis.stride(target.name) % LINE_BYTES for axis in step.axes if not _is_unit(axis, step)):
        caches = _SECOND_CACHES_UNALIKE
    if 2 * work * width < caches * machine.l2_bytes:
        return False
    return _has_long_sides(step, step.axes)


def shared_blocks(step: Step, threads: int) -> Shared | None:
    """The axis of which every thread takes one block, each of long sides; None where none is left.

    The farthest in the result that serves, so that threads write apart.
    """
    for axis in sorted(step.axes, key=lambda one: one.stride(step.output.name), reverse=True):
        if axis.extent < threads:
            continue
        shared = Shared(axis, axis.extent // threads)
        _, block = axis.split(shared.part)
        if _has_long_sides(step, [block if one is axis else one for one in step.axes]):
            return shared
    return None


def _has_long_sides(step: Step, axes: Sequence[Span]) -> bool:
    names = (step.inputs[0].name, step.output.name)
    sides = [_Axis(axis.extent, tuple(map(axis.stride, names))) for axis in axes]
    return long_sides(sides, step.output.data_type.width, _NO_MORE) is not None
