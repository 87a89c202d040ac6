"""Choices as data: everything random is drawn through one function over a range of integers.

The same generators are driven by a seeded `random.Random` in long runs and by hypothesis in the
test suite, which then shrinks a failure to small numbers. Smaller numbers mean simpler choices.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

DrawInt = Callable[[int, int], int]
"""``draw(low, high)`` is an integer with ``low <= value <= high``."""


def seeded(seed: int) -> DrawInt:
    """Draws of ``random.Random(seed)``."""
    return random.Random(seed).randint


def choose(draw: DrawInt, items: Sequence[Item]) -> Item:
    """One of ``items``; the first is the simplest."""
    return items[draw(0, len(items) - 1)]


def chance(draw: DrawInt, percent: int) -> bool:
    """True in ``percent`` of a hundred draws."""
    return draw(0, 99) >= 100 - percent


def shuffled(draw: DrawInt, items: Sequence[Item]) -> tuple[Item, ...]:
    """``items`` in another order; all-zero draws keep it."""
    rest = list(items)
    return tuple(rest.pop(draw(0, len(rest) - 1)) for _ in items)


def subset(draw: DrawInt, items: Sequence[Item], percent: int) -> tuple[Item, ...]:
    """Each item with a chance of ``percent``, in order."""
    return tuple(item for item in items if chance(draw, percent))
