"""16-bit numbers to FP32 and back, compiled: as fast as memory is read and written.

NumPy converts them one by one: 3 ns to a number of FP16, 17 ns back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from teir.backends.llvm.cached_code import cached_function
from teir.backends.llvm.emit_numbers import narrow, widen
from teir.backends.llvm.emit_text import FunctionText, vector
from teir.dtypes import DataType
from teir.runtime.runtime import current
from teir.target import Isa

Converted = Callable[[int, int, int], None]
"""``converted(numbers, count, result)``; the first and the last are addresses."""

SHORT = (DataType.BF16, DataType.FP16)
"""The types there are loops for, to FP32 and from it."""
_AT_ONCE = 32


def converted_values(isa: Isa, data_type: DataType, *, widens: bool) -> Converted:
    """The loop from a type of ``SHORT`` to FP32, or to it, rounded to nearest even."""
    way = "from" if widens else "to"
    name = f"converted values {isa.value} {way} {data_type.value}"
    return current().once(name, lambda: _bound(isa, data_type, widens))


def _bound(isa: Isa, data_type: DataType, widens: bool) -> Converted:
    symbol = f"teir_{'widen' if widens else 'narrow'}_{data_type.value.lower()}"
    text = conversion_function(symbol, isa, data_type, widens)
    kinds = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return cached_function("converted values", isa, symbol, text, None, *kinds)


def conversion_function(symbol: str, isa: Isa, data_type: DataType, widens: bool) -> str:
    """The function's definition in LLVM IR."""
    return f"""
define void @{symbol}(ptr noalias %numbers, i64 %count, ptr noalias %result) nounwind {{
entry:
  %over = urem i64 %count, {_AT_ONCE}
  %whole = sub i64 %count, %over
  br label %several
several:
  %i = phi i64 [ 0, %entry ], [ %i.next, %several.do ]
  %i.more = icmp ult i64 %i, %whole
  br i1 %i.more, label %several.do, label %one
several.do:
{_step(isa, data_type, widens, "several", "%i", _AT_ONCE)}
  %i.next = add i64 %i, {_AT_ONCE}
  br label %several
one:
  %j = phi i64 [ %whole, %several ], [ %j.next, %one.do ]
  %j.more = icmp ult i64 %j, %count
  br i1 %j.more, label %one.do, label %done
one.do:
{_step(isa, data_type, widens, "one", "%j", 1)}
  %j.next = add i64 %j, 1
  br label %one
done:
  ret void
}}
"""


def _step(isa: Isa, data_type: DataType, widens: bool, name: str, place: str, count: int) -> str:
    """``count`` numbers from ``place`` on; names of the step begin with its ``name``."""
    text = FunctionText()
    short, wide = "i16", "float"
    read, written = (short, wide) if widens else (wide, short)
    source = text.value(f"getelementptr {read}, ptr %numbers, i64 {place}")
    found = text.value(f"load {vector(read, count)}, ptr {source}, align 1")
    change = widen if widens else narrow
    made = change(text, data_type, isa, found, count)
    target = text.value(f"getelementptr {written}, ptr %result, i64 {place}")
    text.effect(f"store {vector(written, count)} {made}, ptr {target}, align 1")
    return text.text().replace("%v", f"%{name}.v")
