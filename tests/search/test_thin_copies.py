"""Permutations of one short and one long side are squares, without scratch, whatever their size."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import assert_exact
from search.test_streamed_copies import TILES, USUAL, permuted
from teir.dtypes import DataType
from teir.lower.copy_kernels import PermuteCopy, ShortTranspose, StreamCopy, TransposeCopy
from teir.lower.explanation import count_calls
from teir.lower.kernels import Elementwise
from teir.lower.lower import lower
from teir.search.machine import Machine
from teir.target import Isa

THIN = (
    ("ij->ji", {"i": 10, "j": 200_000}, DataType.FP32),
    ("ij->ji", {"i": 200_000, "j": 7}, DataType.FP64),
    ("ij->ji", {"i": 3, "j": 300_001}, DataType.FP64),
    ("ij->ji", {"i": 60, "j": 8000}, DataType.FP64),
    ("bij->bji", {"b": 32, "i": 4, "j": 5000}, DataType.FP64),
    ("bij->bji", {"b": 32, "i": 50_176, "j": 3}, DataType.FP32),
)
LONG = (
    ("ij->ji", {"i": 100, "j": 21_000}, DataType.FP64),
    ("ij->ji", {"i": 60, "j": 40_000}, DataType.FP64),
    ("ij->ji", {"i": 13, "j": 400_000}, DataType.C128),
    ("bij->bji", {"b": 7000, "i": 20, "j": 30}, DataType.FP32),
    ("ibj->jbi", {"i": 4, "b": 300, "j": 900}, DataType.FP64),
)

MIDDLE = (
    ("ij->ji", {"i": 100, "j": 5000}, DataType.FP64),
    ("ij->ji", {"i": 60, "j": 20_000}, DataType.FP64),
    ("bij->bji", {"b": 4000, "i": 20, "j": 30}, DataType.FP32),
)
"""Of more than 3 and less than 16 MB."""


def kinds(text: str, extents: dict[str, int], machine: Machine, data_type: DataType) -> set[type]:
    program = permuted(text, extents, machine, data_type)
    return {type(kernel) for kernel in count_calls(lower(program, Isa.AMX).roots)}


@pytest.mark.parametrize(("text", "extents", "data_type"), [*THIN, *MIDDLE])
@pytest.mark.parametrize("threads", [1, 2])
def test_short_sides_make_squares(text, extents, data_type, threads: int) -> None:
    machine = replace(TILES, threads=threads)
    assert kinds(text, extents, machine, data_type) <= {TransposeCopy, ShortTranspose, Elementwise}


@pytest.mark.parametrize(("text", "extents", "data_type"), LONG)
def test_other_large_permutations_are_one_tile(text, extents, data_type) -> None:
    assert kinds(text, extents, TILES, data_type) <= {PermuteCopy, StreamCopy}


@pytest.mark.parametrize(("text", "extents", "data_type"), THIN[:2])
def test_where_many_rows_are_followed_they_are_one_tile(text, extents, data_type) -> None:
    assert len(permuted(text, extents, USUAL, data_type).primitives) == 1


@pytest.mark.parametrize("case", range(len(THIN)))
@pytest.mark.parametrize("threads", [1, 2])
def test_every_element_is_copied(case: int, threads: int) -> None:
    text, extents, data_type = THIN[case]
    program = permuted(text, extents, replace(TILES, threads=threads), data_type)
    assert_exact(program, text, extents, data_type, case)
