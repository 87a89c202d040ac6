"""A call without ``out`` makes the result; every other one is declined, or handed on."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backends.llvm.test_call import calls
from backends.llvm.test_entry import arrays


def test_the_result_is_a_new_array() -> None:
    a, b, out = arrays()
    made = calls()
    for function in (made.known, made.call):
        first, second = function(a, b), function(a, b)
        assert type(first) is np.ndarray
        assert (first.shape, first.dtype) == (out.shape, out.dtype)
        assert first.flags.owndata
        assert not np.shares_memory(first, second)
        np.testing.assert_array_equal(first, a + b)


OTHERS: dict[str, Callable[[Any, Any, Any], tuple[Any, ...]]] = {
    "nothing": lambda *_: (),
    "too few": lambda a, *_: (a,),
    "too many": lambda a, b, out: (a, b, out),
    "another type": lambda a, b, _: (a.astype(np.float64), b),
    "another shape": lambda a, b, _: (a[:2], b),
    "other strides": lambda a, b, _: (np.asfortranarray(a), b),
    "a list": lambda a, b, _: (a.tolist(), b),
    "another kind": lambda a, b, _: (a.view(np.matrix) if a.ndim == 2 else a.view(np.recarray), b),
    "None": lambda a, *_: (a, None),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_arguments_are_declined(name: str) -> None:
    given = OTHERS[name](*arrays())
    made = calls()
    assert made.known(*given) is NotImplemented
    found, named = made.call(*given)
    assert len(found) == len(given)
    assert all(left is right for left, right in zip(found, given, strict=True))
    assert named == {}


def test_no_room_for_the_result_is_left_to_the_caller() -> None:
    a, b, _ = arrays()
    made = calls(shape=(1 << 40, 1 << 20))
    assert made.known(a, b) is NotImplemented
    given, _ = made.call(a, b)
    assert given == (a, b) or given[0] is a


def test_a_result_of_another_shape_is_declined() -> None:
    a, b, _ = arrays()
    assert calls(shape=(2, 2)).known(a, b) is NotImplemented


def test_no_reference_is_lost_or_kept() -> None:
    made = calls(lambda *_, **__: None)
    a, b, _ = arrays()
    values = (a, b, NotImplemented, None, a.dtype, np.empty)
    counts = [sys.getrefcount(value) for value in values]
    for _ in range(1000):
        made.known(a, b)
        made.known(a, a.T)
        made.call(a, b)
        made.call(a, a.T)
    after = [sys.getrefcount(value) for value in values]
    assert all(abs(left - right) < 20 for left, right in zip(counts, after, strict=True))


def test_each_function_alone_keeps_what_it_needs() -> None:
    for name in ("known", "call"):
        function = getattr(calls(), name)
        gc.collect()
        filler = [np.ones(size) for size in range(1, 500)]
        a, b, _ = arrays()
        np.testing.assert_array_equal(function(a, b), a + b)
        assert len(filler) == 499
