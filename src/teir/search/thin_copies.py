"""Permutations of one short and one long side, which squares turn without scratch at any size.

All lines of a few rows that are read or written side by side stay in the first cache, and whole
runs of the other side follow one another: a tile in scratch only costs a second copy. Measured on
Golden Cove, one thread, 8 to 96 MB: 0.2 to 0.9 of the time up to 24 elements; up to 64 as long as
input and output are near the second cache, 0.65 to 1.0 (beyond it 1.0 to 2.9).
"""

from __future__ import annotations

from teir.search.machine import Machine
from teir.search.shape import extent_of
from teir.search.step import Step

_MOST_AXES = 3
_MOST = 24
_MOST_BYTES = 192
"""Elements of the short side of any permutation, and their bytes."""
_MOST_NEAR_BYTES = 512
_SECOND_CACHES = 5
"""The short side of a permutation whose input and output take at most so many second caches."""
_LONG = 16
"""Times the long side is longer: shorter ones end after few squares."""


def is_thin(step: Step, machine: Machine) -> bool:
    """True for a permutation of one input, alone or in a batch, with one short side.

    Not where processors follow many rows: large permutations were not measured there.
    """
    (source,), target = step.inputs, step.output
    width = target.data_type.width
    if not machine.follows_few_rows or len(step.axes) > _MOST_AXES:
        return False
    names = (source.name, target.name)
    sides = [axis for axis in step.axes if width in map(axis.stride, names)]
    if len(sides) != 2 or any(axis.stride(name) == 0 for axis in step.axes for name in names):
        return False
    reach = max(axis.extent * max(map(axis.stride, names)) for axis in sides)
    if any(min(map(axis.stride, names)) < reach for axis in step.axes if axis not in sides):
        return False
    short, long = sorted(axis.extent for axis in sides)
    if long < _LONG * short:
        return False
    near = 2 * extent_of(step.axes) * width <= _SECOND_CACHES * machine.l2_bytes
    is_short = short <= _MOST and short * width <= _MOST_BYTES
    return is_short or (near and short * width <= _MOST_NEAR_BYTES)
