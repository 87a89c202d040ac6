"""A dense array in a storage format: the arrays a program of a schedule reads and writes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from teir.arrays.levels import Format, Level

Array = np.ndarray[Any, np.dtype[Any]]


def stored(name: str, dense: Array, pattern: Array, fmt: Format) -> dict[str, Array]:
    """The values and index arrays of ``dense`` where ``pattern``; names as in the program."""
    values = np.transpose(dense, fmt.mode_order)
    mask = np.transpose(pattern, fmt.mode_order)
    made: dict[str, Array] = {}
    prefixes: list[tuple[int, ...]] = [()]
    for place, level in enumerate(fmt.levels):
        extent = mask.shape[place]
        if level is Level.DENSE:
            prefixes = [(*prefix, index) for prefix in prefixes for index in range(extent)]
            continue
        kept = [
            [index for index in range(extent) if mask[(*prefix, index)].any()]
            for prefix in prefixes
        ]
        bounds = np.cumsum([0, *map(len, kept)])
        made[f"{name}.pos{place}"] = bounds.astype(np.int32)
        coordinates = [index for fibre in kept for index in fibre]
        made[f"{name}.crd{place}"] = np.array(coordinates, np.int32)
        prefixes = [
            (*prefix, index)
            for prefix, fibre in zip(prefixes, kept, strict=True)
            for index in fibre
        ]
    made[name] = np.array([values[prefix] for prefix in prefixes], np.float64)
    return made


def dense_of(name: str, arrays: dict[str, Array], shape: tuple[int, ...], fmt: Format) -> Array:
    """The dense array that the stored arrays mean."""
    extents = [shape[mode] for mode in fmt.mode_order]
    result = np.zeros(extents)
    prefixes: list[tuple[int, ...]] = [()]
    for place, level in enumerate(fmt.levels):
        if level is Level.DENSE:
            prefixes = [(*p, index) for p, index in product(prefixes, range(extents[place]))]
            continue
        pos, crd = arrays[f"{name}.pos{place}"], arrays[f"{name}.crd{place}"]
        prefixes = [
            (*prefix, int(coordinate))
            for number, prefix in enumerate(prefixes)
            for coordinate in crd[pos[number] : pos[number + 1]]
        ]
    for prefix, value in zip(prefixes, arrays[name].reshape(-1), strict=True):
        result[prefix] = value
    return np.transpose(result, np.argsort(fmt.mode_order))
