"""The compiled symbolic phase: which columns every row of a sum of products reaches."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from teir.backends.llvm.fibre_unions import (
    ROOM,
    Term,
    TermKind,
    bound_unions,
    fibre_unions,
    marks_for,
    squeeze_of,
)
from teir.backends.llvm.fibre_unions_ir import Squeeze
from teir.target import Isa, host_target

Array = np.ndarray[Any, np.dtype[Any]]

HOST = host_target(os.environ).isa
ISAS = [isa for isa in (Isa.AVX512, Isa.AVX2, Isa.PLAIN) if isa.vector_bytes <= HOST.vector_bytes]
WAYS = [(isa, squeeze_of(isa)) for isa in ISAS]
if HOST is Isa.AVX512:
    WAYS.append((HOST, Squeeze.COLUMNS))
NOTHING = np.zeros(0, np.int64)


def fibres(random: np.random.Generator, rows: int, columns: int, longest: int) -> list[Array]:
    lengths = random.integers(0, min(longest, columns) + 1, rows)
    return [np.sort(random.choice(columns, length, replace=False)) for length in lengths]


def level(rows: list[Array], dtype: type[Any]) -> tuple[Array, Array]:
    pos = np.cumsum([0, *(row.size for row in rows)])
    return pos.astype(dtype), np.concatenate([NOTHING, *rows]).astype(dtype)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("columns", [1, 63, 64, 65, 900, 9000])
def test_unions_of_rows(way: tuple[Isa, Squeeze], dtype: type[Any], columns: int) -> None:
    random = np.random.default_rng(columns)
    run = bound_unions(way[0], np.dtype(dtype).itemsize, way[1])
    for longest in (1, 7, 8, 9, 40, 200):
        left, right = fibres(random, 30, 20, 6), fibres(random, 20, columns, longest)
        more, other = fibres(random, 30, columns, longest), fibres(random, 30, columns, longest)
        parts = [level(one, dtype) for one in (left, right, more, other)]
        flags = [np.zeros(one[0].size, np.uint8) for one in parts]
        (a, b, c, d) = ((*one, flag) for one, flag in zip(parts, flags, strict=True))
        terms = [
            Term(TermKind.PRODUCT, a, b),
            Term(TermKind.FIBRE, c, None),
            Term(TermKind.BOTH, c, d),
        ]
        products = [
            np.unique(np.concatenate([NOTHING, *(right[int(j)] for j in row)])) for row in left
        ]
        both = [np.intersect1d(x, y) for x, y in zip(more, other, strict=True)]
        either = [np.union1d(x, y) for x, y in zip(more, other, strict=True)]
        whole = [np.union1d(x, y) for x, y in zip(products, more, strict=True)]
        for chosen, expected in (
            (terms[:1], products),
            (terms[1:2], more),
            (terms[2:], both),
            ([terms[1], Term(TermKind.FIBRE, d, None)], either),
            (terms, whole),
        ):
            counts, marks = np.zeros(30, np.int64), marks_for(columns)
            found = np.zeros(sum(row.size for row in expected) + ROOM, dtype)
            total = run.unions(chosen, range(30), marks, counts, found)
            np.testing.assert_array_equal(counts, [row.size for row in expected])
            np.testing.assert_array_equal(found[:total], np.concatenate([NOTHING, *expected]))
            assert not any(one.any() for one in marks)


@pytest.mark.parametrize("isa", ISAS)
def test_rows_that_repeat_are_copied(isa: Isa) -> None:
    run = fibre_unions(isa, 4)
    rows = [np.array([0, 2]), np.array([0, 2]), np.array([1]), np.array([1])]
    pos, crd = level(rows, np.int32)
    same = run.same_rows(pos, crd)
    np.testing.assert_array_equal(same, [0, 1, 0, 1])
    right = level([np.array([5, 70]), np.array([3]), np.array([70, 300])], np.int32)
    counts, found = np.zeros(4, np.int64), np.zeros(8 + ROOM, np.int32)
    term = Term(TermKind.PRODUCT, (pos, crd, same), (*right, np.zeros(4, np.uint8)))
    total = run.unions([term], range(4), marks_for(301), counts, found)
    np.testing.assert_array_equal(counts, [3, 3, 1, 1])
    np.testing.assert_array_equal(found[:total], [5, 70, 300, 5, 70, 300, 3, 3])
