"""Native calls for operands seen before with a dense result: a product, or a sum of products."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.expr.index_notation import Number
from teir.pipeline.executable import Executable
from teir.pipeline.sparse_looks import Copied, Looked
from teir.pipeline.sparse_numbers import multiply_by

_ndarray = np.ndarray
_MOST_BYTES = 1 << 20
"""Of a sum that is written where the caller says. The long way computes the first product of a
larger one in place: pages for that would cost more than the long way does."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A matrix of another library: whether its parts are those seen, and where its values go."""

    operand: int
    shape: tuple[int, ...]
    indptr: Any
    indices: Any
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCall:
    """The native call for some operands; ``arguments`` are its arrays but for what calls give."""

    entry: Callable[..., Any]
    executable: Executable
    """What ``entry`` runs, for other arrays."""
    sources: tuple[tuple[int, weakref.ref[Any]], ...]
    arguments: tuple[Any, ...]
    given: tuple[tuple[int, int], ...]
    """(place among the arguments, number of the operand) of dense operands."""
    rows: tuple[Rows, ...]
    looked: tuple[Looked, ...]
    copied: tuple[Copied, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    coefficient: Number

    def run(self, operands: Sequence[Any], out: Any) -> Any:
        """The result; NotImplemented, and nothing written, where something is not as it was."""
        for number, source in self.sources:
            if source() is not operands[number]:
                return NotImplemented
        arguments = list(self.arguments)
        for one in self.rows:
            value = operands[one.operand]
            is_same = value.indptr is one.indptr and value.indices is one.indices
            if not is_same or value.shape != one.shape:
                return NotImplemented
            arguments[one.place] = value.data
        for looked in self.looked:
            if not looked.is_walkable():
                return NotImplemented
        for copied in self.copied:
            if not copied.is_as_seen(operands):
                return NotImplemented
        for place, number in self.given:
            arguments[place] = operands[number]
        result = np.empty(self.shape, self.dtype) if out is None else out
        if self.entry(*arguments, result) is NotImplemented:
            return NotImplemented
        if self.coefficient != 1:
            multiply_by(result, self.coefficient)
        return result if self.shape or out is not None else result[()]

    def arrays(self, operands: Sequence[Any]) -> Iterator[Any]:
        """All memory that the call reads, or more."""
        yield from (array for array in self.arguments if array is not None)
        yield from (operands[one.operand].data for one in self.rows)
        yield from (operands[number] for _, number in self.given)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSum:
    """The native calls for the terms of a sum, with ``accumulates`` added to what is there."""

    calls: tuple[KnownCall, ...]
    accumulates: bool

    @property
    def sources(self) -> tuple[tuple[int, weakref.ref[Any]], ...]:
        return tuple(source for call in self.calls for source in call.sources)

    def run(self, operands: Sequence[Any], out: Any) -> Any:
        """The result; NotImplemented, and nothing written, where something is not as it was."""
        is_right = not self.accumulates if out is None else self._takes(operands, out)
        if not is_right:
            return NotImplemented
        total: Any = None
        spare: Any = None
        for number, call in enumerate(self.calls, start=1):
            term = call.run(operands, spare)
            if term is NotImplemented:
                return NotImplemented
            is_last = out is not None and number == len(self.calls) and not self.accumulates
            place = out if is_last else _place(total)
            if total is None:
                total = term
                continue
            spare = _place(term)
            total = np.add(total, term, out=place)
        return np.add(out, total, out=out) if self.accumulates else total

    def _takes(self, operands: Sequence[Any], out: Any) -> bool:
        """False where the result is large, or has to be looked at closer, and perhaps refused."""
        first = self.calls[0]
        if type(out) is not _ndarray or out.dtype != first.dtype or out.shape != first.shape:
            return False
        flags = out.flags
        if not flags.c_contiguous or not flags.writeable or out.nbytes > _MOST_BYTES:
            return False
        for call in self.calls:
            for array in call.arrays(operands):
                if np.may_share_memory(out, array):
                    return False
        return True


def _place(total: Any) -> Any:
    """The array itself, to write there again; None for a number."""
    return total if isinstance(total, _ndarray) else None
