"""The meaning of an einsum: slow, clear, never optimised. Everything else is compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teir.expr.check import bind_shapes
from teir.expr.nodes import Subscripts


def evaluate_einsum(
    subscripts: Subscripts, operands: Sequence[np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any]:
    """The sum over all indices not in the output of the product of all operands.

    Every operand is viewed over the whole index space (diagonals taken, missing and extent-1 axes
    repeated), the views are multiplied, the summed axes added. Real operands are computed in
    float64, complex ones in complex128. Memory grows with the product of all extents.
    """
    bound = bind_shapes(subscripts, [operand.shape for operand in operands])
    indices = bound.einsum.indices
    space = tuple(bound.extents[index] for index in indices)
    is_complex = any(np.iscomplexobj(operand) for operand in operands)
    product = np.ones(space, np.complex128 if is_complex else np.float64)
    for term, operand in zip(bound.einsum.inputs, operands, strict=True):
        wide = np.asarray(operand).astype(product.dtype)
        product *= _over_space(wide, term, indices, space)
    summed = tuple(range(len(bound.einsum.output), len(indices)))
    return np.asarray(product.sum(axis=summed))


def _over_space(
    operand: np.ndarray[Any, Any],
    term: tuple[str, ...],
    indices: tuple[str, ...],
    space: tuple[int, ...],
) -> np.ndarray[Any, Any]:
    """``operand`` over the whole index space: at every point, the element at its own indices."""
    grids = np.ogrid[tuple(slice(extent) for extent in space)] if space else ()
    place = {index: axis for axis, index in enumerate(indices)}
    picked = tuple(
        np.zeros_like(grids[place[index]]) if extent == 1 else grids[place[index]]
        for index, extent in zip(term, operand.shape, strict=True)
    )
    return np.broadcast_to(operand[picked], space)
