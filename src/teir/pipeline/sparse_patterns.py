"""Factors that store the same positions: walked once, or not walked at all.

    out[i] = B[i,j] * C[i,j]    ->    out[i] = BC[i,j]          where C stores what B does
    out = B[i,j] * C[i,j]       ->    out = v[p] * w[p]         the stored values of both
    out = B[i,j]                ->    out = v[p]

What is summed without an index of its own is a sum over the values as they lie in memory. Products
of values are formed first, rounded by themselves, where their positions are still needed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from teir.arrays.numpy_fields import address_of
from teir.arrays.sparse import Sparse
from teir.expr.index_notation import Access
from teir.pipeline.sparse_factors import Factor
from teir.pipeline.sparse_operands import Array, Conversion

_PLACE = "p"
_TYPES = (np.float64, np.float32)


def with_equal_patterns_once(factors: Sequence[Factor]) -> list[Factor]:
    """Factors of the same positions and indices as one whose values are their product."""
    made: list[Factor] = []
    for factor in factors:
        place = next((n for n, one in enumerate(made) if _stores_as(one, factor)), None)
        if place is None:
            made.append(factor)
            continue
        made[place] = _product(made[place], factor)
    return made


def as_stored_values(
    factors: Sequence[Factor], output: Access
) -> tuple[list[Factor], dict[str, int]] | None:
    """The factors as vectors of their values, with the extent; None where positions matter."""
    first, *others = factors
    array = first.stored
    if array is None or output.indices or array.nnz == 0:
        return None
    if not all(_stores_as(first, one) for one in others):
        return None
    access = (_PLACE,)
    made = []
    for factor in factors:
        assert factor.stored is not None
        values = factor.stored.values
        named = replace(factor.access, indices=access, columns=())
        made.append(replace(factor, access=named).with_array(values))
    return made, {_PLACE: array.values.size}


def _stores_as(one: Factor, other: Factor) -> bool:
    """True where both store the same positions of the same indices, in the same order."""
    left, right = one.stored, other.stored
    if left is None or right is None or one.access.indices != other.access.indices:
        return False
    if left.values.dtype != right.values.dtype or left.values.dtype.type not in _TYPES:
        return False
    return left.blocks is None and right.blocks is None and store_alike(left, right)


def store_alike(left: Sparse, right: Sparse) -> bool:
    """True for the same positions in the same levels."""
    if left.shape != right.shape or left.format != right.format:
        return False
    pairs = [
        (mine, its)
        for one, other in zip(left.stored, right.stored, strict=True)
        if one is not None and other is not None
        for mine, its in ((one.pos, other.pos), (one.crd, other.crd))
    ]
    return all(mine.shape == its.shape for mine, its in pairs) and all(
        _address(mine) == _address(its) or np.array_equal(mine, its) for mine, its in pairs
    )


def _address(array: Array) -> tuple[int, np.dtype[Any]]:
    return address_of(array), array.dtype


def _product(one: Factor, other: Factor) -> Factor:
    left, right = one.stored, other.stored
    assert left is not None
    assert right is not None
    room = one.held.room
    if room is not None:
        room.require(left.values.nbytes, f"the values of {one.held.name} and {other.held.name}")
    started = time.perf_counter()
    made = replace(left, values=left.values * right.values)
    if room is not None:
        room.take(made.values)
    seconds = time.perf_counter() - started
    text = f"{one.held.name} and {other.held.name} store the same positions: values multiplied"
    # Copies of it are kept with it, and not with the operands: it goes when the call ends.
    notes = (*one.held.notes, *other.held.notes, Conversion(text=text, seconds=seconds))
    held = replace(one.held, array=made, source=made, notes=notes, made_for=())
    return replace(one, held=held)
