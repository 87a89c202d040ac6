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
from teir.pipeline.sparse_looks import Looked, looked_at
from teir.pipeline.sparse_operands import Array, Held, Version, version_of, version_of_copy
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
class _Copied:
    """An operand that copies in another order were made of: what it has to be still."""

    operand: int
    version: Version


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
    copied: tuple[_Copied, ...]
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
            if version_of(operands[copied.operand]) != copied.version:
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
        steps = [_with(step, given) for step in self.steps] if given else self.steps
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
    sources: list[tuple[int, weakref.ref[Any]]] = []
    matrices: list[_Matrix] = []
    dense: list[_Dense] = []
    copied: list[_Copied] = []
    looked: dict[int, tuple[Looked, ...]] = {}
    for number, ((name, one), operand) in enumerate(zip(held.items(), operands, strict=True)):
        if type(operand) is _ndarray and not _is_direct(name, operand, steps):
            return None
        if type(operand) in (_ndarray, *NUMBERS):
            dense.append(_Dense(number, name, _seen(operand)))
            continue
        if isinstance(operand, Sparse):
            is_number = not operand.shape
            if not operand.is_frozen and (is_number or one.array is not operand):
                return None
        else:
            if one.notes or not isinstance(one.array, Sparse):
                return None
            parts = tuple(getattr(operand, name, None) for name in _PARTS)
            arrays = tuple(part for part in parts if isinstance(part, _ndarray))
            if len(arrays) < len(parts):
                return None
            matrices.append(_Matrix(number, tuple(operand.shape), arrays))
        sources.append((number, weakref.ref(operand)))
        assert isinstance(one.array, Sparse)
        if not one.array.is_frozen:
            factors = _factors(name, steps)
            copies = [factor.stored for factor in factors if _is_converted(factor, one.array)]
            if copies:
                version = _only_version(copies)
                if version is None:
                    return None
                copied.append(_Copied(number, version))
            if not copies or len(copies) < len(factors):
                looked[id(operand)] = looked_at(one.array)
    live = [step for step in steps if step.scheduled is not None]
    kept = kept_pattern(problem, [pair for step in live for pair in step.terms])
    rows = None if kept is not None else sum_at_once(problem, live)
    return KnownResult(
        problem=problem,
        steps=tuple(_kept(step) for step in steps),
        sources=tuple(sources),
        matrices=tuple(matrices),
        dense=tuple(dense),
        copied=tuple(copied),
        looked=tuple(one for several in looked.values() for one in several),
        kept=kept,
        rows=rows if rows is not None and rows.is_direct else None,
    )


def _seen(operand: Any) -> tuple[Any, ...]:
    if type(operand) is not _ndarray:
        return (type(operand),)
    return operand.dtype, operand.shape, operand.strides


def _factors(name: str, steps: Sequence[Step]) -> list[Factor]:
    """The factors of all steps that are one operand."""
    return [factor for step in steps for factor in step.factors if factor.held.name == name]


def _is_converted(factor: Factor, array: Sparse) -> bool:
    return factor.held.array is not array


def _only_version(copies: Sequence[Sparse | None]) -> Version | None:
    """What an operand was when these copies were made of it; None where that is not known."""
    versions = {None if one is None else version_of_copy(one) for one in copies}
    return versions.pop() if len(versions) == 1 else None


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


def _with(step: Step, given: Mapping[str, Array]) -> Step:
    """With other dense operands."""
    terms = tuple(
        (replace(term, factors=tuple(_given(one, given) for one in term.factors)), number)
        for term, number in step.terms
    )
    return replace(step, terms=terms)


def _given(factor: Factor, given: Mapping[str, Array]) -> Factor:
    array = given.get(factor.held.name)
    return factor if array is None else factor.with_array(array)
