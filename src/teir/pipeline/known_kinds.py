"""Calls with a matrix not seen before, of a kind seen before: straight to its program.

    for B in matrices: teir.einsum("ij,jk->ik", B, C)

What a plan depends on is the same for all matrices of a type, shape and mean row length (as a power
of two, as schedules are kept by): index arrays are looked at, and the program runs on them.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Protocol

import numpy as np

from teir.arrays.sparse_adapters import library_of
from teir.backends.llvm.fibre_unions import addresses
from teir.backends.llvm.index_check import Check
from teir.expr.index_notation import Number
from teir.pipeline.executable import Executable
from teir.pipeline.known_calls import KnownCall
from teir.pipeline.sparse_numbers import multiply_by
from teir.pipeline.sparse_results import NUMBERS

_ndarray = np.ndarray
_PARTS = 3
"""Values, bounds and coordinates, in this order among the arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKind:
    """A program for one matrix of a kind and dense arrays; ``matrix`` is the operand's number."""

    executable: Executable
    matrix: int
    place: int
    """Of its values among the arguments."""
    blocks: tuple[int, ...]
    """The shape of a value: () for a number, else that of a block."""
    fibres: int
    extent: int
    length: int
    """The power of two nearest to the mean length of its fibres."""
    check: Check
    given: tuple[tuple[int, int], ...]
    """(place among the arguments, number of the operand) of dense operands."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    coefficient: Number

    @property
    def sparse(self) -> tuple[int, ...]:
        """The numbers of the matrices among the operands."""
        return (self.matrix,)

    def run(self, operands: Sequence[Any]) -> Any:
        """The result; NotImplemented, and nothing done, for matrices that are planned for."""
        value = operands[self.matrix]
        if not is_of_kind(value, self.blocks, self.fibres, self.length):
            return NotImplemented
        pos, crd, data = value.indptr, value.indices, value.data
        result = np.empty(self.shape, self.dtype)
        arrays: list[Any] = [result] * (len(self.given) + _PARTS + 1)
        arrays[self.place : self.place + _PARTS] = data, pos, crd
        for place, number in self.given:
            arrays[place] = operands[number]
        where = addresses(*arrays)
        if self.check(
            where[self.place + 1], self.fibres, where[self.place + 2], crd.size, self.extent
        ):
            return NotImplemented
        self.executable.run_addresses(where)
        if self.coefficient != 1:
            multiply_by(result, self.coefficient)
        return result if self.shape else result[()]


def is_of_kind(value: Any, blocks: tuple[int, ...], fibres: int, length: int) -> bool:
    """Whether a matrix has rows as a kind has them, so many and as long, in memory as programs
    read it; ``blocks`` is the shape of a value."""
    pos, crd, data = value.indptr, value.indices, value.data
    stored = crd.size
    if not stored or data.shape != (stored, *blocks) or crd.shape != (stored,):
        return False
    if pos.shape != (fibres + 1,) or round(log2(stored / fibres)) != length:
        return False
    return bool(pos.flags.c_contiguous and crd.flags.c_contiguous and data.flags.c_contiguous)


def kind_of_call(call: KnownCall, operands: Sequence[Any]) -> KnownKind | None:
    """What a known call says of others like it; None where it says nothing.

    One matrix whose own arrays are walked, beside dense arrays.
    """
    if len(call.rows) != 1 or len(call.looked) != 1 or call.copied or len(call.sources) != 1:
        return None
    ((rows,), (looked,)) = call.rows, call.looked
    parts = call.arguments[rows.place : rows.place + _PARTS]
    is_whole = len(call.arguments) == len(call.given) + _PARTS
    if not is_whole or parts[1] is not looked.pos or parts[2] is not looked.crd:
        return None
    _, fibres, _, stored, extent = looked.arguments
    if not fibres or not stored or type(operands[rows.operand].data) is not _ndarray:
        return None
    return KnownKind(
        executable=call.executable,
        matrix=rows.operand,
        place=rows.place,
        blocks=operands[rows.operand].data.shape[1:],
        fibres=fibres,
        extent=extent,
        length=round(log2(stored / fibres)),
        check=looked.check,
        given=call.given,
        shape=call.shape,
        dtype=call.dtype,
        coefficient=call.coefficient,
    )


class Kind(Protocol):
    """What runs operands of some types and shapes; ``sparse`` are the numbers of the matrices."""

    @property
    def sparse(self) -> tuple[int, ...]: ...

    def run(self, operands: Sequence[Any]) -> Any: ...


@dataclass(slots=True)
class KindEntry:
    """A kind, and the matrices that its programs ran on last."""

    kind: Kind
    latest: tuple[weakref.ref[Any], ...]

    def run(self, operands: Sequence[Any]) -> Any:
        """The result; NotImplemented for matrices that come again, which are worth knowing."""
        matrices = [operands[number] for number in self.kind.sparse]
        if all(one() is matrix for one, matrix in zip(self.latest, matrices, strict=True)):
            return NotImplemented
        result = self.kind.run(operands)
        if result is not NotImplemented:
            self.latest = tuple(map(weakref.ref, matrices))
        return result


def entry_of(kind: Kind, operands: Sequence[Any]) -> KindEntry:
    """The entry of a kind that these operands were just computed with."""
    return KindEntry(kind, tuple(weakref.ref(operands[number]) for number in kind.sparse))


def signature(operands: Sequence[Any]) -> Hashable:
    """Everything but numbers and positions that tells these operands; None for other kinds.

    Of matrices those of SciPy, which say all of that by their class: others may have values that
    are not stored, or the axes of their rows, besides.
    """
    parts: list[Any] = []
    for one in operands:
        if type(one) is _ndarray:
            parts += (one.dtype, one.shape, one.strides)
            continue
        if type(one) in NUMBERS:
            parts.append(type(one))
            continue
        if library_of(one) != "scipy":
            return None
        pos = getattr(one, "indptr", None)
        if type(pos) is not _ndarray:
            return None
        crd, data = getattr(one, "indices", None), getattr(one, "data", None)
        if type(crd) is not _ndarray or type(data) is not _ndarray:
            return None
        if not isinstance(one.shape, tuple):
            return None
        parts += (type(one), one.shape, pos.dtype, crd.dtype, data.dtype)
    return tuple(parts)
