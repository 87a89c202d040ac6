"""Code kept on disk by the text it is compiled from: what a process needs beside the kernels.

The kernels of plans are kept by `teir.backends.llvm.library`, without writing their texts first.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from typing import Any

from teir.backends.llvm.compile_ir import (
    LoadedCode,
    compile_object,
    compiler_version,
    load_object,
    machine_for,
    module_text,
)
from teir.runtime.object_cache import ObjectCache, object_cache
from teir.runtime.runtime import Runtime, current
from teir.target import Isa


def kept_objects(runtime: Runtime) -> ObjectCache:
    """The process's cache of object code on disk."""
    return runtime.once("object cache", lambda: object_cache(os.environ))


def cached_code(
    name: str, isa: Isa, symbols: tuple[str, ...], functions: Iterable[str]
) -> LoadedCode:
    """Code of a module of these definitions, compiled where it is not on disk.

    ``name`` says in the key what is kept.
    """
    text = module_text(functions, isa)
    key = "\n".join((name, compiler_version(), str(machine_for(isa)), text)).encode()
    cache = kept_objects(current())
    data = cache.load(key)
    if data is None:
        data = compile_object(text, isa, symbols)
        cache.store(key, data)
    return load_object(data, symbols)


def cached_function(
    name: str, isa: Isa, symbol: str, definition: str, result: Any, *arguments: Any
) -> Callable[..., Any]:
    """The one function of such a module, called with ctypes types; other threads run meanwhile.

    Its code lives as long as it does.
    """
    code = cached_code(name, isa, (symbol,), [definition])
    function: Any = ctypes.CFUNCTYPE(result, *arguments)(code.addresses[symbol])
    function.code = code
    bound: Callable[..., Any] = function
    return bound
