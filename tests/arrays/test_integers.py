"""Integers as callers may write them, and what only looks like one."""

from __future__ import annotations

import numpy as np
import pytest

from teir.arrays.integers import as_integer, listed


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_integers_of_every_kind(value: object) -> None:
    assert as_integer(value) == 3
    assert type(as_integer(value)) is int


@pytest.mark.parametrize(
    "value",
    [3.0, np.float64(3), np.array(3.5), np.array([1, 2]), np.array([[1], [0]]), "3", None, 3j],
    ids=repr,
)
def test_what_is_no_integer(value: object) -> None:
    assert as_integer(value) is None


def test_a_tensor_of_one_integer_is_one() -> None:
    torch = pytest.importorskip("torch")
    assert as_integer(torch.tensor(3)) == 3
    assert as_integer(torch.tensor([1, 2])) is None
    assert as_integer(torch.tensor(3.5)) is None


def test_numbers_of_any_length_are_listed() -> None:
    assert listed((3,)) == "(3,)"
    assert listed((3, -(10**5000))) == "(3, a number of 16610 bits)"
