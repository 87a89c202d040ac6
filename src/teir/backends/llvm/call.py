"""An entry point as the call of a plan: ``call(a, b, out=c)`` gives ``c`` back."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from typing import Any

from teir.backends.llvm.call_ir import CALL
from teir.backends.llvm.entry import MethodDefinition, entry_record, function_of
from teir.backends.llvm.library import code_library
from teir.runtime import runtime
from teir.target import Isa

_METH_VARARGS_KEYWORDS = 0x01 | 0x02
_OUT = sys.intern("out")


def bind_call(
    entry: Callable[..., Any], arrays: int, otherwise: Callable[..., Any], isa: Isa
) -> Callable[..., Any]:
    """A function that runs ``entry``, made by `bind_entry` for ``arrays`` of them, the output last.

    Called with all inputs and ``out=``, it returns ``out``. Every other call, and every one that
    the entry point declines, is a call of ``otherwise`` with the same arguments.
    """
    function = code_library(runtime.current(), isa).control()[CALL]
    definition = MethodDefinition(
        b"call", function, _METH_VARARGS_KEYWORDS, b"Run the compiled program."
    )
    record = array("q", (arrays, entry_record(entry), id(_OUT), id(otherwise)))
    return function_of(definition, record.tobytes(), (entry, otherwise))
