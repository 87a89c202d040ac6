# ruff: noqa: ARG005  (all mismatches have one signature)
"""The entry point runs on exactly what it expects and declines everything else untouched."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import numpy as np
import pytest

from backends.llvm.small_programs import add, grid, loop, product, program, steps
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.entry import EntryOperand, bind_entry
from teir.backends.llvm.native import NativeProgram, bind_native
from teir.dtypes import DataType

SUM = program(
    "a b out",
    loop(
        3,
        steps((0, 4), (1, 4), (2, 4)),
        loop(4, steps((0, 1), (1, 1), (2, 1)), add((0, 0), (1, 0), (2, 0))),
    ),
)
SHAPE = (3, 1, 4)


def native_sum(threads: int = 1) -> NativeProgram:
    return bind_native(SUM, host_isa(), threads)


def operands(data_type: DataType = DataType.FP32) -> tuple[EntryOperand, ...]:
    return tuple(
        EntryOperand(
            slot=number,
            data_type=data_type,
            shape=SHAPE,
            strides_bytes=(16, 16, 4),
            writable=number == 2,
        )
        for number in range(3)
    )


def arrays() -> list[np.ndarray]:
    numbers = np.random.default_rng(1)
    return [numbers.standard_normal(SHAPE).astype(np.float32) for _ in range(3)]


def entry() -> Any:
    made = bind_entry(native_sum(), operands())
    assert made is not None
    return made


def test_expected_arrays_run() -> None:
    a, b, out = arrays()
    assert entry()(a, b, out) is None
    np.testing.assert_array_equal(out, a + b)


def test_the_stride_of_one_element_is_free() -> None:
    a, b, out = arrays()
    odd = np.lib.stride_tricks.as_strided(a, SHAPE, (16, 4000, 4))
    assert entry()(odd, b, out) is None
    np.testing.assert_array_equal(out, a + b)


def read_only(array: np.ndarray) -> np.ndarray:
    copied = array.copy()
    copied.flags.writeable = False
    return copied


MISMATCHES = {
    "too few": lambda a, b, out: (a, b),
    "too many": lambda a, b, out: (a, b, out, out),
    "no buffer": lambda a, b, out: (a, 3.0, out),
    "None": lambda a, b, out: (None, b, out),
    "another type of the same width": lambda a, b, out: (a.view(np.int32), b, out),
    "another width": lambda a, b, out: (a.astype(np.float64), b, out),
    "byte-swapped": lambda a, b, out: (a.astype(">f4"), b, out),
    "complex": lambda a, b, out: (a.astype(np.complex64), b, out),
    "a view of memory": lambda a, b, out: (memoryview(a), b, out),
    "a subclass": lambda a, b, out: (np.ma.masked_array(a), b, out),
    "bytes": lambda a, b, out: (a.tobytes(), b, out),
    "another rank": lambda a, b, out: (a.reshape(12), b, out),
    "another extent": lambda a, b, out: (a[:2], b, out),
    "other strides": lambda a, b, out: (a[:, :, ::-1], b, out),
    "a wider row": lambda a, b, out: (np.zeros((3, 1, 5), np.float32)[:, :, :4], b, out),
    "read-only output": lambda a, b, out: (a, b, read_only(out)),
    "output is an input": lambda a, b, out: (out, b, out),
    "output overlaps an input": lambda a, b, out: overlapping(b),
}


def overlapping(b: np.ndarray) -> tuple[np.ndarray, ...]:
    memory = np.zeros(23, np.float32)
    return memory[11:].reshape(SHAPE), b, memory[:12].reshape(SHAPE)


@pytest.mark.parametrize("name", MISMATCHES)
def test_everything_else_is_declined_and_untouched(name: str) -> None:
    a, b, out = arrays()
    given = MISMATCHES[name](a, b, out)
    before = [value.copy() if isinstance(value, np.ndarray) else value for value in given]
    assert entry()(*given) is NotImplemented
    for left, right in zip(given, before, strict=True):
        if isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right)


OWN = np.dtype(np.float32, metadata={"unit": "m"})
"""A dtype object of its own, so that an array's fields are not enough to know it."""

ASKED = {
    "another rank": lambda a: a.reshape(12),
    "another extent": lambda a: a[:2],
    "other strides": lambda a: a[:, :, ::-1],
    "read-only": read_only,
}


def test_an_array_of_an_equal_dtype_is_asked_for_its_buffer() -> None:
    a, b, out = (array.astype(OWN) for array in arrays())
    assert a.dtype is not np.dtype(np.float32)
    assert entry()(a, b, out) is None
    np.testing.assert_array_equal(out, a + b)


@pytest.mark.parametrize("name", ASKED)
def test_a_buffer_that_does_not_fit_is_declined(name: str) -> None:
    a, b, out = (array.astype(OWN) for array in arrays())
    before = out.copy()
    assert entry()(a, b, ASKED[name](out)) is NotImplemented
    np.testing.assert_array_equal(out, before)


def test_bf16_arrays_are_known_by_their_dtype() -> None:
    function = bind_entry(native_sum(), operands(DataType.BF16))
    assert function is not None
    assert function(*arrays()) is NotImplemented
    halves = [np.zeros((3, 1, 8), np.float16)[..., ::2] for _ in range(3)]
    assert function(*halves) is NotImplemented


def test_neighbours_do_not_overlap() -> None:
    memory = np.arange(36, dtype=np.float32)
    a, out, b = (part.reshape(SHAPE) for part in np.split(memory, 3))
    assert entry()(a, b, out) is None
    np.testing.assert_array_equal(out, a + b)


def test_arrays_change_places_between_runs() -> None:
    function = entry()
    first, second, third = arrays()
    for a, b, out in ((first, second, third), (third, first, second), (third, first, second)):
        expected = a + b
        assert function(a, b, out) is None
        np.testing.assert_array_equal(out, expected)
        assert function(a, b, a) is NotImplemented
        assert function(a, out.reshape(-1)[::-1].reshape(SHAPE), out) is NotImplemented
        np.testing.assert_array_equal(out, expected)
        assert function(a, b, out) is None
        np.testing.assert_array_equal(out, expected)


def test_no_reference_is_lost_or_kept() -> None:
    function = entry()
    a, b, out = arrays()
    counts = [sys.getrefcount(value) for value in (a, b, out, NotImplemented)]
    for _ in range(1000):
        function(a, b, out)
        function(a, b, a)
        function(a, b, b.T)
        function(a, b, None)
    after = [sys.getrefcount(value) for value in (a, b, out, NotImplemented)]
    assert all(abs(left - right) < 10 for left, right in zip(counts, after, strict=True))


def test_the_function_alone_keeps_what_it_needs() -> None:
    function = bind_entry(native_sum(), operands())
    gc.collect()
    filler = [np.ones(size) for size in range(1, 500)]
    a, b, out = arrays()
    assert function is not None
    assert function(a, b, out) is None
    np.testing.assert_array_equal(out, a + b)
    assert len(filler) == 499


def test_callers_at_once_compute_or_are_declined() -> None:
    big = program(
        "a b out",
        grid(
            loop(2000, steps((0, 1), (1, 1), (2, 1)), add((0, 0), (1, 0), (2, 0))),
            axes=((8, steps((0, 2000), (1, 2000), (2, 2000)), None),),
        ),
    )
    native = bind_native(big, host_isa(), 2)
    shape = (16000,)
    expected = tuple(
        EntryOperand(
            slot=n, data_type=DataType.FP32, shape=shape, strides_bytes=(4,), writable=n == 2
        )
        for n in range(3)
    )
    function = bind_entry(native, expected)
    assert function is not None
    wrong: list[int] = []

    def call(seed: int) -> None:
        numbers = np.random.default_rng(seed)
        a, b = (numbers.standard_normal(shape).astype(np.float32) for _ in range(2))
        for _ in range(50):
            out = np.zeros(shape, np.float32)
            if function(a, b, out) is NotImplemented:
                native.run((a.ctypes.data, b.ctypes.data, out.ctypes.data))
            if not np.array_equal(out, a + b):
                wrong.append(seed)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_no_entry_where_there_can_be_none() -> None:
    long = program("a b c out", loop(2**40, (), product((0, 0), (1, 0), (2, 0), (3, 0))))
    assert bind_entry(bind_native(long, host_isa(), 1), operands()) is None
