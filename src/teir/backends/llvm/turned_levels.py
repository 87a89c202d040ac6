"""Matrices stored row by row, stored column by column: a counting sort, compiled.

Two walks over the index arrays: one counts the elements of every column, one moves each to the next
free place of its column. Rows are walked in order, so that they ascend within every column.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from teir.backends.llvm.cached_code import cached_function
from teir.backends.llvm.fibre_words import index_text
from teir.runtime.runtime import current
from teir.target import Isa

Array = np.ndarray[Any, np.dtype[Any]]

Turn = Callable[[Array, Array, Array, int], tuple[Array, Array, Array]]
"""``turn(pos, crd, values, columns)``: pos, crd and values of the columns.

The caller has looked at the index arrays: both of one type, int32 or int64, bounds ascending from 0
to the number of values, coordinates below ``columns``.
"""

VALUE_BYTES = (2, 4, 8, 16)
"""Bytes of the values there are loops for."""


def turned_levels(isa: Isa, width: int, value_bytes: int) -> Turn:
    """The loops for index arrays of ``width`` bytes (4 or 8); other threads run while they do."""
    name = f"turned levels {isa.value} {width} {value_bytes}"
    return current().once(name, lambda: _bound(isa, width, value_bytes))


def _bound(isa: Isa, width: int, value_bytes: int) -> Turn:
    symbol = f"teir_turned_levels_{8 * width}_{8 * value_bytes}"
    text = _function(symbol, width, value_bytes)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kinds = (pointer, number, pointer, pointer, number, pointer, pointer, pointer)
    run = cached_function("turned levels", isa, symbol, text, None, *kinds)

    def turn(pos: Array, crd: Array, values: Array, columns: int) -> tuple[Array, Array, Array]:
        ends = np.zeros(columns + 2, pos.dtype)
        rows, moved = np.empty_like(crd), np.empty_like(values)
        given = [array.ctypes.data for array in (pos, crd, values, ends, rows, moved)]
        run(given[0], pos.size - 1, given[1], given[2], columns, *given[3:])
        return ends[:-1].copy(), rows, moved

    return turn


def _function(symbol: str, width: int, value_bytes: int) -> str:
    """The function's definition in LLVM IR.

    Columns are counted two places on: summed up, the entry behind a column's own is where it
    begins, and after the last element of the column where it ends.
    """
    index, value = f"i{8 * width}", f"i{8 * value_bytes}"
    return f"""
define void @{symbol}(ptr noalias %pos, i64 %rows, ptr noalias %crd, ptr noalias %values,
    i64 %columns, ptr noalias %ends, ptr noalias %turned, ptr noalias %moved) nounwind {{
entry:
  %behind = getelementptr {index}, ptr %ends, i64 1
  %counts = getelementptr {index}, ptr %ends, i64 2
{index_text("stored", "%pos", "%rows", width)}  br label %count
count:
  %p = phi i64 [ 0, %entry ], [ %p.next, %count.do ]
  %p.more = icmp slt i64 %p, %stored
  br i1 %p.more, label %count.do, label %sum
count.do:
  %c.at = getelementptr {index}, ptr %crd, i64 %p
  %c = load {index}, ptr %c.at
  %count.at = getelementptr {index}, ptr %counts, {index} %c
  %counted = load {index}, ptr %count.at
  %one.more = add {index} %counted, 1
  store {index} %one.more, ptr %count.at
  %p.next = add i64 %p, 1
  br label %count
sum:
  %s = phi i64 [ 0, %count ], [ %s.next, %sum.do ]
  %total = phi {index} [ 0, %count ], [ %total.next, %sum.do ]
  %s.more = icmp slt i64 %s, %columns
  br i1 %s.more, label %sum.do, label %row
sum.do:
  %sum.at = getelementptr {index}, ptr %counts, i64 %s
  %part = load {index}, ptr %sum.at
  %total.next = add {index} %total, %part
  store {index} %total.next, ptr %sum.at
  %s.next = add i64 %s, 1
  br label %sum
row:
  %r = phi i64 [ 0, %sum ], [ %r.next, %element ]
  %q = phi i64 [ 0, %sum ], [ %q.in, %element ]
  %r.more = icmp slt i64 %r, %rows
  br i1 %r.more, label %row.do, label %done
row.do:
  %r.next = add i64 %r, 1
{index_text("end", "%pos", "%r.next", width)}  %coordinate = {_narrowed("r", index)}
  br label %element
element:
  %q.in = phi i64 [ %q, %row.do ], [ %q.next, %element.do ]
  %q.more = icmp slt i64 %q.in, %end
  br i1 %q.more, label %element.do, label %row
element.do:
  %from.at = getelementptr {index}, ptr %crd, i64 %q.in
  %column = load {index}, ptr %from.at
  %next.at = getelementptr {index}, ptr %behind, {index} %column
  %place = load {index}, ptr %next.at
  %place.next = add {index} %place, 1
  store {index} %place.next, ptr %next.at
  %turned.at = getelementptr {index}, ptr %turned, {index} %place
  store {index} %coordinate, ptr %turned.at
  %value.at = getelementptr {value}, ptr %values, i64 %q.in
  %value = load {value}, ptr %value.at, align 1
  %moved.at = getelementptr {value}, ptr %moved, {index} %place
  store {value} %value, ptr %moved.at, align 1
  %q.next = add i64 %q.in, 1
  br label %element
done:
  ret void
}}
"""


def _narrowed(name: str, index: str) -> str:
    return f"add i64 %{name}, 0" if index == "i64" else f"trunc i64 %{name} to {index}"
