"""Rows of sums of products of sparse matrices, compiled: columns and numbers in one pass.

    row r of B C + D - E = sum of the rows of C that row r of B names, times its elements, + ...

As `teir.backends.llvm.fibre_unions`, which finds the columns alone; here every element is added to
a dense row on the way, so that the index arrays are walked once. Every result is one chain of fused
multiply-adds from zero on: terms in their order, elements in theirs. Rows of one product that few
elements make are listed, not marked (`teir.backends.llvm.fibre_short_ir`), with the same bits.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.backends.llvm.cached_code import cached_code
from teir.backends.llvm.fibre_sums_ir import SHARE_WORDS, SPARE, has_lists, sums_function
from teir.backends.llvm.fibre_unions import (
    Array,
    TermKind,
    addresses,
    marks_for,
    squeeze_of,
    zeros_apart,
)
from teir.backends.llvm.fibre_unions_ir import Squeeze
from teir.backends.llvm.shared_jobs import share_job
from teir.dtypes import DataType
from teir.runtime.runtime import current
from teir.target import Isa

_SPARSE_COLUMNS = 4
"""Columns per row of a product up to which stamps of all columns are worth clearing."""
NUMBERS = {DataType.FP64: "double", DataType.FP32: "float"}
"""The types of values there are loops for."""


@dataclass(frozen=True, slots=True)
class SumTerm:
    """One term: pos, crd and values of one level or two, and what all of it is multiplied by."""

    kind: TermKind
    left: tuple[Array, Array, Array]
    right: tuple[Array, Array, Array] | None
    scale: float
    addresses: tuple[int, ...]
    """Where the arrays begin; 0 for those there are not."""


@dataclass(frozen=True, slots=True)
class SumShare:
    """Consecutive rows, and where their columns and values go: room for all and `ROOM` more."""

    rows: range
    columns: Array
    values: Array


@dataclass(frozen=True, slots=True)
class SumRoom:
    """What a thread works in: marks of columns and of lines, a dense row; all zero.

    ``stamps`` say which row met a column last, and hold anything before.
    """

    marks: Array
    lines: Array
    dense: Array
    stamps: Array
    addresses: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class FibreSums:
    """The compiled loop for one width of index arrays and one type of values."""

    isa: Isa
    job: int
    owner: Any
    lists: bool
    """True where columns of rows of few products are listed, by the stamps of a room."""

    def sums(
        self,
        terms: Sequence[SumTerm],
        shares: Sequence[SumShare],
        rooms: Sequence[SumRoom],
        ends: Array,
    ) -> list[int]:
        """How many columns the rows of every share reach, by as many threads as there are rooms.

        Index arrays are those of valid levels. ``ends`` gets for every row how many the rows of its
        share up to it reach.
        """
        records = array("q", [word for term in terms for word in _record(term)])
        made = array("q")
        for one in shares:
            made.extend((one.rows.start, one.rows.stop, *addresses(one.columns, one.values), 0))
        is_listed = self._is_listed(terms, rooms)
        room = array("q")
        for given in rooms:
            *others, stamps = given.addresses
            room.extend((*others, stamps if is_listed else 0))
            if is_listed:
                given.stamps.fill(0)
        columns = rooms[0].dense.size - SPARE
        words = (_address(records), len(terms), columns, *addresses(ends))
        frame = array("q", (*words, _address(made), _address(room)))
        share_job(self.isa, self.job, _address(frame), len(shares), len(rooms))
        return made[SHARE_WORDS - 1 :: SHARE_WORDS].tolist()

    def _is_listed(self, terms: Sequence[SumTerm], rooms: Sequence[SumRoom]) -> bool:
        """True for one product whose rows may be short, of about as many columns as rows."""
        first = terms[0]
        if not self.lists or len(terms) > 1 or first.kind is not TermKind.PRODUCT:
            return False
        rows = first.left[0].size - 1
        return rooms[0].stamps.size <= _SPARSE_COLUMNS * rows


def sum_term(
    kind: TermKind,
    left: tuple[Array, Array, Array],
    right: tuple[Array, Array, Array] | None,
    scale: float,
) -> SumTerm:
    """A term on these arrays."""
    others = (0, 0, 0) if right is None else addresses(*right)
    return SumTerm(kind, left, right, scale, (*addresses(*left), *others))


def _record(term: SumTerm) -> tuple[int, ...]:
    """The words of a term: kind, three addresses of either level, the scale."""
    return (term.kind.value, *term.addresses, _bits(term.scale))


def _bits(number: float) -> int:
    """The bits of an FP64 as a word."""
    return array("q", array("d", [number]).tobytes())[0]


def _address(words: array[int]) -> int:
    return words.buffer_info()[0]


def sum_room(columns: int, numbers: np.dtype[Any]) -> SumRoom:
    """Room for so many columns of numbers."""
    dense = zeros_apart(columns + SPARE, numbers)
    arrays = (*marks_for(columns), dense, zeros_apart(columns, np.dtype(np.int32)))
    marks, lines, row, stamps = addresses(*arrays)
    return SumRoom(*arrays, (marks, lines, row, stamps))


def fibre_sums(isa: Isa, width: int, data_type: DataType) -> FibreSums:
    """The loop for index arrays of ``width`` bytes (4 or 8) and values of ``data_type``."""
    number = NUMBERS[data_type]
    key = f"fibre sums {isa.value} {width} {number}"
    return current().once(key, lambda: bound_sums(isa, width, number, squeeze_of(isa)))


def bound_sums(isa: Isa, width: int, number: str, squeeze: Squeeze) -> FibreSums:
    """The loop compiled."""
    symbol = f"teir_fibre_sums_{8 * width}_{number}"
    made = sums_function(symbol, width, number, squeeze)
    code = cached_code("fibre sums", isa, (symbol,), [made])
    lists = has_lists(width, squeeze)
    return FibreSums(isa, code.addresses[symbol], code.owner, lists)
