"""The walk of a schedule: for every tile and every element of it, which index it stands for.

Indices are arrays that broadcast over ``(tiles, tile of dimension r-1, ..., tile of dimension 0)``,
so an IterDomain that only depends on the tile costs one number per tile. What the instruction does
(`coordinates`, `in_bounds`) and what the schedule means (`valid`) are computed apart.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from teir.tma.below import below_expressions, beside_tiles
from teir.tma.dimensions import Dimension
from teir.tma.domain import (
    Expression,
    Index,
    IterDomain,
    backward,
    forward,
    inputs_of,
    outputs_of,
)
from teir.tma.inference import Inferred

Values = dict[IterDomain, Index]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The tiles walked.

    ``values`` holds the index of every IterDomain between the loops and the TMA domain.
    ``valid[k]`` and ``in_bounds[k]`` have shape (tiles, tile of dimension k): an element of a tile
    is valid (in bounds) where it is so in every dimension. ``coordinates[k]`` has shape (tiles,).
    """

    inferred: Inferred
    tiles: int
    values: Values
    coordinates: tuple[Index, ...]
    valid: tuple[Mask, ...]
    in_bounds: tuple[Mask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Elements of the tiles walked: valid, holes filled with the fill value, holes with data."""

    tiles: int
    valid: int
    hole_zero: int
    hole_data: int


def tile_count(inferred: Inferred) -> int:
    """How many tiles the whole schedule moves."""
    return math.prod(one.extent for one in inferred.not_tile)


def sampled_tiles(total: int, most: int) -> Index:
    """Linear indices of the tiles to look at: all, or the first and ``most - 1`` drawn ones.

    The draws are those of Python's generator with seed 0, repetitions included: equal everywhere.
    """
    if total <= most:
        return np.arange(total, dtype=np.int64)
    generator = random.Random(0)
    drawn = [generator.randrange(total) for _ in range(most - 1)]
    return np.array([0, *drawn], dtype=np.int64)


def walk(inferred: Inferred, linear: Index) -> Walk:
    """Walk the tiles of the given linear indices, row-major over the loops that are not Bulk."""
    dimensions = inferred.dimensions
    beside = beside_tiles(inferred)
    zero = np.zeros((1,) * (len(dimensions) + 1), dtype=np.int64)
    values = dict.fromkeys(beside, zero) | _loop_values(inferred, linear) | _tile_values(dimensions)
    expressions = below_expressions(inferred)
    propagate(values, expressions)
    rank = len(dimensions)
    used = {one for expression in expressions for one in outputs_of(expression)}
    used |= {one for expression in expressions for one in inputs_of(expression)}
    used |= {one for dimension in dimensions for one in dimension.raw}
    masks = [(values[one] >= 0) & (values[one] < one.extent) for one in values if one in used]
    coordinates = tuple(_coordinate(dimension, values, len(linear)) for dimension in dimensions)
    return Walk(
        inferred=inferred,
        tiles=len(linear),
        values=values,
        coordinates=coordinates,
        valid=tuple(_masks_of(masks, k, rank, len(linear), dimensions) for k in range(rank)),
        in_bounds=tuple(
            _in_bounds(dimension, coordinate)
            for dimension, coordinate in zip(dimensions, coordinates, strict=True)
        ),
    )


def count_elements(walked: Walk) -> Counts:
    """How the elements of all tiles walked are filled."""
    loaded = _product_of_sums(walked.in_bounds)
    valid = _product_of_sums(walked.valid)
    both = _product_of_sums(
        tuple(a & b for a, b in zip(walked.valid, walked.in_bounds, strict=True))
    )
    size = math.prod(dimension.tile for dimension in walked.inferred.dimensions)
    total = walked.tiles * size
    return Counts(
        tiles=walked.tiles,
        valid=int(valid.sum()),
        hole_zero=int(total - loaded.sum() - (valid - both).sum()),
        hole_data=int((loaded - both).sum()),
    )


def propagate(values: Values, expressions: Iterable[Expression]) -> None:
    """Add to ``values`` what ``expressions`` derive from it, in either direction."""
    left = list(expressions)
    progress = True
    while progress and left:
        progress = False
        rest: list[Expression] = []
        for expression in left:
            if _derive(values, expression):
                progress = True
            else:
                rest.append(expression)
        left = rest


def _derive(values: Values, expression: Expression) -> bool:
    inputs, outputs = inputs_of(expression), outputs_of(expression)
    if all(one in values for one in outputs):
        made = backward(expression, tuple(values[one] for one in outputs))
        targets = inputs
    elif all(one in values for one in inputs):
        made = forward(expression, tuple(values[one] for one in inputs))
        targets = outputs
    else:
        return False
    for one, value in zip(targets, made, strict=True):
        values.setdefault(one, value)
    return True


def _loop_values(inferred: Inferred, linear: Index) -> Values:
    values: Values = {}
    shape = (len(linear), *(1 for _ in inferred.dimensions))
    rest = linear
    for one in reversed(inferred.not_tile):
        values[one] = (rest % one.extent).reshape(shape)
        rest = rest // one.extent
    return values


def _tile_values(dimensions: tuple[Dimension, ...]) -> Values:
    values: Values = {}
    rank = len(dimensions)
    for k, dimension in enumerate(dimensions):
        shape = [1] * (rank + 1)
        shape[rank - k] = dimension.tile
        rest = np.arange(dimension.tile, dtype=np.int64)
        for one in reversed(dimension.tiles):
            values[one] = (rest % one.extent).reshape(shape)
            rest = rest // one.extent
    return values


def _coordinate(dimension: Dimension, values: Values, tiles: int) -> Index:
    """Where the box of each tile begins: the raw indices at element 0 of the tile."""
    position = np.zeros(tiles, dtype=np.int64)
    for one in dimension.raw:
        value = values.get(one)
        first = 0 if value is None else value.reshape(value.shape[0], -1)[:, 0]
        position = position * one.extent + first
    return position


def _in_bounds(dimension: Dimension, coordinate: Index) -> Mask:
    steps = np.arange(dimension.tile, dtype=np.int64) * dimension.element_stride
    position = coordinate[:, None] + steps[None, :]
    return np.asarray((position >= 0) & (position < dimension.size))


def _masks_of(
    masks: list[Mask], k: int, rank: int, tiles: int, dimensions: tuple[Dimension, ...]
) -> Mask:
    """All masks that depend on dimension ``k``; those of whole tiles count for dimension 0.

    What depends on several dimensions lies inside tiles, and the instruction does not ask it.
    """
    found = np.ones((tiles, dimensions[k].tile), dtype=bool)
    for mask in masks:
        along = [rank - axis for axis in range(1, rank + 1) if mask.shape[axis] > 1]
        if along == [k] or (not along and k == 0):
            found &= mask.reshape(mask.shape[0], -1)
    return found


def _product_of_sums(masks: tuple[Mask, ...]) -> Index:
    counts: Index = np.ones(1, dtype=np.int64)
    for mask in masks:
        counts = counts * mask.sum(axis=1, dtype=np.int64)
    return counts
