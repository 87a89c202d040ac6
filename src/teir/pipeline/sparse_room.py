"""What one call with sparse operands may allocate, and what it has allocated so far.

Copies of operands are counted before they are made, with what making them takes: coordinates of
every element, keys to sort them by, the places they come from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from teir.arrays.levels import Level, is_endless
from teir.arrays.sparse import Sparse
from teir.errors import TeirError, at_argument
from teir.pipeline.memory import MEMORY_LIMIT

Array = np.ndarray[Any, np.dtype[Any]]

_WORD = 8
_COLUMNS_A_LEVEL = 4
"""Columns of coordinates per level that are held at once where elements are sorted."""
_KEY_COLUMNS = 8
"""Keys, places and marks held besides."""
_VALUES = 4
"""Vectors of values held at once."""
_ROW_BYTES = 48
"""Bounds and counts of a fibre of dense levels."""


@dataclass(slots=True)
class Room:
    """The limit of one call in bytes; ``has_out`` where the caller gives the result's memory."""

    limit_bytes: int
    has_out: bool = False
    taken_bytes: int = 0
    _copies: dict[int, Any] = field(default_factory=dict, repr=False)

    @property
    def left_bytes(self) -> int:
        return self.limit_bytes - self.taken_bytes

    def require(self, most_bytes: int, what: str) -> None:
        """Raises TeirError (TEIR643) where so much more does not fit."""
        if most_bytes <= self.left_bytes:
            return
        expected = f"at least {self.taken_bytes + most_bytes:,} bytes for {what}"
        found = f"{self.limit_bytes:,}"
        raise TeirError((at_argument(MEMORY_LIMIT, "memory_limit", expected, found),))

    def take(self, made: Sparse | Array) -> None:
        """Count a copy, once."""
        if id(made) not in self._copies:
            self._copies[id(made)] = made
            self.taken_bytes += bytes_of(made)


def bytes_of(array: Sparse | Array) -> int:
    """Bytes of values and index arrays."""
    if not isinstance(array, Sparse):
        return array.nbytes
    levels = [part.nbytes for level in array.stored if level for part in (level.pos, level.crd)]
    return array.values.nbytes + sum(levels)


def conversion_bytes(source: Any) -> int:
    """Bytes at most that ``source`` takes in another order or form while it is made, and after.

    The largest case: elements go to coordinates, are sorted by them and compressed.
    """
    if isinstance(source, Sparse):
        counts = source.values.size, len(source.format.levels), source.values.itemsize
        return _by_coordinates(*counts, _fibres(source))
    kind = getattr(source, "format", "")
    data = getattr(source, "data", None)
    shape = tuple(getattr(source, "shape", ()))
    if isinstance(data, np.ndarray) and data.dtype != object:
        # Diagonals become a table of at most twice as many places.
        places = 2 * data.size if kind == "dia" else data.size
        levels = len(shape) + max(0, data.ndim - 1) if kind == "bsr" else max(1, len(shape))
        rows = max(shape, default=1) if hasattr(source, "indptr") else _rows(shape, places)
        return _by_coordinates(places, levels, data.itemsize, rows)
    count = int(getattr(source, "nnz", 0) or 0)
    if hasattr(source, "_values") and str(getattr(source, "layout", "")) == "torch.sparse_coo":
        count = int(source._values().numel())
    elif hasattr(source, "values") and callable(source.values):
        count = int(source.values().numel()) if hasattr(source.values(), "numel") else count
    # Lists and dictionaries of other libraries have a small object for every element.
    return _by_coordinates(2 * count, max(1, len(shape)), 2 * _WORD, _rows(shape, 2 * count))


def _by_coordinates(places: int, levels: int, width: int, fibres: int) -> int:
    words = _COLUMNS_A_LEVEL * levels + _KEY_COLUMNS
    return places * (_WORD * words + _VALUES * width) + _ROW_BYTES * (fibres + 2)


def _rows(shape: tuple[int, ...], stored: int) -> int:
    """The rows of a dense level above compressed ones, whichever axis comes first."""
    return max((extent for extent in shape if not is_endless(extent, stored)), default=1)


def _fibres(source: Sparse) -> int:
    """The fibres there may be above a compressed level: all dense extents in a row, or one axis."""
    dense = [
        extent
        for extent, level in zip(source.level_extents, source.format.levels, strict=True)
        if level is Level.DENSE
    ]
    return max(prod(dense), _rows(source.shape, source.nnz))
