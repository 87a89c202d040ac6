"""Code kept by its text: compiled once, taken from the disk afterwards, told apart by all it is."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import teir.backends.llvm.cached_code as module
from teir.backends.llvm.compile_ir import LoadedCode, host_isa
from teir.runtime.object_cache import ObjectCache


def number_text(number: int) -> str:
    return f"define i64 @number() {{\nentry:\n  ret i64 {number}\n}}"


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "objects")


def number_of(cache: ObjectCache, name: str, number: int) -> tuple[int, int]:
    """What the function of a text gives, and how often it was compiled."""
    with (
        mock.patch.object(module, "kept_objects", return_value=cache),
        mock.patch.object(module, "compile_object", wraps=module.compile_object) as compiling,
    ):
        code = module.cached_code(name, host_isa(), ("number",), [number_text(number)])
    result = int(ctypes.CFUNCTYPE(ctypes.c_int64)(code.addresses["number"])())
    return result, compiling.call_count


def test_is_compiled_once(cache: ObjectCache) -> None:
    assert number_of(cache, "one", 5) == (5, 1)
    assert number_of(cache, "one", 5) == (5, 0)


def test_other_texts_and_names_are_other_code(cache: ObjectCache) -> None:
    assert number_of(cache, "one", 5) == (5, 1)
    assert number_of(cache, "one", 6) == (6, 1)
    assert number_of(cache, "two", 5) == (5, 1)


def test_is_compiled_every_time_without_a_cache() -> None:
    assert number_of(ObjectCache(None), "one", 5) == (5, 1)
    assert number_of(ObjectCache(None), "one", 5) == (5, 1)


def test_code_lives_as_long_as_the_function_that_calls_it(cache: ObjectCache) -> None:
    with mock.patch.object(module, "kept_objects", return_value=cache):
        function: Any = module.cached_function(
            "one", host_isa(), "number", number_text(7), ctypes.c_int64
        )
    gc.collect()
    assert function() == 7
    held = [value for value in vars(function).values() if isinstance(value, LoadedCode)]
    assert [code.addresses.keys() for code in held] == [{"number"}]
