"""Figure 4: sparse products in random formats against the dense meaning, exact integers.

Item numbers below `pair_count` go through every pair of formats of the two operands of a fixed list
of expressions of up to three indices per operand; numbers from there on draw everything:
expression, extents from 0, density from empty to full, levels and mode orders of operands and
result, dense operands in any order of axes, kinds of other libraries, threads. Every fifth of these
is a product by rows of `teir.soak.sparse_rows`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np

from teir.arrays.levels import Format, Level
from teir.arrays.sparse import Sparse
from teir.expr.index_notation import Assignment
from teir.expr.index_notation_evaluate import evaluate_index_notation
from teir.expr.index_notation_parsing import parse_index_notation
from teir.pipeline.einsum import einsum
from teir.soak.sparse_rows import DrawnProduct, draw_rows

Array = np.ndarray[Any, np.dtype[Any]]

PAIRS = (
    "A[i] = B[i,j] * C[j]",
    "A[i,k] = B[i,j] * C[j,k]",
    "A[i,j] = B[i,j] * C[i,j]",
    "A[i,j] = B[i,j] + C[j,i]",
    "A[i,j,l] = B[i,j,k] * C[k,l]",
    "A[i,l] = B[i,j,k] * C[j,k,l]",
    "A[i,j,k] = B[i,j,k] - C[i,j,k]",
)
DRAWN = (
    *PAIRS,
    "A[j] = B[i,j]",
    "A = B[i,j] * B[j,i]",
    "A[i] = B[i,i]",
    "A[i,j] = -B[j,i]",
    "A[i,j] = 2 * B[i,j] * C[j]",
    "A[i,j] = -3 * B[i,j] / 2",
    "A[i,k] = 2 * B[i,j] * C[j,k] - 0.5 * D[i,k]",
    "A[i,j] = B[i] * C[j]",
    "A[i,j] = B[i,j] * s",
    "A[i,k] = B[i,j] * C[j,k] + D[i,k]",
    "A[i,k] = B[i,j] * C[j,k] - C[i,k] + B[k,i]",
    "A[i,k] = B[i,j] * C[j,k] * D[k,i]",
    "A[i,j,k] = B[i,j] * C[j,k]",
    "A[i,j] = B[i,j,k] * C[i,j,k]",
    "A[i,j,k] = B[i,j,k] * C[i,k,j]",
    "A[i,l] = B[i,j] * C[i,k] * D[j,k] * E[j,l]",
    "A[i,l] = B[i,j] * C[j,k] * D[k,l]",
    "A[l,i] = B[j,i] * C[k,l] * D[j,k] - E[l,i]",
    "A[i,l,m] = B[i,j,k] * C[j,l] * D[k,m]",
    "A[i,j,m] = B[i,j,k] * C[k,m]",
    "A[i,m] = B[i,k,l] * C[l,m] * D[k,m]",
    "A[i,j,k,l] = B[i,j,k] * C[j,k,l]",
)
_EXTENTS = (2, 3, 4)
ROWS_EVERY = 5


def formats(rank: int) -> tuple[Format, ...]:
    """Every sequence of levels in every order of the axes."""
    return tuple(
        Format(levels=levels, mode_order=order)
        for levels in product(Level, repeat=rank)
        for order in permutations(range(rank))
    )


@cache
def _pairs() -> tuple[tuple[str, Format, Format], ...]:
    return tuple(_all_pairs())


def _all_pairs() -> Iterator[tuple[str, Format, Format]]:
    for text in PAIRS:
        left, right = parse_index_notation(text).inputs.values()
        for one in formats(len(left.indices)):
            for other in formats(len(right.indices)):
                yield text, one, other


def pair_count() -> int:
    """How many pairs of formats there are."""
    return len(_pairs())


def compare_product(number: int) -> dict[str, Any]:
    """What is wrong with the product of this number, if anything."""
    drawn = _product(number)
    expected = evaluate_index_notation(drawn.assignment, drawn.dense)
    found = einsum(
        str(drawn.assignment), *drawn.given, out_levels=drawn.out_levels, threads=drawn.threads
    )
    if isinstance(found, Sparse):
        found.require_valid("result")
        found = found.to_dense()
    is_equal = np.shape(found) == expected.shape and np.array_equal(found, expected)
    return {"wrong": [] if is_equal else [f"{drawn.text}: differs"], "runs": 1}


def _product(number: int) -> DrawnProduct:
    if number < pair_count():
        return _pair(number)
    return draw_rows(number) if number % ROWS_EVERY == 0 else _drawn(number)


def _pair(number: int) -> DrawnProduct:
    text, one, other = _pairs()[number]
    draw = random.Random(number)
    assignment = parse_index_notation(text)
    extents = {index: draw.choice(_EXTENTS) for index in assignment.indices}
    _share_extents(assignment, extents)
    dense = _dense(draw, assignment, extents)
    given = tuple(
        _stored(array, fmt) for array, fmt in zip(dense.values(), (one, other), strict=True)
    )
    rank = len(assignment.output.indices)
    out = str(formats(rank)[number % len(formats(rank))]) if draw.random() < 0.7 else None
    said = f"{text} with {one} and {other} to {out}"
    return DrawnProduct(
        assignment=assignment, dense=dense, given=given, out_levels=out, threads=1, text=said
    )


def _drawn(number: int) -> DrawnProduct:
    draw = random.Random(number)
    assignment = parse_index_notation(draw.choice(DRAWN))
    largest = draw.choice((3, 5, 5, 9, 40))
    extents = {
        index: 0 if draw.random() < 0.02 else draw.randint(1, largest)
        for index in assignment.indices
    }
    most = {4: 24, 5: 9}.get(len(extents), largest)
    extents = {index: min(extent, most) for index, extent in extents.items()}
    _share_extents(assignment, extents)
    dense = _dense(draw, assignment, extents)
    given, said = [], []
    for name, array in dense.items():
        value, text = _given(draw, array)
        given.append(value)
        said.append(f"{name} {text}")
    rank = len(assignment.output.indices)
    out = str(draw.choice(formats(rank))) if rank and draw.random() < 0.5 else None
    return DrawnProduct(
        assignment=assignment,
        dense=dense,
        given=tuple(given),
        out_levels=out,
        threads=draw.choice((1, 2)),
        text=f"{assignment} with {', '.join(said)} to {out}",
    )


def _share_extents(assignment: Assignment, extents: dict[str, int]) -> None:
    """Equal extents where one tensor is used at different indices."""
    first = assignment.inputs
    for _ in extents:
        for term in assignment.products:
            for factor in term.factors:
                for index, other in zip(factor.indices, first[factor.tensor].indices, strict=True):
                    extents[index] = extents[other] = min(extents[index], extents[other])


def _dense(
    draw: random.Random, assignment: Assignment, extents: Mapping[str, int]
) -> dict[str, Array]:
    numbers = np.random.default_rng(draw.getrandbits(32))
    dense = {}
    for name, access in assignment.inputs.items():
        shape = tuple(extents[index] for index in access.indices)
        density = draw.choice((0.0, 0.1, 0.3, 0.6, 1.0))
        whole = numbers.integers(-3, 4, shape) * (numbers.random(shape) < density)
        dense[name] = np.asarray(whole, np.float64)
    return dense


def _stored(array: Array, fmt: Format) -> Sparse:
    coords = np.nonzero(array)
    letters = "".join(level.value for level in fmt.levels)
    return Sparse.from_coo(coords, array[coords], array.shape, letters, fmt.mode_order)


def _given(draw: random.Random, array: Array) -> tuple[Any, str]:
    """The array as one of the many kinds einsum takes."""
    if array.ndim == 0:
        return array, "a number"
    if draw.random() < 0.3:
        order = draw.sample(range(array.ndim), array.ndim)
        return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order)), "dense"
    if array.ndim == 2 and draw.random() < 0.4:
        return _of_scipy(draw, array)
    fmt = draw.choice(formats(array.ndim))
    return _stored(array, fmt), str(fmt)


def _of_scipy(draw: random.Random, array: Array) -> tuple[Any, str]:
    import scipy.sparse

    kind = draw.choice(("csr", "csc", "coo", "dia", "bsr"))
    if kind != "bsr" or 0 in array.shape:
        return scipy.sparse.coo_array(array).asformat(kind if kind != "bsr" else "csr"), kind
    blocks = tuple(
        draw.choice([size for size in range(1, extent + 1) if extent % size == 0])
        for extent in array.shape
    )
    return scipy.sparse.csr_array(array).tobsr(blocksize=blocks), f"bsr {blocks}"
