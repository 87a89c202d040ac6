"""The meaning of index notation: slow, clear, never optimised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from teir.expr.index_notation import Assignment
from teir.expr.index_notation_check import index_extents

Array = np.ndarray[Any, np.dtype[Any]]


def evaluate_index_notation(
    assignment: Assignment, operands: Mapping[str, Array], old: Array | None = None
) -> Array:
    """The output: over all index values, the sum of the products with their numbers.

    ``+=`` adds ``old``. Each term is summed over its own indices that are not in the output. Real
    operands and numbers are computed in float64, complex ones in complex128. Memory grows with the
    product of a term's extents. Raises TeirError where the operands do not fit.
    """
    shapes = {name: np.shape(operand) for name, operand in operands.items()}
    extents = index_extents(assignment, shapes)
    numbers = [product.coefficient for product in assignment.products]
    is_complex = any(map(np.iscomplexobj, (*operands.values(), *numbers)))
    dtype = np.complex128 if is_complex else np.float64
    result: Array = np.zeros([extents[index] for index in assignment.output.indices], dtype)
    if assignment.accumulates and old is not None:
        result = result + old
    for product in assignment.products:
        inner = [index for index in product.indices if index not in assignment.output.indices]
        space = [*assignment.output.indices, *inner]
        grids = np.ogrid[tuple(slice(extents[index]) for index in space)] if space else ()
        place = {index: axis for axis, index in enumerate(space)}
        term = np.ones([extents[index] for index in space], dtype)
        for factor in product.factors:
            picked = tuple(grids[place[index]] for index in factor.indices)
            term = term * np.asarray(operands[factor.tensor], dtype)[picked]
        summed = term.sum(axis=tuple(range(len(assignment.output.indices), len(space))))
        result = result + product.coefficient * summed
    return result
