"""Sparse products by rows: long and short fibres, rows that repeat, either width of index arrays.

What compiled code computes in one pass, columns and numbers at once (sums of matrices, of their
products, of what both store), and what walks fibres: sampled dots, sums of gathered rows, wide
enough to fill vectors.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.expr.index_notation import Assignment
from teir.expr.index_notation_parsing import parse_index_notation
from teir.soak.pages import GuardedPages

Array = np.ndarray[Any, np.dtype[Any]]

_IN_ONE_PASS = (
    "A[i,k] = B[i,j] * C[j,k]",
    "A[i,k] = B[i,j] * C[j,k] + D[i,k]",
    "A[i,k] = D[i,k] - B[i,j] * C[j,k]",
    "A[i,k] = B[i,k] + C[i,k]",
    "A[i,k] = B[i,k] - C[i,k]",
    "A[i,k] = B[i,k] * C[i,k]",
    "A[i,k] = B[i,k] * s - C[i,k]",
    "A[i,k] = s * B[i,k] * C[i,k] + D[i,k]",
    "A[i,k] = B[i,k] - C[i,k] + D[i,k]",
)
_WALKED = {
    "A[i,j] = B[i,j] * C[i,k] * D[j,k]": "ds",
    "A[i,k] = B[i,j] * D[j,k]": None,
    "A[j,k] = B[i,j] * D[i,k]": None,
    "A[i,l] = B[i,j] * C[i,k] * D[j,k] * E[j,l]": None,
    "A[i,l,m] = B[i,j,k] * D[j,l] * E[k,m]": None,
    "A[i,j,m] = B[i,j,k] * D[k,m]": "dsd",
    "A[i,m] = B[i,j,k] * D[k,m] * E[j,m]": None,
}
"""Statements with B stored and all else dense, and the levels of the result."""
_EXTENTS = {"i": (1, 5, 40), "j": (1, 9, 60), "k": (1, 8, 17, 40, 300), "l": (3, 8, 24)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnProduct:
    """A statement, its dense operands, and how they are given to einsum."""

    assignment: Assignment
    dense: Mapping[str, Array]
    given: tuple[Any, ...]
    out_levels: str | None
    threads: int
    text: str


def draw_rows(number: int) -> DrawnProduct:
    """The product of this number; a result is sparse where one pass computes it."""
    draw = random.Random(number)
    is_in_one_pass = draw.random() < 0.5
    text = draw.choice(_IN_ONE_PASS if is_in_one_pass else tuple(_WALKED))
    assignment = parse_index_notation(text)
    extents = {index: draw.choice(_EXTENTS.get(index, (4, 16))) for index in assignment.indices}
    if len(extents) > 3:
        extents = {index: min(extent, 24) for index, extent in extents.items()}
    dtype = draw.choice((np.float64, np.float32))
    width = draw.choice((np.int32, np.int64))
    dense, given = {}, []
    for name, access in assignment.inputs.items():
        shape = tuple(extents[index] for index in access.indices)
        is_stored = name in ("BCD" if is_in_one_pass else "B")
        dense[name] = _integers(draw, shape, dtype, is_stored=is_stored)
        given.append(_stored(dense[name], width, draw.random() < 0.5) if is_stored else dense[name])
    out = draw.choice(("ds", "ss")) if is_in_one_pass else _WALKED[text]
    threads = draw.choice((1, 2))
    said = f"{assignment} of {extents}, {dtype.__name__}, {width.__name__}, to {out}"
    return DrawnProduct(
        assignment=assignment,
        dense=dense,
        given=tuple(given),
        out_levels=out,
        threads=threads,
        text=f"{said}, {threads} threads",
    )


def _integers(
    draw: random.Random, shape: tuple[int, ...], dtype: type[Any], *, is_stored: bool
) -> Array:
    """Small integers; of what is stored most are zero, and some rows are those before them."""
    numbers = np.random.default_rng(draw.getrandbits(32))
    array = numbers.integers(-3, 4, shape)
    if not is_stored:
        return array.astype(dtype)
    densities = np.array((0.0, 0.05, 0.3, 0.9))
    by_row = numbers.choice(densities, (shape[0], *(1 for _ in shape[1:])))
    array = array * (numbers.random(shape) < by_row)
    for row in range(1, shape[0]):
        if numbers.random() < 0.2:
            array[row] = array[row - 1]
    return array.astype(dtype)


def _stored(array: Array, width: type[Any], at_end: bool) -> Any:
    """Compressed rows with index arrays of that width; of cubes, whatever they are given."""
    from teir.arrays.sparse import Sparse

    if array.ndim != 2:
        coords = np.nonzero(array)
        return Sparse.from_coo(coords, array[coords], array.shape)
    rows, columns = np.nonzero(array)
    pos = np.searchsorted(rows, np.arange(array.shape[0] + 1)).astype(width)
    crd, values = columns.astype(width), array[rows, columns]
    pos, crd, values = (_guarded(one, at_end=at_end) for one in (pos, crd, values))
    return Sparse.from_levels(array.shape, "ds", {1: (pos, crd)}, values)


def _guarded(array: Array, *, at_end: bool) -> Array:
    """The same numbers beside a page that nobody may touch."""
    content = array.view(np.uint8)
    return GuardedPages(content.size).place(content, at_end=at_end).view(array.dtype)
