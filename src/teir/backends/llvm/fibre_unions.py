"""The symbolic phase of sums of products of matrices, compiled: which columns every row reaches.

    row r of B C = the union of the rows of C whose numbers row r of B stores
    row r of B + C = what either stores;  of B * C, element by element, what both store

Two short fibres are merged; of two long ones that intersect, one is looked up in marks of the
other. For everything else there is a mark per column and one per line of 64 columns: the lines
between the first and the last column of a row are looked through in order, 64 at a time, so columns
come out sorted, and what was marked is cleared on the way. Most fibres are short: no loop but that
over steps of eight depends on their length. Rows that store what the row before stores are copied,
and not marked twice.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from teir.arrays.numpy_fields import address_of
from teir.backends.llvm.cached_code import cached_code
from teir.backends.llvm.compile_ir import machine_for
from teir.backends.llvm.fibre_unions_ir import (
    Squeeze,
    row_pairs_function,
    same_rows_function,
    unions_function,
)
from teir.backends.llvm.fibre_words import LINE, TERM_WORDS
from teir.runtime.runtime import current
from teir.target import Isa

Array = np.ndarray[Any, np.dtype[Any]]

ROOM = 64
"""Columns behind those of the rows that may be overwritten."""


_APART_BYTES = 128


class TermKind(Enum):
    """What a term adds to a row: a fibre, rows of a matrix that a fibre names, what two store."""

    FIBRE = 0
    PRODUCT = 1
    BOTH = 2


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a union: pos, crd and `FibreUnions.same_rows` of one level or two.

    Rows marked as the same by the first term's left level are the same for all terms.
    """

    kind: TermKind
    left: tuple[Array, Array, Array]
    right: tuple[Array, Array, Array] | None


@dataclass(frozen=True, slots=True)
class FibreUnions:
    """The compiled loops for one width of index arrays; other threads run while they do."""

    _pairs: Callable[..., int]
    _same: Callable[..., int]
    _unions: Callable[..., int]
    _owner: Any

    def pairs(self, pos: Array, crd: Array, right_pos: Array) -> Array:
        """Per row, and before the first one, how many pairs all rows up to it make."""
        sums = np.zeros(pos.size, np.int64)
        self._pairs(*addresses(pos, crd, right_pos), pos.size - 1, *addresses(sums))
        return sums

    def same_rows(self, pos: Array, crd: Array) -> Array:
        """A byte per row: 1 where it stores what the row before it stores."""
        flags = np.zeros(max(1, pos.size - 1), np.uint8)
        self._same(*addresses(pos, crd), pos.size - 1, *addresses(flags))
        return flags

    def unions(
        self,
        terms: Sequence[Term],
        rows: range,
        marks: tuple[Array, Array],
        counts: Array,
        columns: Array,
    ) -> int:
        """How many columns ``rows`` reach; they are written to ``columns``, per row to ``counts``.

        Index arrays are those of valid levels. ``marks``: zeroed bytes, `marks_for` the columns.
        ``columns`` has room for what the rows may reach and `ROOM` more.
        """
        words = np.zeros((len(terms), TERM_WORDS), np.int64)
        for record, term in zip(words, terms, strict=True):
            pointers = addresses(*term.left, *(term.right or ()))
            record[: 1 + len(pointers)] = (term.kind.value, *pointers)
        places = addresses(*marks, counts, columns)
        (at,) = addresses(words)
        return int(self._unions(rows.start, rows.stop, at, len(terms), *places))


def marks_for(columns: int) -> tuple[Array, Array]:
    """Zeroed marks for so many columns, and for their lines."""
    lines, mark = -(-columns // LINE), np.dtype(np.uint8)
    return zeros_apart(LINE * (lines + 1), mark), zeros_apart(lines + LINE, mark)


def zeros_apart(size: int, dtype: np.dtype[Any]) -> Array:
    """Zeros that share no cache line, nor the line fetched with it, with what others write."""
    room = np.zeros(size * dtype.itemsize + 2 * _APART_BYTES, np.uint8)
    return room[_APART_BYTES:-_APART_BYTES].view(dtype)


def squeeze_of(isa: Isa) -> Squeeze:
    """What this machine squeezes."""
    if not isa.is_avx512:
        return Squeeze.NOTHING
    has_bytes = "+avx512vbmi2" in machine_for(isa).features.split(",")
    return Squeeze.BYTES if has_bytes else Squeeze.COLUMNS


def fibre_unions(isa: Isa, width: int) -> FibreUnions:
    """The loops for index arrays of ``width`` bytes (4 or 8)."""
    key = f"fibre unions {isa.value} {width}"
    return current().once(key, lambda: bound_unions(isa, width, squeeze_of(isa)))


def bound_unions(isa: Isa, width: int, squeeze: Squeeze) -> FibreUnions:
    """The loops compiled."""
    words = ("row_pairs", "same_rows", "fibre_unions")
    symbols = tuple(f"teir_{word}_{8 * width}" for word in words)
    made = [
        row_pairs_function(symbols[0], width),
        same_rows_function(symbols[1], width),
        unions_function(symbols[2], width, squeeze),
    ]
    code = cached_code("fibre unions", isa, symbols, made)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kinds = (
        ctypes.CFUNCTYPE(number, pointer, pointer, pointer, number, pointer),
        ctypes.CFUNCTYPE(number, pointer, pointer, number, pointer),
        ctypes.CFUNCTYPE(number, number, number, pointer, number, *[pointer] * 4),
    )
    pairs, same, unions = (
        kind(code.addresses[symbol]) for kind, symbol in zip(kinds, symbols, strict=True)
    )
    return FibreUnions(pairs, same, unions, code.owner)


def addresses(*arrays: Array) -> tuple[int, ...]:
    """Where the arrays begin."""
    return tuple(address_of(array) for array in arrays)
