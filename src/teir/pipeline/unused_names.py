"""Names for what a plan adds to the tensors and indices of the user's statement."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count


def unused_name(wish: str, taken: Collection[str]) -> str:
    """``wish``, or the first of ``wish_2``, ``wish_3`` ... that is not taken."""
    if wish not in taken:
        return wish
    return next(name for number in count(2) if (name := f"{wish}_{number}") not in taken)
