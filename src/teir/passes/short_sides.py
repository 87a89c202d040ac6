"""Permutations of many short axes: tiles of two axes are too small for a call."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

SHORT_NEAR_SIDES = range(2, 7)
"""Short sides of copies that stay in the caches: longer ones are turned in squares as soon."""
FEWEST_AXES = 5
_SHORT = 8
"""Where the axes of unit stride on both sides are shorter, a tile of the two holds 49 elements."""
_FEWEST_ELEMENTS = 1024


def may_be_short(extents: Sequence[int]) -> bool:
    """True for as many axes and elements as tiles of two axes are too small for."""
    return len(extents) >= FEWEST_AXES and prod(extents) >= _FEWEST_ELEMENTS


def has_short_sides(extents: Sequence[int], unit_in: int, unit_out: int) -> bool:
    """True for many axes of which the two of unit stride on input and output are short."""
    return unit_in < _SHORT and unit_out < _SHORT and may_be_short(extents)
