"""What callers may give where an integer is asked for: whatever Python takes for an index."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import SupportsIndex, cast


def as_integer(value: object) -> int | None:
    """The integer that ``value`` stands for, as for an index of a list; None for all else.

    Arrays have the method of an index whatever they hold: only one integer is one. A bool is 0 or
    1, as for Python; callers that take none refuse it.
    """
    try:
        return index(cast(SupportsIndex, value))
    except TypeError:
        return None


_SHOWN_BITS = 256


def listed(numbers: Sequence[int]) -> str:
    """As a tuple, for messages; Python refuses to write numbers of thousands of digits."""
    words = [
        str(number)
        if number.bit_length() <= _SHOWN_BITS
        else f"a number of {number.bit_length()} bits"
        for number in numbers
    ]
    return f"({', '.join(words)}{',' if len(words) == 1 else ''})"
