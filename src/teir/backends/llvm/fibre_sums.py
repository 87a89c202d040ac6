"""Rows of sums of products of sparse matrices, compiled: columns and numbers in one pass.

    row r of B C + D - E = sum of the rows of C that row r of B names, times its elements, + ...

As `teir.backends.llvm.fibre_unions`, which finds the columns alone; here every element is added to
a dense row on the way, so that the index arrays are walked once. Every result is one chain of fused
multiply-adds from zero on: terms in their order, elements in theirs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.backends.llvm.compile_ir import (
    compile_object,
    compiler_version,
    load_object,
    machine_for,
    module_text,
)
from teir.backends.llvm.fibre_sums_ir import SPARE, sums_function
from teir.backends.llvm.fibre_unions import Array, TermKind, marks_for, squeeze_of
from teir.backends.llvm.fibre_unions_ir import Squeeze
from teir.backends.llvm.fibre_words import TERM_WORDS
from teir.dtypes import DataType
from teir.runtime.object_cache import object_cache
from teir.runtime.runtime import current
from teir.target import Isa

NUMBERS = {DataType.FP64: "double", DataType.FP32: "float"}
"""The types of values there are loops for."""


@dataclass(frozen=True, slots=True)
class SumTerm:
    """One term: pos, crd and values of one level or two."""

    kind: TermKind
    left: tuple[Array, Array, Array]
    right: tuple[Array, Array, Array] | None
    is_negative: bool


@dataclass(frozen=True, slots=True)
class FibreSums:
    """The compiled loop for one width of index arrays and one type of values."""

    _sums: Callable[..., int]
    _owner: Any

    def sums(
        self,
        terms: Sequence[SumTerm],
        rows: range,
        marks: tuple[Array, Array],
        dense: Array,
        counts: Array,
        found: tuple[Array, Array],
    ) -> int:
        """How many columns ``rows`` reach; columns and values are written to ``found``.

        ``marks`` and ``dense`` are those of `sum_room`; the rest is as for `FibreUnions.unions`.
        """
        words = np.zeros((len(terms), TERM_WORDS), np.int64)
        for record, term in zip(words, terms, strict=True):
            pointers = _addresses(*term.left, *(term.right or ()))
            record[: 1 + len(pointers)] = (term.kind.value, *pointers)
            record[-1] = term.is_negative
        places = _addresses(*marks, dense)
        at = _addresses(words)
        ends = _addresses(counts, *found)
        columns = dense.size - SPARE
        return int(self._sums(rows.start, rows.stop, *at, len(terms), *places, columns, *ends))


def sum_room(columns: int, numbers: np.dtype[Any]) -> tuple[tuple[Array, Array], Array]:
    """Zeroed marks of columns and of lines, and a dense row."""
    return marks_for(columns), np.zeros(columns + SPARE, numbers)


def fibre_sums(isa: Isa, width: int, data_type: DataType) -> FibreSums:
    """The loop for index arrays of ``width`` bytes (4 or 8) and values of ``data_type``."""
    number = NUMBERS[data_type]
    key = f"fibre sums {isa.value} {width} {number}"
    return current().once(key, lambda: bound_sums(isa, width, number, squeeze_of(isa)))


def bound_sums(isa: Isa, width: int, number: str, squeeze: Squeeze) -> FibreSums:
    """The loop compiled."""
    symbol = f"teir_fibre_sums_{8 * width}_{number}"
    made = sums_function(symbol, width, number, squeeze)
    text = module_text([made], isa)
    key = "\n".join(("fibre sums", compiler_version(), str(machine_for(isa)), text)).encode()
    cache = current().once("object cache", lambda: object_cache(os.environ))
    data = cache.load(key)
    if data is None:
        data = compile_object(text, isa, (symbol,))
        cache.store(key, data)
    code = load_object(data, (symbol,))
    pointer, whole = ctypes.c_void_p, ctypes.c_int64
    places = (pointer, whole, pointer, pointer, pointer, whole, pointer, pointer, pointer)
    kind = ctypes.CFUNCTYPE(whole, whole, whole, *places)
    return FibreSums(kind(code.addresses[symbol]), code.owner)


def _addresses(*arrays: Array) -> tuple[int, ...]:
    return tuple(array.__array_interface__["data"][0] for array in arrays)
