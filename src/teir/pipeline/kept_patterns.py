"""Results that store exactly what one operand stores, its values times a number.

    A[i,j] = c * B[i,j]      A[i,j,k] = -B[i,j,k]

Nothing is walked: index arrays are copied, while they are looked at where others can write them
(frozen ones are shared), and the values are scaled a vector at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.arrays.sparse import Sparse, owned
from teir.arrays.sparse_storage import Compressed, Stored
from teir.backends.llvm.fibre_sums import NUMBERS
from teir.backends.llvm.fibre_unions import addresses
from teir.backends.llvm.index_check import checked_copy
from teir.backends.llvm.scaled_values import Scaled, scaled_values
from teir.dtypes import DataType
from teir.expr.index_notation import Number
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_looks import Looked
from teir.pipeline.sparse_numbers import scale_of
from teir.pipeline.sparse_operands import Array
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_sharing import shared_levels
from teir.pipeline.sparse_terms import Term


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptPattern:
    """An operand times a number."""

    operand: Sparse
    scale: float
    number: str | None
    """The tensor that is the number."""
    coefficient: Number
    data_type: DataType
    scaled: Scaled

    def result(self, problem: SparseProblem) -> Sparse:
        """The product of an operand that can be walked."""
        levels = shared_levels(self.operand, len(self.operand.stored))
        return self._made(problem, levels, self.scale)

    def looked_result(
        self, problem: SparseProblem, given: Mapping[str, Array], looked: Sequence[Looked]
    ) -> Any:
        """The product with the number given now, NotImplemented where a level cannot be walked."""
        scale = self.scale
        if self.number is not None and self.number in given:
            scale = scale_of(given[self.number], self.coefficient, self.operand.dtype)
        if self.operand.is_frozen:
            if not all(one.is_walkable() for one in looked):
                return NotImplemented
            return self._made(problem, self.operand.stored, scale)
        copies: dict[int, Compressed] = {}
        for one in looked:
            copied = _copied(one)
            if copied is None:
                return NotImplemented
            copies[id(one.crd)] = copied
        # Operands that store nothing are looked at too, and are no part of the result.
        levels = [level and copies[id(level.crd)] for level in self.operand.stored]
        return self._made(problem, tuple(levels), scale)

    def _made(self, problem: SparseProblem, levels: Stored, scale: float) -> Sparse:
        given = self.operand.values
        values = np.empty(given.size, given.dtype)
        begin, end = addresses(given, values)
        self.scaled(begin, given.size, scale, end)
        return owned(problem.shape, problem.output_format, levels, values)


def kept_pattern(
    problem: SparseProblem, terms: Sequence[tuple[Term, Number]]
) -> KeptPattern | None:
    """The product of a sum of terms, each with its coefficient; None where it is none."""
    data_type = problem.computed_type
    if len(terms) != 1 or data_type not in NUMBERS or problem.result_type is not data_type:
        return None
    ((term, coefficient),) = terms
    sparse = [one for one in term.factors if one.stored is not None]
    numbers = [one for one in term.factors if one.stored is None]
    if len(sparse) != 1 or len(numbers) > 1 or any(one.access.indices for one in numbers):
        return None
    array, fmt = sparse[0].stored, problem.output_format
    assert array is not None
    order = problem.assignment.output.indices
    wanted = [order[mode] for mode in fmt.mode_order]
    own = [sparse[0].access.indices[mode] for mode in array.format.mode_order]
    is_same = own == wanted and array.format.levels == fmt.levels and array.blocks is None
    if not is_same or len(set(own)) != len(own) or array.dtype != data_type.numpy_dtype():
        return None
    if any(one.held.array.dtype.kind == "c" for one in numbers):
        return None
    number = np.ones(()) if not numbers else numbers[0].held.array
    return KeptPattern(
        operand=array,
        scale=scale_of(number, coefficient, array.dtype),
        number=numbers[0].held.name if numbers else None,
        coefficient=coefficient,
        data_type=data_type,
        scaled=scaled_values(default_isa(), data_type),
    )


def _copied(looked: Looked) -> Compressed | None:
    """A copy of the index arrays of a level; None where they are not what they have to be."""
    pos, crd = np.empty_like(looked.pos), np.empty_like(looked.crd)
    copy = checked_copy(default_isa(), pos.dtype.itemsize)
    return None if copy(*looked.arguments, *addresses(pos, crd)) else Compressed(pos=pos, crd=crd)
