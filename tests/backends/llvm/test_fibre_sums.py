"""Rows of sums of products computed with their columns: against dense arithmetic on integers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from teir.backends.llvm.fibre_sums import (
    NUMBERS,
    FibreSums,
    SumRoom,
    SumShare,
    SumTerm,
    bound_sums,
    fibre_sums,
    sum_room,
    sum_term,
)
from teir.backends.llvm.fibre_unions import ROOM, TermKind, squeeze_of
from teir.backends.llvm.fibre_unions_ir import Squeeze
from teir.dtypes import DataType
from teir.soak.pages import GuardedPages
from teir.target import Isa, host_target

Array = np.ndarray[Any, np.dtype[Any]]
Level = tuple[Array, Array, Array]

HOST = host_target(os.environ).isa
ISAS = [isa for isa in (Isa.AVX512, Isa.AVX2, Isa.PLAIN) if isa.vector_bytes <= HOST.vector_bytes]
WAYS = [(isa, squeeze_of(isa)) for isa in ISAS]
if HOST is Isa.AVX512:
    WAYS.append((HOST, Squeeze.COLUMNS))
ROWS, INNER = 30, 20


def drawn(random: np.random.Generator, rows: int, columns: int, longest: int) -> Array:
    """Integers but no zeros where something is stored; some rows are empty."""
    array = np.zeros((rows, columns))
    for row in array:
        count = random.integers(0, min(longest, columns) + 1)
        row[random.choice(columns, count, replace=False)] = random.integers(1, 9, count)
    return array


def level(array: Array, width: type[Any], numbers: type[Any]) -> Level:
    rows, columns = np.nonzero(array)
    pos = np.searchsorted(rows, np.arange(array.shape[0] + 1))
    return pos.astype(width), columns.astype(width), array[rows, columns].astype(numbers)


def check(
    run: FibreSums, terms: list[SumTerm], expected: Array, stored: Array, room: SumRoom
) -> None:
    """The sums of ``terms`` are ``expected`` at all places that are ``stored``."""
    width, numbers = terms[0].left[0].dtype, terms[0].left[2].dtype
    total = int(stored.sum())
    found = np.zeros(total + ROOM, width), np.zeros(total + ROOM, numbers)
    ends = np.zeros(expected.shape[0], np.int64)
    share = SumShare(range(expected.shape[0]), *found)
    assert run.sums(terms, [share], [room], ends) == [total]
    np.testing.assert_array_equal(ends, np.cumsum(stored.sum(axis=1)))
    rows, columns = np.nonzero(stored)
    np.testing.assert_array_equal(found[0][:total], columns)
    np.testing.assert_array_equal(found[1][:total], expected[rows, columns])
    assert not room.marks.any()
    assert not room.lines.any()
    assert not room.dense[: expected.shape[1]].any()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("width", [np.int32, np.int64])
@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32])
@pytest.mark.parametrize("columns", [1, 8, 63, 65, 900])
def test_sums_of_rows(
    way: tuple[Isa, Squeeze], width: type[Any], data_type: DataType, columns: int
) -> None:
    random = np.random.default_rng(columns)
    numbers = data_type.numpy_dtype().type
    run = bound_sums(way[0], np.dtype(width).itemsize, NUMBERS[data_type], way[1])
    room = sum_room(columns, np.dtype(numbers))
    for longest in (0, 1, 4, 8, 9, 20, 70):
        b, c = drawn(random, ROWS, INNER, 6), drawn(random, INNER, columns, longest)
        d, e = drawn(random, ROWS, columns, longest), drawn(random, ROWS, columns, 9)
        e[::4] = d[::4]
        left, right, more, other = (level(one, width, numbers) for one in (b, c, d, e))
        reached = (b != 0).astype(int) @ (c != 0) > 0
        product = sum_term(TermKind.PRODUCT, left, right, scale=1.0)
        minus = sum_term(TermKind.PRODUCT, left, right, scale=-1.0)
        fibre = sum_term(TermKind.FIBRE, more, None, scale=1.0)
        less = sum_term(TermKind.FIBRE, other, None, scale=-1.0)
        both = sum_term(TermKind.BOTH, more, other, scale=1.0)
        not_both = sum_term(TermKind.BOTH, more, other, scale=-1.0)
        either = (d != 0) | (e != 0)
        for terms, expected, stored in (
            ([product], b @ c, reached),
            ([minus], -(b @ c), reached),
            ([fibre], d, d != 0),
            ([fibre, less], d - e, either),
            ([less, fibre], d - e, either),
            ([both], d * e, (d * e) != 0),
            ([not_both], -d * e, (d * e) != 0),
            ([product, less], b @ c - e, reached | (e != 0)),
            ([fibre, not_both, product], d - d * e + b @ c, reached | (d != 0)),
        ):
            check(run, terms, expected, stored, room)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32])
def test_rows_of_few_products_are_listed_in_order(
    way: tuple[Isa, Squeeze], data_type: DataType
) -> None:
    """Up to 64 products, in columns far apart or the same ones again; longer rows between them.

    The numbers have the bits that marked rows have, twice in a room.
    """
    random = np.random.default_rng(7)
    numbers, columns = data_type.numpy_dtype(), 700
    run = bound_sums(way[0], 4, NUMBERS[data_type], way[1])
    assert run.lists == (way[1] is not Squeeze.NOTHING)
    c = np.zeros((40, columns))
    for row, count in enumerate([0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 7, 8, 9, *[4] * 25]):
        low = 300 if row % 3 == 0 else columns
        c[row, random.choice(low, count, replace=False)] = 1
    b = np.zeros((250, 40))
    b[:40] = np.eye(40)
    for row in b[40:]:
        row[random.choice(40, random.integers(0, 9), replace=False)] = 1
    stored = b @ c > 0
    left, right = (level(one, np.int32, numbers) for one in (b, c))
    for values in (left[2], right[2]):
        values[:] = random.standard_normal(values.size)
    room = sum_room(columns, numbers)
    made = []
    for listed in (run.lists, False, run.lists):
        one = FibreSums(run.isa, run.job, run.owner, listed)
        term = sum_term(TermKind.PRODUCT, left, right, scale=-0.7)
        total = int(stored.sum())
        share = SumShare(
            range(250), np.zeros(total + ROOM, np.int32), np.zeros(total + ROOM, numbers)
        )
        assert one.sums([term], [share], [room], np.zeros(250, np.int64)) == [total]
        np.testing.assert_array_equal(share.columns[:total], np.nonzero(stored)[1])
        made.append(share.values[:total])
    np.testing.assert_array_equal(made[0], made[1])
    np.testing.assert_array_equal(made[0], made[2])
    assert not room.dense[:columns].any()


def guarded(array: Array, *, at_end: bool) -> Array:
    """The same numbers beside a page that nobody may touch."""
    content = array.view(np.uint8)
    return GuardedPages(content.size).place(content, at_end=at_end).view(array.dtype)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("lengths", [(1, 1), (5, 8), (8, 8), (9, 3), (30, 17), (0, 12)])
def test_fibres_beside_memory_of_others(isa: Isa, at_end: bool, lengths: tuple[int, int]) -> None:
    random = np.random.default_rng(3)
    run = fibre_sums(isa, 4, DataType.FP64)
    b, d, e = np.zeros((1, 1)), np.zeros((1, 64)), np.zeros((1, 64))
    b[0] = 3
    for array, length in zip((d, e), lengths, strict=True):
        array[0, random.choice(64, length, replace=False)] = random.integers(1, 9, length)
    left, first, second = (
        tuple(guarded(part, at_end=at_end) for part in level(array, np.int32, np.float64))
        for array in (b, d, e)
    )
    more = sum_term(TermKind.FIBRE, first, None, scale=1.0)
    other = sum_term(TermKind.FIBRE, second, None, scale=1.0)
    both = sum_term(TermKind.BOTH, first, second, scale=1.0)
    product = sum_term(TermKind.PRODUCT, left, first, scale=1.0)
    room = sum_room(64, np.dtype(float))
    either = (d != 0) | (e != 0)
    check(run, [more, other], d + e, either, room)
    check(run, [both], d * e, (d * e) != 0, room)
    check(run, [product], 3 * d, d != 0, room)
    check(run, [more, both, other], d + d * e + e, either, room)
