"""Sparse results of matrices not seen before, of kinds seen before: straight to the programs.

As `teir.pipeline.known_kinds`. How a pattern is found is decided on the matrices at hand; which
programs there are depends on their types, shapes and mean row lengths alone where a product has two
sparse factors at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from teir.arrays.levels import Format, Level
from teir.arrays.sparse import Sparse, assembled
from teir.arrays.sparse_storage import Compressed
from teir.backends.llvm.fibre_unions import addresses
from teir.backends.llvm.index_check import index_check
from teir.pipeline.executable import default_isa
from teir.pipeline.known_kinds import is_of_kind
from teir.pipeline.sparse_factors import Factor
from teir.pipeline.sparse_operands import Array
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_results import KnownResult, with_arrays
from teir.pipeline.sparse_run import Step, run_sparse

_ndarray = np.ndarray
_ROWS = (Level.DENSE, Level.COMPRESSED)
_NOTHING = np.zeros(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix:
    """An operand of rows: its number and name, its levels, their mean length as a power of two."""

    number: int
    name: str
    shape: tuple[int, ...]
    format: Format
    fibres: int
    extent: int
    length: int

    def taken(self, value: Any) -> Sparse | None:
        """A matrix as levels that were looked at; None for one that is planned for."""
        if not is_of_kind(value, (), self.fibres, self.length):
            return None
        pos, crd, data = value.indptr, value.indices, value.data
        check = index_check(default_isa(), pos.itemsize)
        begin, there = addresses(pos, crd)
        if check(begin, self.fibres, there, crd.size, self.extent):
            return None
        level = Compressed(pos=pos, crd=crd)
        return assembled(self.shape, self.format, (None, level), data, None, frozen=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultKind:
    """Steps without their arrays, and what their operands have to be."""

    problem: SparseProblem
    steps: tuple[Step, ...]
    matrices: tuple[_Matrix, ...]
    dense: tuple[tuple[int, str], ...]
    """The numbers and names of arrays and numbers."""

    @property
    def sparse(self) -> tuple[int, ...]:
        """The numbers of the matrices among the operands."""
        return tuple(one.number for one in self.matrices)

    def run(self, operands: Sequence[Any]) -> Any:
        """The result; NotImplemented, and nothing done, for matrices that are planned for."""
        given: dict[str, Sparse | Array] = {}
        for matrix in self.matrices:
            made = matrix.taken(operands[matrix.number])
            if made is None:
                return NotImplemented
            given[matrix.name] = made
        for number, name in self.dense:
            value = operands[number]
            given[name] = value if type(value) is _ndarray else np.asarray(value)
        return run_sparse(self.problem, [with_arrays(step, given) for step in self.steps])


def kind_of_result(call: KnownResult) -> ResultKind | None:
    """What a known call says of others like it; None where it says nothing."""
    is_plain = call.kept is None and not call.copied and call.steps
    if not is_plain or len(call.matrices) != len(call.sources) or not call.matrices:
        return None
    if not all(_is_settled(call.problem, step) for step in call.steps):
        return None
    names = tuple(call.problem.assignment.inputs)
    arrays = {factor.held.name: factor for step in call.steps for factor in step.factors}
    if set(arrays) != set(names):
        return None
    found = [_matrix(number, arrays[names[number]]) for number, _ in call.sources]
    matrices = [one for one in found if one is not None]
    if len(matrices) < len(found):
        return None
    return ResultKind(
        problem=call.problem,
        steps=tuple(map(_hollow, call.steps)),
        matrices=tuple(matrices),
        dense=tuple((one.operand, one.tensor) for one in call.dense),
    )


def _is_settled(problem: SparseProblem, step: Step) -> bool:
    """True where the numbers of elements choose no other steps than mean lengths do."""
    if step.scheduled is None:
        return False
    output = set(problem.assignment.output.indices)
    for term, _ in step.terms:
        stored = [factor for factor in term.factors if factor.stored is not None]
        indices = [set(factor.access.indices) for factor in stored]
        if not 1 <= len(stored) <= 2:
            return False
        if len(stored) == 2 and indices[0] == indices[1] and indices[0] != output:
            return False
    # Whether fibres below the result's last level are empty is for each matrix to tell.
    shares = step.scheduled.shares
    return shares is None or problem.output_format.sparse_prefix == 2


def _matrix(number: int, factor: Factor) -> _Matrix | None:
    array = factor.stored
    if array is None or array.format.levels != _ROWS or array.blocks is not None or not array.nnz:
        return None
    fibres, extent = array.level_extents
    return _Matrix(
        number=number,
        name=factor.held.name,
        shape=array.shape,
        format=array.format,
        fibres=fibres,
        extent=extent,
        length=round(log2(array.nnz / fibres)),
    )


def _hollow(step: Step) -> Step:
    """Without the arrays of the operands, so that they can go."""
    names: Mapping[str, Array] = {factor.held.name: _NOTHING for factor in step.factors}
    return with_arrays(step, names)
