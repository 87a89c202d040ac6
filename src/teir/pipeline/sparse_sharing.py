"""Results that store what one operand stores: its index arrays serve both.

    A[i,j] = B[i,j] * C[i,k] * D[j,k]
    A[i,j,m] = B[i,j,k] * C[k,l] * D[l,m]
    A[i,j] = B[i,j] * c

The levels of the result down to its last compressed one are then those of the operand, in the same
order, and nothing else in the product is sparse.
"""

from __future__ import annotations

import numpy as np

from teir.arrays.sparse import Sparse
from teir.arrays.sparse_storage import Compressed, Stored
from teir.pipeline.sparse_factors import Factor
from teir.pipeline.sparse_terms import Term


def shared_factor(term: Term) -> Factor | None:
    """The factor whose index arrays are those of the result; None where there is none."""
    sparse = [factor for factor in term.factors if factor.stored is not None]
    output = term.statement.formats[0]
    if len(sparse) != 1 or not output.is_sparse or term.has_workspace:
        return None
    (factor,) = sparse
    array, prefix = factor.stored, output.sparse_prefix
    assert array is not None
    levels = term.statement.level_indices(term.statement.output.tensor)
    own = term.statement.level_indices(factor.access.tensor)
    is_same = array.format.levels[:prefix] == output.levels[:prefix]
    if not is_same or own[:prefix] != levels[:prefix] or not _is_full_below(array, prefix):
        return None
    return factor


def shared_levels(array: Sparse, prefix: int) -> Stored:
    """The first levels of an operand, in memory of their own where others can write its."""
    if array.is_frozen:
        return array.stored[:prefix]
    return tuple(
        level and Compressed(pos=level.pos.copy(), crd=level.crd.copy())
        for level in array.stored[:prefix]
    )


def _is_full_below(array: Sparse, prefix: int) -> bool:
    """True where everything stored down to a level goes on below it."""
    return all(
        bool(np.all(level.pos[1:] > level.pos[:-1]))
        if level is not None
        else array.level_extents[place] > 0
        for place, level in enumerate(array.stored)
        if place >= prefix
    )
