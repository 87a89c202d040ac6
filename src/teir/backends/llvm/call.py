"""An entry point as the call of a plan: ``call(a, b, out=c)`` gives ``c`` back, ``call(a, b)`` a
new array."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from teir.backends.llvm.call_ir import CALL
from teir.backends.llvm.entry import METH_FASTCALL, MethodDefinition, entry_record, function_of
from teir.backends.llvm.library import code_library
from teir.backends.llvm.new_result_ir import KNOWN
from teir.runtime import runtime
from teir.target import Isa

_METH_VARARGS_KEYWORDS = 0x01 | 0x02
_OUT = sys.intern("out")
_NOTHING = ()


class NativeCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The two functions that `bind_calls` makes of an entry point."""

    call: Callable[..., Any]
    """Called with all inputs and ``out=`` it returns ``out``, with all inputs alone a new array.
    Every other call, and every one that the entry point declines, is a call of ``otherwise`` with
    the same arguments."""
    known: Callable[..., Any]
    """Called with all inputs it returns a new array, NotImplemented where ``otherwise`` would be
    called."""


def bind_calls(
    entry: Callable[..., Any],
    arrays: int,
    result: tuple[tuple[int, ...], np.dtype[Any]],
    new_tensor: Callable[[], Any],
    otherwise: Callable[..., Any],
    isa: Isa,
) -> NativeCalls:
    """The calls of ``entry``, made by `bind_entry` for ``arrays`` of them, the output last.

    New arrays have the shape and the dtype of ``result``; one without axes is made a scalar. Of
    tensors ``new_tensor`` makes the result.
    """
    functions = code_library(runtime.current(), isa).control()
    call = MethodDefinition(
        b"call", functions[CALL], _METH_VARARGS_KEYWORDS, b"Run the compiled program."
    )
    known = MethodDefinition(b"known", functions[KNOWN], METH_FASTCALL, b"Run, or decline to.")
    no_index = 0 if result[0] else id(_NOTHING)
    words = (
        *(arrays, entry_record(entry), id(_OUT), id(otherwise)),
        *(id(np.empty), id(result), no_index),
        *(id(new_tensor), id(_NOTHING)),
    )
    record = array("q", words).tobytes()
    owners = (entry, otherwise, result, np.empty, new_tensor)
    return NativeCalls(
        call=function_of(call, record, owners), known=function_of(known, record, owners)
    )
