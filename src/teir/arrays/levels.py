"""Storage formats: a sequence of dense and compressed levels, and which axis each one stores.

"ds" with the usual mode order is CSR, "dss" a CSF tensor with a dense first level. A level is one
axis of the array; ``mode_order`` lists the axes from the outermost level inwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from teir.errors import Rule, TeirError, at_argument

FORMAT = Rule(
    code="TEIR660",
    sentence="A format is one letter per axis, d (dense) or s (compressed), and perhaps the order "
    "in which the levels store the axes: B:ds, or B:ds:1,0.",
    source="docs/sparse-scheduling.md, formats",
)

_SPARSE_ROWS = 16
"""Rows per stored value from which on an outermost level is better compressed."""
_USUAL_ROWS = 1 << 20
"""Rows whose bounds take so little, 8 MiB, that they are stored where nobody asked for levels."""
_LONGEST_NUMBER = 18
"""Digits of an axis that are read; Python refuses to read numbers of thousands of digits."""


class Level(Enum):
    """How one axis is stored; the value is its letter."""

    DENSE = "d"
    COMPRESSED = "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The levels of a tensor, outermost first, and the axis each of them stores."""

    levels: tuple[Level, ...]
    mode_order: tuple[int, ...]

    @property
    def is_sparse(self) -> bool:
        return Level.COMPRESSED in self.levels

    @property
    def sparse_prefix(self) -> int:
        """The number of levels down to the last compressed one."""
        return max(
            (place + 1 for place, level in enumerate(self.levels) if level is Level.COMPRESSED),
            default=0,
        )

    def __str__(self) -> str:
        letters = "".join(level.value for level in self.levels)
        if self.mode_order == tuple(range(len(self.levels))):
            return letters
        return f"{letters}:{','.join(map(str, self.mode_order))}"


def dense_format(rank: int) -> Format:
    """All axes dense, the last one adjacent in memory."""
    return Format(levels=(Level.DENSE,) * rank, mode_order=tuple(range(rank)))


def is_mostly_empty(rows: int, stored: int) -> bool:
    """True where most rows of an outermost level store nothing, so that it is better compressed."""
    return rows > _SPARSE_ROWS * max(1, stored)


def is_endless(rows: int, stored: int) -> bool:
    """True where so many rows store so little that their bounds would take most of the memory."""
    return rows > _USUAL_ROWS and is_mostly_empty(rows, stored)


def usual_levels(extents: Sequence[int], stored: int) -> str:
    """The letters where nobody asked for any: a dense level above compressed ones.

    ``extents`` are those of the levels. A vector is compressed, and so are rows without end of
    which few store anything: a file of a line may speak of 2^60 rows, and each would have a bound.
    """
    if len(extents) < 2:
        return "s" * len(extents)
    outermost = "s" if is_endless(extents[0], stored) else "d"
    return outermost + "s" * (len(extents) - 1)


def parse_format(text: str, argument: str = "format") -> Format:
    """``"ds"`` or ``"ds:1,0"`` as a value. Raises TeirError at ``argument``."""
    letters, colon, order = text.partition(":")
    known = {level.value: level for level in Level}
    if not all(letter in known for letter in letters):
        raise _refusal(argument, text)
    levels = tuple(known[letter] for letter in letters)
    words = [word.strip() for word in order.split(",")] if colon else []
    if not all(word.isdecimal() and len(word) <= _LONGEST_NUMBER for word in words):
        raise _refusal(argument, text)
    mode_order = tuple(map(int, words)) if colon else tuple(range(len(levels)))
    if sorted(mode_order) != list(range(len(levels))):
        raise _refusal(argument, text)
    return Format(levels=levels, mode_order=mode_order)


def _refusal(argument: str, found: str) -> TeirError:
    expected = "letters d and s, and perhaps an order of all axes"
    return TeirError((at_argument(FORMAT, argument, expected, repr(found)),))
