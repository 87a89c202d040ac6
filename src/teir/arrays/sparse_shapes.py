"""Shapes and formats of sparse arrays as callers give them: as values, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from teir.arrays.integers import listed
from teir.arrays.levels import FORMAT, Format, parse_format, usual_levels
from teir.arrays.sparse_rules import SHAPE
from teir.errors import refuse, shown


def checked_shape(shape: Sequence[int], name: str = "shape") -> tuple[int, ...]:
    """Raises TeirError (TEIR671) at ``name``."""
    try:
        extents = tuple(index(extent) for extent in shape)
    except TypeError:
        refuse(SHAPE, name, "a sequence of integers", shown(shape))
    if not all(0 <= extent < 2**62 for extent in extents):
        refuse(SHAPE, name, "extents from 0 to 2^62", listed(extents))
    return extents


def checked_format(
    levels: str | None, mode_order: Sequence[int] | None, shape: Sequence[int], stored: int = 0
) -> Format:
    """Levels and order as a value, the usual levels by default. Raises TeirError.

    ``stored`` says how many values there are.
    """
    rank = len(shape)
    order = None if mode_order is None else _checked_order(mode_order, rank)
    if levels is None:
        extents = shape if order is None else [shape[mode] for mode in order]
        levels = usual_levels(extents, stored)
    if not isinstance(levels, str):
        refuse(FORMAT, "levels", "a text such as 'dss'", shown(levels))
    letters = levels if order is None else f"{levels}:{','.join(map(str, order))}"
    fmt = parse_format(letters if rank else "", "levels")
    if len(fmt.levels) != rank:
        refuse(FORMAT, "levels", f"{rank} levels, one per axis", repr(letters))
    return fmt


def _checked_order(mode_order: Sequence[int], rank: int) -> tuple[int, ...]:
    expected = f"the axes 0 to {rank - 1} in any order"
    try:
        order = tuple(index(mode) for mode in mode_order)
    except TypeError:
        refuse(FORMAT, "mode_order", expected, shown(mode_order))
    if sorted(order) != list(range(rank)):
        refuse(FORMAT, "mode_order", expected, listed(order))
    return order
