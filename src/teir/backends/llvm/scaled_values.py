"""Values times a number, compiled: what a sparse result stores where its pattern is an operand's.

Every value is one fused multiply-add from zero on, as in the programs of other products.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from teir.backends.llvm.cached_code import cached_function
from teir.backends.llvm.fibre_sums import NUMBERS
from teir.dtypes import DataType
from teir.runtime.runtime import current
from teir.target import Isa

Scaled = Callable[[int, int, float, int], None]
"""``scaled(values, count, number, result)``; the first and the last are addresses."""

_AT_ONCE = 4
"""Vectors of a step."""


def scaled_values(isa: Isa, data_type: DataType) -> Scaled:
    """The loop for values of a type of `fibre_sums.NUMBERS`."""
    number = NUMBERS[data_type]
    return current().once(f"scaled values {isa.value} {number}", lambda: _bound(isa, number))


def _bound(isa: Isa, number: str) -> Scaled:
    symbol = f"teir_scaled_{number}"
    text = scaled_function(symbol, isa, number)
    kinds = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p)
    return cached_function("scaled values", isa, symbol, text, None, *kinds)


def scaled_function(symbol: str, isa: Isa, number: str) -> str:
    """The function's definition in LLVM IR."""
    lanes = max(1, isa.vector_bytes // (8 if number == "double" else 4))
    kind = f"<{lanes} x {number}>"
    narrow = "fadd double %wide, -0.0" if number == "double" else "fptrunc double %wide to float"
    suffix = "f64" if number == "double" else "f32"
    size = 8 if number == "double" else 4
    steps = "\n".join(_vector_text(part, lanes, number, suffix) for part in range(_AT_ONCE))
    return f"""
define void @{symbol}(ptr noalias %values, i64 %count, double %wide, ptr noalias %result)
    nounwind {{
entry:
  %scale = {narrow}
  %first = insertelement {kind} poison, {number} %scale, i64 0
  %scales = shufflevector {kind} %first, {kind} poison, <{lanes} x i32> zeroinitializer
  %address = ptrtoint ptr %result to i64
  %to.line = sub i64 0, %address
  %bytes = and i64 %to.line, {max(isa.vector_bytes, size) - 1}
  %unaligned = udiv i64 %bytes, {size}
  %head = call i64 @llvm.umin.i64(i64 %unaligned, i64 %count)
  %after = sub i64 %count, %head
  %over = srem i64 %after, {_AT_ONCE * lanes}
  %whole = sub i64 %count, %over
  br label %one
several:
  %i = phi i64 [ %head, %next ], [ %i.next, %several.do ]
  %i.more = icmp slt i64 %i, %whole
  br i1 %i.more, label %several.do, label %one
several.do:
{steps}
  %i.next = add i64 %i, {_AT_ONCE * lanes}
  br label %several
one:
  %j = phi i64 [ 0, %entry ], [ %j.next, %one.do ], [ %whole, %several ]
  %end = phi i64 [ %head, %entry ], [ %end, %one.do ], [ %count, %several ]
  %j.more = icmp slt i64 %j, %end
  br i1 %j.more, label %one.do, label %next
one.do:
  %value.at = getelementptr {number}, ptr %values, i64 %j
  %value = load {number}, ptr %value.at
  %product = call {number} @llvm.fma.{suffix}({number} %scale, {number} %value, {number} 0.0)
  %result.at = getelementptr {number}, ptr %result, i64 %j
  store {number} %product, ptr %result.at
  %j.next = add i64 %j, 1
  br label %one
next:
  %is.over = icmp eq i64 %j, %count
  br i1 %is.over, label %done, label %several
done:
  ret void
}}
declare i64 @llvm.umin.i64(i64, i64)
declare {number} @llvm.fma.{suffix}({number}, {number}, {number})
declare {kind} @llvm.fma.v{lanes}{suffix}({kind}, {kind}, {kind})
"""


def _vector_text(part: int, lanes: int, number: str, suffix: str) -> str:
    kind = f"<{lanes} x {number}>"
    return f"""  %i{part} = add i64 %i, {part * lanes}
  %from{part} = getelementptr {number}, ptr %values, i64 %i{part}
  %in{part} = load {kind}, ptr %from{part}, align 1
  %made{part} = call {kind} @llvm.fma.v{lanes}{suffix}({kind} %scales, {kind} %in{part},
                {kind} zeroinitializer)
  %to{part} = getelementptr {number}, ptr %result, i64 %i{part}
  store {kind} %made{part}, ptr %to{part}, align 1"""
