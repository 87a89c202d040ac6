"""Which rows of every second element, every third and so on are picked as vectors."""

from __future__ import annotations

FEWEST_IN_A_ROW = 4
"""Elements that are worth a vector."""
WIDEST_BYTES = 8
"""Wider elements are read one by one as soon."""
TURNED_STEPS = range(2, 5)
"""Elements from one to the next in rows of which squares are turned as they are picked."""
FEWEST_IN_A_SQUARE = 4
"""Elements of a side of such a square."""
