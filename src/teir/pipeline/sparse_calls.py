"""Calls with operands seen before: what has to be looked at again, then one native call.

A call is known by the identity of its sparse operands. Their private memory was looked at once;
index arrays that others can write are looked at by compiled code at every call, as nothing else
tells whether they changed, and the fingerprint is taken of what was copied in another form. Dense
operands may be any arrays of the types, shapes and strides seen: the entry point compares them.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from teir.arrays.numpy_fields import address_of
from teir.arrays.sparse import Sparse
from teir.backends.llvm.entry import EntryOperand, bind_entry
from teir.expr.index_notation import Number, Product
from teir.pipeline.executable import Executable
from teir.pipeline.known_calls import KnownCall, KnownSum, Rows
from teir.pipeline.known_kinds import Kind, KindEntry, entry_of, kind_of_call, signature
from teir.pipeline.known_result_kinds import kind_of_result
from teir.pipeline.sparse_factors import Factor, flat_arrays
from teir.pipeline.sparse_looks import Copied, Looked, looked_at, only_version
from teir.pipeline.sparse_operands import Array, Held, version_of_copy
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_results import NUMBERS, KnownResult, result_of
from teir.pipeline.sparse_rings import ring_of
from teir.pipeline.sparse_run import Step

MOST_CALLS = 16
"""Known calls of a plan, and of einsum; the oldest go first."""

_ndarray = np.ndarray


class Known(Protocol):
    """What is known of a call: its sparse operands, and how it is run."""

    @property
    def sources(self) -> tuple[tuple[int, weakref.ref[Any]], ...]: ...

    def run(self, operands: Sequence[Any], out: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class SparseCalls:
    """Calls by what was asked for and the identity of the sparse operands."""

    entries: dict[Hashable, Known] = field(default_factory=dict)
    kinds: dict[Hashable, KindEntry] = field(default_factory=dict)
    """What runs matrices not seen before, by what was asked for and their type and shape."""

    def run(self, asked: Hashable, operands: Sequence[Any], out: Any) -> Any:
        """The result of a call seen before, or like one; NotImplemented for others."""
        call = self.entries.get((asked, *map(_identity, operands)))
        if call is not None:
            return call.run(operands, out)
        if out is not None or not self.kinds:
            return NotImplemented
        given = signature(operands)
        entry = None if given is None else self.kinds.get((asked, given))
        return NotImplemented if entry is None else entry.run(operands)

    def keep(self, asked: Hashable, operands: Sequence[Any], call: Known | None) -> None:
        """Know this call as long as its operands live."""
        if call is None:
            return
        key = (asked, *map(_identity, operands))
        self.entries.pop(key, None)
        self.entries[key] = call
        for old in list(self.entries)[:-MOST_CALLS]:
            self.entries.pop(old, None)
        for _, source in call.sources:
            value = source()
            if value is not None:
                weakref.finalize(value, self.entries.pop, key, None).atexit = False
        kind = _kind_of(call, operands)
        given = None if kind is None else signature(operands)
        if kind is None or given is None:
            return
        self.kinds.pop((asked, given), None)
        self.kinds[asked, given] = entry_of(kind, operands)
        for other in list(self.kinds)[:-MOST_CALLS]:
            self.kinds.pop(other, None)


def _kind_of(call: Known, operands: Sequence[Any]) -> Kind | None:
    """What the call says of other operands like these; None where it says nothing."""
    if isinstance(call, KnownCall):
        return kind_of_call(call, operands)
    return kind_of_result(call) if isinstance(call, KnownResult) else None


def _identity(operand: Any) -> int:
    return 0 if type(operand) in (_ndarray, *NUMBERS) else id(operand)


def call_of(
    problem: SparseProblem,
    operands: Sequence[Any],
    held: Mapping[str, Held],
    steps: Sequence[Step],
) -> Known | None:
    """The call for operands that were just computed with; None where each call needs more."""
    if problem.has_sparse_result:
        return result_of(problem, operands, held, steps)
    calls: list[KnownCall] = []
    for product, step in zip(problem.assignment.products, steps, strict=True):
        call = _term_call(problem, operands, held, product, step)
        if call is None:
            return None
        calls.append(call)
    accumulates = problem.assignment.accumulates
    if len(calls) == 1 and not accumulates:
        return calls[0]
    return KnownSum(calls=tuple(calls), accumulates=accumulates)


def _term_call(
    problem: SparseProblem,
    operands: Sequence[Any],
    held: Mapping[str, Held],
    product: Product,
    step: Step,
) -> KnownCall | None:
    """The call for one product."""
    if step.scheduled is None:
        return None
    executable = step.scheduled.executable
    if not isinstance(executable, Executable) or problem.result_type is not problem.computed_type:
        return None
    if ring_of(step.terms[0][0], problem.computed_type) is not None:
        return None
    made = _Arguments(executable, problem, held)
    own = [operands[made.number(access.tensor)] for access in product.factors]
    if len(product.factors) != len(step.factors) or _were_compared(step, own):
        return None
    for access, factor in zip(product.factors, step.factors, strict=True):
        if not made.add(access.tensor, operands[made.number(access.tensor)], factor):
            return None
    return made.call(step.coefficient)


def _were_compared(step: Step, operands: Sequence[Any]) -> bool:
    """True where several operands count as vectors of values because others' positions are theirs.

    Those of other objects may be different at the next call.
    """
    is_values = any(
        isinstance(operand, Sparse) or hasattr(operand, "indptr") for operand in operands
    ) and all(factor.stored is None for factor in step.factors)
    return is_values and any(operand is not operands[0] for operand in operands)


class _Arguments:
    """The arguments of the entry point, in the order of the program's tensors."""

    def __init__(
        self, executable: Executable, problem: SparseProblem, held: Mapping[str, Held]
    ) -> None:
        self._executable = executable
        self._problem = problem
        self._held = held
        self._names = tuple(held)
        self._arrays: list[Array] = []
        self._fixed: list[Any] = []
        self._given: list[tuple[int, int]] = []
        self._rows: list[Rows] = []
        self._looked: list[Looked] = []
        self._copied: list[Copied] = []
        self._walked: list[Any] = []
        self._sources: dict[int, weakref.ref[Any]] = {}

    def number(self, tensor: str) -> int:
        return self._names.index(tensor)

    def add(self, tensor: str, operand: Any, factor: Factor) -> bool:
        """The arrays of one factor; False where each call has to convert them."""
        place = len(self._arrays)
        flat = flat_arrays(factor.held.array)
        dtypes = [one.data_type.numpy_dtype() for one in self._executable.program.tensors[place:]]
        if type(operand) is _ndarray:
            if not _is_memory_of(flat[0], operand) or operand.dtype != dtypes[0]:
                return False
            self._given.append((place, self.number(tensor)))
            self._arrays.append(operand)
            self._fixed.append(None)
            return True
        is_private = isinstance(operand, Sparse) and operand.is_frozen
        if not is_private and factor.held.notes:
            if not self._copy(tensor, factor):
                return False
            is_private = True
        elif not isinstance(factor.held.array, Sparse) and dtypes[0] == flat[0].dtype:
            return self._add_values(tensor, operand, flat[0], place)
        if is_private:
            flat = [a.astype(d, copy=False) for a, d in zip(flat, dtypes, strict=False)]
        else:
            is_typed = all(array.dtype == dtype for array, dtype in zip(flat, dtypes, strict=False))
            if not is_typed or not self._look(tensor, operand, factor, place):
                return False
            if not isinstance(operand, Sparse):
                # Calls give its own array: of blocks where the values are those of blocks.
                flat = [operand.data, *flat[1:]]
        self._sources[self.number(tensor)] = weakref.ref(operand)
        self._arrays += flat
        self._fixed += flat
        return True

    def _add_values(self, tensor: str, operand: Any, values: Array, place: int) -> bool:
        """The stored values of an operand alone, whatever their positions.

        Whose index arrays are looked at all the same: of positions stored twice, or in no order,
        the values mean something else.
        """
        number = self.number(tensor)
        stored = self._held[tensor].array
        if not isinstance(stored, Sparse):
            return False
        if not isinstance(operand, Sparse):
            parts = [getattr(operand, name, None) for name in ("data", "indptr", "indices")]
            if any(type(part) is not _ndarray for part in parts):
                return False
            if not _is_memory_of(values, parts[0]):
                return False
            self._rows.append(Rows(number, tuple(operand.shape), parts[1], parts[2], place))
        elif operand.values is not values:
            return False
        if not stored.is_frozen:
            self._look_once(operand, stored)
        self._sources[number] = weakref.ref(operand)
        self._arrays.append(values)
        self._fixed.append(values)
        return True

    def _copy(self, tensor: str, factor: Factor) -> bool:
        """What was made of an operand in another form; False where nobody knows of what."""
        first, last = self._held[tensor], factor.held.array
        copies = [first.array] if first.notes else []
        is_known = version_of_copy(last) is not None
        version = only_version([*copies, last] if is_known or not copies else copies)
        if version is None:
            return False
        self._copied.append(Copied(self.number(tensor), version))
        return True

    def _look(self, tensor: str, operand: Any, factor: Factor, place: int) -> bool:
        """Memory that others can write; False where it is not that of the operand itself."""
        stored = factor.held.array
        if not isinstance(stored, Sparse) or factor.held.notes:
            return False
        if not isinstance(operand, Sparse):
            rows = _rows_of(self.number(tensor), operand, stored, place)
            if rows is None:
                return False
            self._rows.append(rows)
        elif stored is not operand:
            return False
        self._look_once(operand, stored)
        return True

    def _look_once(self, operand: Any, stored: Sparse) -> None:
        if all(one is not operand for one in self._walked):
            self._walked.append(operand)
            self._looked += looked_at(stored)

    def call(self, coefficient: Number) -> KnownCall | None:
        problem, program = self._problem, self._executable.program
        dtype = problem.computed_type.numpy_dtype()
        shapes = [(array.shape, array.strides) for array in self._arrays]
        strides = np.empty(problem.shape, dtype).strides
        expected = tuple(
            EntryOperand(
                slot=slot,
                data_type=tensor.data_type,
                shape=shape,
                strides_bytes=strides_bytes,
                writable=tensor.name in self._executable.written,
            )
            for slot, (tensor, (shape, strides_bytes)) in enumerate(
                zip(program.tensors, [*shapes, (problem.shape, strides)], strict=True)
            )
        )
        entry = bind_entry(self._executable.native, expected)
        if entry is None:
            return None
        return KnownCall(
            entry=entry,
            executable=self._executable,
            sources=tuple(self._sources.items()),
            arguments=tuple(self._fixed),
            given=tuple(self._given),
            rows=tuple(self._rows),
            looked=tuple(self._looked),
            copied=tuple(dict.fromkeys(self._copied)),
            shape=problem.shape,
            dtype=dtype,
            coefficient=coefficient,
        )


def _rows_of(number: int, operand: Any, stored: Sparse, place: int) -> Rows | None:
    """A matrix whose own arrays are walked; None for every other operand."""
    arrays = [getattr(operand, name, None) for name in ("data", "indptr", "indices")]
    levels = [level for level in stored.stored if level]
    if len(levels) != 1 or any(type(array) is not _ndarray for array in arrays):
        return None
    parts = (stored.values, levels[0].pos, levels[0].crd)
    if not all(map(_is_memory_of, parts, arrays)):
        return None
    return Rows(number, tuple(operand.shape), arrays[1], arrays[2], place)


def _is_memory_of(flat: Array, given: Any) -> bool:
    """True where a vector is all the memory of a plain array, in its order."""
    is_same = address_of(flat) == address_of(given)
    return is_same and flat.size == given.size and flat.dtype == given.dtype
