"""Stored elements at which indices that are named twice agree: `ii->i` and its like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teir.arrays.levels import Level, parse_format
from teir.arrays.sparse import Sparse, owned
from teir.arrays.sparse_storage import Compressed


def diagonal_of(array: Sparse, indices: Sequence[str], spread: Sequence[int]) -> Sparse:
    """Stored elements whose coordinates of equal indices are equal, one axis for each index.

    The axes ``spread`` have extent 1 and go.
    """
    is_rows = array.format.levels == (Level.DENSE, Level.COMPRESSED) and array.blocks is None
    if is_rows and indices[0] == indices[1] and not spread:
        return _diagonal_of_rows(array)
    coords, values = array.to_coo()
    is_kept = np.ones(values.size, bool)
    first: dict[str, int] = {}
    for n, index in enumerate(indices):
        if n not in spread:
            is_kept &= coords[n] == coords[first.setdefault(index, n)]
    columns = [coords[n][is_kept] for n in first.values()]
    return Sparse.from_coo(columns, values[is_kept], [array.shape[n] for n in first.values()])


def _diagonal_of_rows(array: Sparse) -> Sparse:
    """A vector; rows and columns may change places."""
    level = array.stored[1]
    assert level is not None
    stored = int(level.pos[-1])
    rows = np.repeat(np.arange(array.shape[0], dtype=level.crd.dtype), np.diff(level.pos))
    places = np.flatnonzero(rows == level.crd[:stored])
    made = Compressed(pos=np.array([0, places.size], level.pos.dtype), crd=level.crd.take(places))
    return owned(array.shape[:1], parse_format("s"), (made,), array.values.take(places))
