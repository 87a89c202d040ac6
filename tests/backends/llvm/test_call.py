"""Calls with and without ``out`` run native code; every other one is a call of the function of
Python."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backends.llvm.test_entry import arrays, entry, read_only
from teir.backends.llvm.call import NativeCalls, bind_calls
from teir.backends.llvm.compile_ir import host_isa


def called_with(*given: Any, **named: Any) -> tuple[Any, Any]:
    return given, named


def calls(
    otherwise: Callable[..., Any] = called_with, shape: tuple[int, ...] | None = None
) -> NativeCalls:
    _, _, out = arrays()
    result = (out.shape if shape is None else shape, out.dtype)
    return bind_calls(entry(), 3, result, list, otherwise, host_isa())


def call(otherwise: Callable[..., Any] = called_with) -> Callable[..., Any]:
    return calls(otherwise).call


def test_out_is_written_and_given_back() -> None:
    a, b, out = arrays()
    assert call()(a, b, out=out) is out
    np.testing.assert_array_equal(out, a + b)


def test_a_name_made_at_run_time_names_the_same() -> None:
    a, b, out = arrays()
    name = "".join(("o", "u", "t"))
    assert call()(a, b, **{name: out}) is out
    np.testing.assert_array_equal(out, a + b)


OTHERS: dict[str, Callable[[Any, Any, Any], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "out in its place": lambda a, b, out: ((a, b, out), {}),
    "out is None": lambda a, b, _: ((a, b), {"out": None}),
    "too few": lambda a, _, out: ((a,), {"out": out}),
    "too many": lambda a, b, out: ((a, b, b), {"out": out}),
    "nothing": lambda *_: ((), {}),
    "only out": lambda _, __, out: ((), {"out": out}),
    "another name": lambda a, b, out: ((a, b), {"into": out}),
    "a second name": lambda a, b, out: ((a, b), {"out": out, "into": out}),
    "another type": lambda a, b, out: ((a, 2.0 * b.astype(np.float64)), {"out": out}),
    "a list": lambda a, b, out: ((a.tolist(), b), {"out": out}),
    "an output that overlaps": lambda a, b, _: ((a, b), {"out": a}),
    "a read-only output": lambda a, b, out: ((a, b), {"out": read_only(out)}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_call_is_handed_on_as_it_is(name: str) -> None:
    a, b, out = arrays()
    before = a.copy(), b.copy(), out.copy()
    given, named = OTHERS[name](a, b, out)
    found_given, found_named = call()(*given, **named)
    assert len(found_given) == len(given)
    assert all(found is one for found, one in zip(found_given, given, strict=True))
    assert list(found_named) == list(named)
    assert all(found_named[key] is named[key] for key in named)
    for array, old in zip((a, b, out), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_what_python_raises_is_raised() -> None:
    def refuse(*_given: Any, **_named: Any) -> None:
        raise ValueError("as expected")

    a, _, _ = arrays()
    with pytest.raises(ValueError, match="as expected"):
        call(refuse)(a)


def test_no_reference_is_lost_or_kept() -> None:
    function = call(lambda *_, **__: None)
    a, b, out = arrays()
    counts = [sys.getrefcount(value) for value in (a, b, out, NotImplemented, None)]
    for _ in range(1000):
        function(a, b, out=out)
        function(a, b, out=a)
        function(a, b)
        function(a, b, into=out)
    after = [sys.getrefcount(value) for value in (a, b, out, NotImplemented, None)]
    assert all(abs(left - right) < 20 for left, right in zip(counts, after, strict=True))


def test_the_function_alone_keeps_what_it_needs() -> None:
    function = call()
    gc.collect()
    filler = [np.ones(size) for size in range(1, 500)]
    a, b, out = arrays()
    assert function(a, b, out=out) is out
    np.testing.assert_array_equal(out, a + b)
    assert len(filler) == 499
