"""Calls with sparse results on operands seen before: straight to the pattern and the programs.

As `teir.pipeline.sparse_calls`: sparse operands are known by identity, index arrays that others can
write are looked at again at every call, or their fingerprint is taken where copies in another order
were made. Dense operands may be other arrays of the same type, shape and strides, numbers other
ones. What was planned is kept without the operands themselves, and forgotten with them.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from teir.arrays.sparse import Sparse
from teir.pipeline.kept_patterns import KeptPattern, kept_pattern
from teir.pipeline.row_sums import RowSum
from teir.pipeline.sparse_factors import Factor
from teir.pipeline.sparse_looks import Copied, Looked, looked_at, only_version
from teir.pipeline.sparse_operands import Array, Held
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_run import Step, run_at_once, run_sparse, sum_at_once

_ndarray = np.ndarray
NUMBERS = (float, int, np.float64, np.float32)
"""Types of numbers that stand for arrays without an axis."""
_PARTS = ("data", "indptr", "indices")


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A matrix of another library: its parts, which have to be those seen."""

    operand: int
    shape: tuple[int, ...]
    parts: tuple[Array, ...]

    def is_as_seen(self, value: Any) -> bool:
        data, indptr, indices = self.parts
        is_same = value.data is data and value.indptr is indptr and value.indices is indices
        return is_same and bool(value.shape == self.shape)


@dataclass(frozen=True, slots=True)
class _Dense:
    """A dense operand: what has to be the same."""

    operand: int
    tensor: str
    seen: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownResult:
    """The steps for some operands."""

    problem: SparseProblem
    steps: tuple[Step, ...]
    sources: tuple[tuple[int, weakref.ref[Any]], ...]
    matrices: tuple[_Matrix, ...]
    dense: tuple[_Dense, ...]
    copied: tuple[Copied, ...]
    looked: tuple[Looked, ...]
    kept: KeptPattern | None
    """An operand times a number."""
    rows: RowSum | None
    """All of it in one pass on the operands' own arrays; None where that cannot be."""

    def run(self, operands: Sequence[Any], out: Any) -> Any:
        """The result; NotImplemented where something is not as it was."""
        if out is not None:
            return NotImplemented
        for number, source in self.sources:
            if source() is not operands[number]:
                return NotImplemented
        for matrix in self.matrices:
            if not matrix.is_as_seen(operands[matrix.operand]):
                return NotImplemented
        for copied in self.copied:
            if not copied.is_as_seen(operands):
                return NotImplemented
        given: dict[str, Array] = {}
        for one in self.dense:
            operand = operands[one.operand]
            if _seen(operand) != one.seen:
                return NotImplemented
            given[one.tensor] = operand if type(operand) is _ndarray else np.asarray(operand)
        if self.kept is not None:
            return self.kept.looked_result(self.problem, given, self.looked)
        for looked in self.looked:
            if not looked.is_walkable():
                return NotImplemented
        if self.rows is not None:
            return run_at_once(self.problem, self.rows.again(given))
        steps = [with_arrays(step, given) for step in self.steps] if given else self.steps
        return run_sparse(self.problem, steps)


def result_of(
    problem: SparseProblem,
    operands: Sequence[Any],
    held: Mapping[str, Held],
    steps: Sequence[Step],
) -> KnownResult | None:
    """What to do with these operands again; None where each call has to convert them."""
    if not problem.has_sparse_result or problem.assignment.accumulates:
        return None
    dense: list[_Dense] = []
    stored: list[_Stored] = []
    looked: dict[int, tuple[Looked, ...]] = {}
    for number, ((name, one), operand) in enumerate(zip(held.items(), operands, strict=True)):
        if type(operand) is _ndarray and not _is_direct(name, operand, steps):
            return None
        if type(operand) in (_ndarray, *NUMBERS):
            dense.append(_Dense(number, name, _seen(operand)))
            continue
        known = _stored(number, one, operand, _factors(name, steps))
        if known is None:
            return None
        stored.append(known)
        looked[id(operand)] = known.looked
    live = [step for step in steps if step.scheduled is not None]
    kept = kept_pattern(problem, [pair for step in live for pair in step.terms])
    rows = None if kept is not None else sum_at_once(problem, live)
    return KnownResult(
        problem=problem,
        steps=tuple(_kept(step) for step in steps),
        sources=tuple((one.operand, one.source) for one in stored),
        matrices=tuple(one.matrix for one in stored if one.matrix is not None),
        dense=tuple(dense),
        copied=tuple(one.copied for one in stored if one.copied is not None),
        looked=tuple(one for several in looked.values() for one in several),
        kept=kept,
        rows=rows if rows is not None and rows.is_direct else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """A sparse operand: how it is known again."""

    operand: int
    source: weakref.ref[Any]
    matrix: _Matrix | None
    copied: Copied | None
    looked: tuple[Looked, ...]


def _stored(number: int, held: Held, operand: Any, factors: Sequence[Factor]) -> _Stored | None:
    """``operand``, held as ``held`` and read by ``factors``; None where it has to be converted."""
    array, matrix = held.array, None
    if isinstance(operand, Sparse):
        is_number = not operand.shape
        if not operand.is_frozen and (is_number or array is not operand):
            return None
    else:
        matrix = _matrix(number, held, operand)
        if matrix is None:
            return None
    assert isinstance(array, Sparse)
    copies: list[Sparse | None] = []
    if not array.is_frozen:
        copies = [factor.stored for factor in factors if _is_converted(factor, array)]
    version = only_version([one for one in copies if one is not None])
    if copies and (version is None or None in copies):
        return None
    is_read = not array.is_frozen and (not copies or len(copies) < len(factors))
    return _Stored(
        operand=number,
        source=weakref.ref(operand),
        matrix=matrix,
        copied=None if version is None else Copied(number, version),
        looked=looked_at(array) if is_read else (),
    )


def _matrix(number: int, held: Held, operand: Any) -> _Matrix | None:
    """None where its parts are not all that its `Sparse` was made of."""
    if held.notes or not isinstance(held.array, Sparse):
        return None
    parts = tuple(getattr(operand, name, None) for name in _PARTS)
    arrays = tuple(part for part in parts if isinstance(part, _ndarray))
    if len(arrays) < len(parts):
        return None
    return _Matrix(number, tuple(operand.shape), arrays)


def _seen(operand: Any) -> tuple[Any, ...]:
    if type(operand) is not _ndarray:
        return (type(operand),)
    return operand.dtype, operand.shape, operand.strides


def _factors(name: str, steps: Sequence[Step]) -> list[Factor]:
    """The factors of all steps that are one operand."""
    return [factor for step in steps for factor in step.factors if factor.held.name == name]


def _is_converted(factor: Factor, array: Sparse) -> bool:
    return factor.held.array is not array


def _is_direct(name: str, operand: Array, steps: Sequence[Step]) -> bool:
    """True where every factor reads the operand's own memory, all of it as it lies."""
    return all(
        isinstance(factor.held.array, _ndarray)
        and factor.held.array.__array_interface__ == operand.__array_interface__
        for factor in _factors(name, steps)
    )


def _kept(step: Step) -> Step:
    """Without what the caller gave, so that it can go."""
    terms = tuple(
        (replace(term, factors=tuple(_without_source(one) for one in term.factors)), number)
        for term, number in step.terms
    )
    return replace(step, terms=terms)


def _without_source(factor: Factor) -> Factor:
    return replace(factor, held=replace(factor.held, source=None))


def with_arrays(step: Step, given: Mapping[str, Sparse | Array]) -> Step:
    """With other operands, by their names."""
    terms = tuple(
        (replace(term, factors=tuple(_given(one, given) for one in term.factors)), number)
        for term, number in step.terms
    )
    return replace(step, terms=terms)


def _given(factor: Factor, given: Mapping[str, Sparse | Array]) -> Factor:
    array = given.get(factor.held.name)
    return factor if array is None else factor.with_array(array)
