"""A binary einsum as a batched matrix product, the way users of a matrix library compute it.

Reorder the axes of both operands, copying where the memory order demands it, multiply as matrices,
reorder the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from teir.cli.peers.case import Case
from teir.cli.peers.operands import Array

Move = tuple[Array, Array]
"""A target and the source that is copied to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixProduct:
    """``result[b] = left[b] @ right[b]``, copies before and after it; all made beforehand."""

    before: tuple[Move, ...]
    left: Array
    right: Array
    result: Array
    after: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The indices of a binary einsum, each part in the order of the output (K: of the left)."""

    batch: str
    rows: str
    columns: str
    summed: str


def matrix_parts(case: Case) -> Parts:
    """Raises ValueError where the einsum is no product of two matrices per batch entry."""
    if len(case.inputs) != 2:
        raise ValueError("not two operands")
    left, right = map(set, case.inputs)
    output = set(case.output)
    if (left - right - output) | (right - left - output):
        raise ValueError("an index of one operand is summed")
    return Parts(
        batch="".join(index for index in case.output if index in left & right),
        rows="".join(index for index in case.output if index in left - right),
        columns="".join(index for index in case.output if index in right - left),
        summed="".join(index for index in case.inputs[0] if index not in output),
    )


def matrix_product(
    case: Case, inputs: Sequence[Array], out: Array, always_copy: bool
) -> MatrixProduct:
    """The product with as few copies as there can be, or with all of them.

    Raises ValueError where the case is no matrix product.
    """
    part = matrix_parts(case)
    extents = case.extents
    batch, rows, columns, summed = (
        prod(extents[index] for index in indices)
        for indices in (part.batch, part.rows, part.columns, part.summed)
    )
    left_term, right_term = case.inputs
    left = reordered(inputs[0], left_term, part.batch + part.rows + part.summed)
    right = reordered(inputs[1], right_term, part.batch + part.summed + part.columns)
    result = reordered(out, case.output, part.batch + part.rows + part.columns)
    left_matrix, left_moves = _in_shape(left, (batch, rows, summed), always_copy)
    right_matrix, right_moves = _in_shape(right, (batch, summed, columns), always_copy)
    result_matrix, result_moves = _in_shape(result, (batch, rows, columns), always_copy)
    return MatrixProduct(
        before=left_moves + right_moves,
        left=left_matrix,
        right=right_matrix,
        result=result_matrix,
        after=tuple((source, target) for target, source in result_moves),
    )


def _in_shape(
    array: Array, shape: tuple[int, ...], always_copy: bool
) -> tuple[Array, tuple[Move, ...]]:
    """``array`` in ``shape``: a view, or a new array and the copy that fills it."""
    view = array.reshape(shape)
    is_view = np.may_share_memory(view, array)
    if is_view and (view.flags.c_contiguous or not always_copy):
        return view, ()
    copy = np.empty(array.shape, array.dtype)
    return copy.reshape(shape), ((copy, array),)


def reordered(array: Array, term: str, order: str) -> Array:
    """A view with the axes named by ``term`` in ``order``."""
    return array.transpose([term.index(index) for index in order])


def factors(case: Case, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Views whose element-wise product, broadcast, is the result.

    Raises ValueError where an index is summed.
    """
    if set(case.output) != set("".join(case.inputs)):
        raise ValueError("an index is summed")
    views = []
    for term, array in zip(case.inputs, inputs, strict=True):
        ordered = reordered(array, term, "".join(i for i in case.output if i in term))
        views.append(ordered[tuple(slice(None) if i in term else None for i in case.output)])
    return tuple(views)
