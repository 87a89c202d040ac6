"""Marking which keys the pairs of a join reach: the inner loops of the symbolic phase, compiled.

Row r of the left relation meets rows first[r] to first[r] + counts[r] - 1 of the right one; the
key of a pair is the sum of a number of either row. Marks are bytes, one per key from 0 on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from teir.backends.llvm.cached_code import cached_function
from teir.runtime.runtime import current
from teir.target import Isa

Mark = Callable[[int, int, int, int, int, int], None]
"""``mark(left, first, counts, rows, right, marks)``: addresses of int64 arrays, and of the bytes.

Every ``left[r] + right[t]`` of a pair lies inside the marks: the caller has looked.
"""

_SYMBOL = "teir_pair_marks"

_TEXT = f"""
define void @{_SYMBOL}(ptr %left, ptr %first, ptr %counts, i64 %rows, ptr %right, ptr %marks) {{
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row.end ]
  %more = icmp slt i64 %r, %rows
  br i1 %more, label %open, label %done
open:
  %lp = getelementptr i64, ptr %left, i64 %r
  %fp = getelementptr i64, ptr %first, i64 %r
  %cp = getelementptr i64, ptr %counts, i64 %r
  %base = load i64, ptr %lp, align 8
  %start = load i64, ptr %fp, align 8
  %count = load i64, ptr %cp, align 8
  %cells = getelementptr i8, ptr %marks, i64 %base
  %end = add i64 %start, %count
  br label %pair
pair:
  %t = phi i64 [ %start, %open ], [ %t.next, %body ]
  %again = icmp slt i64 %t, %end
  br i1 %again, label %body, label %row.end
body:
  %rp = getelementptr i64, ptr %right, i64 %t
  %step = load i64, ptr %rp, align 8
  %cell = getelementptr i8, ptr %cells, i64 %step
  store i8 1, ptr %cell, align 1
  %t.next = add i64 %t, 1
  br label %pair
row.end:
  %r.next = add i64 %r, 1
  br label %row
done:
  ret void
}}
"""


def pair_marks(isa: Isa) -> Mark:
    """The compiled loops; other threads run while they do."""
    return current().once(f"pair marks {isa.value}", lambda: _bound(isa))


def _bound(isa: Isa) -> Mark:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kinds = (pointer, pointer, pointer, number, pointer, pointer)
    return cached_function("pair marks", isa, _SYMBOL, _TEXT, None, *kinds)
