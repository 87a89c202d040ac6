"""Matrices with a dense level above a compressed one, stored the other way round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teir.arrays.levels import Format, Level
from teir.arrays.sparse import Sparse, owned
from teir.arrays.sparse_storage import Compressed
from teir.backends.llvm.turned_levels import VALUE_BYTES, turned_levels
from teir.pipeline.executable import default_isa

_ROWS = (Level.DENSE, Level.COMPRESSED)


def sorted_anew(array: Sparse, levels: str, modes: Sequence[int]) -> Sparse:
    """As `Sparse.converted`; rows become columns by counting, in two walks of compiled code.

    The array can be walked: its index arrays were looked at.
    """
    fmt = array.format
    is_rows = fmt.levels == _ROWS and array.blocks is None and levels == "ds"
    is_turned = tuple(modes) == fmt.mode_order[::-1]
    size = array.values.dtype.itemsize
    if not is_rows or not is_turned or size not in VALUE_BYTES:
        return array.converted(levels, modes)
    level = array.stored[1]
    assert level is not None
    turn = turned_levels(default_isa(), level.pos.dtype.itemsize, size)
    values = np.ascontiguousarray(array.values)
    pos, crd, moved = turn(level.pos, level.crd, values, array.level_extents[1])
    stored = (None, Compressed(pos=pos, crd=crd))
    return owned(array.shape, Format(levels=_ROWS, mode_order=tuple(modes)), stored, moved)
