"""Sums over three sparse matrices that meet in a ring, compiled: triangles, where they are one.

    out[i] = sum over j, k of P[i,j] Q[j,k] M[i,k]

Row i of M is written into a dense row; every element of row i of P then asks for one sparse dot
product of a row of Q with it, in four chains. Nothing is intersected element by element.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from teir.backends.llvm.cached_code import cached_function
from teir.backends.llvm.fibre_sums import NUMBERS
from teir.backends.llvm.fibre_words import fused_name, index_text, span_text
from teir.dtypes import DataType
from teir.runtime.runtime import current
from teir.target import Isa

Array = np.ndarray[Any, np.dtype[Any]]
Matrix = tuple[Array, Array, Array]
"""Bounds of rows, coordinates and values."""

MaskedRows = Callable[[range, Matrix, Matrix, Matrix, Array, Array], None]
"""``sums(rows, P, Q, M, dense, out)``: writes ``out[i]`` for these rows.

The caller has looked at the index arrays, all of one type. ``dense`` is zero, as long as rows of M
and Q are, and zero again afterwards.
"""

_CHAINS = 4


def masked_rows(isa: Isa, width: int, data_type: DataType) -> MaskedRows:
    """The loops for index arrays of ``width`` bytes (4 or 8); other threads run while they do."""
    number = NUMBERS[data_type]
    name = f"masked rows {isa.value} {width} {number}"
    return current().once(name, lambda: _bound(isa, width, number))


def _bound(isa: Isa, width: int, number: str) -> MaskedRows:
    symbol = f"teir_masked_rows_{8 * width}_{number}"
    text = _function(symbol, width, number)
    kinds = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 11
    run = cached_function("masked rows", isa, symbol, text, None, *kinds)

    def sums(rows: range, p: Matrix, q: Matrix, m: Matrix, dense: Array, out: Array) -> None:
        arrays = (*p, *q, *m, dense, out)
        run(rows.start, rows.stop, *(array.ctypes.data for array in arrays))

    return sums


def _function(symbol: str, width: int, number: str) -> str:
    """The function's definition in LLVM IR."""
    index = f"i{8 * width}"
    chains = range(_CHAINS)
    bounds = span_text("m.begin", "m.end", "%m.pos", "%i", width)
    bounds += span_text("p.begin", "p.end", "%p.pos", "%i", width)
    starts = "\n".join(
        f"  %s{n} = phi {number} [ 0.0, %dot ], [ %s{n}.next, %four.do ]" for n in chains
    )
    steps = "\n".join(_step(f"{n}", n, f"%s{n}", index, number) for n in chains)
    return f"""
define void @{symbol}(i64 %first, i64 %end, ptr %p.pos, ptr %p.crd, ptr %p.val,
    ptr %q.pos, ptr %q.crd, ptr %q.val, ptr %m.pos, ptr %m.crd, ptr %m.val,
    ptr noalias %dense, ptr noalias %out) nounwind {{
entry:
  br label %row
row:
  %i = phi i64 [ %first, %entry ], [ %i.next, %clear ]
  %i.more = icmp slt i64 %i, %end
  br i1 %i.more, label %row.do, label %done
row.do:
  %i.next = add i64 %i, 1
{bounds}  br label %spread
spread:
  %m = phi i64 [ %m.begin, %row.do ], [ %m.next, %spread.do ]
  %m.more = icmp slt i64 %m, %m.end
  br i1 %m.more, label %spread.do, label %element
spread.do:
  %k.at = getelementptr {index}, ptr %m.crd, i64 %m
  %k = load {index}, ptr %k.at
  %mask.at = getelementptr {number}, ptr %m.val, i64 %m
  %mask = load {number}, ptr %mask.at
  %cell.at = getelementptr {number}, ptr %dense, {index} %k
  store {number} %mask, ptr %cell.at
  %m.next = add i64 %m, 1
  br label %spread
element:
  %p = phi i64 [ %p.begin, %spread ], [ %p.next, %added ]
  %sum = phi {number} [ 0.0, %spread ], [ %sum.next, %added ]
  %p.more = icmp slt i64 %p, %p.end
  br i1 %p.more, label %dot, label %told
dot:
  %p.next = add i64 %p, 1
{index_text("j", "%p.crd", "%p", width)}  %j.next = add i64 %j, 1
{span_text("q.begin", "q.end", "%q.pos", "%j", width)}  %q.whole = sub i64 %q.end, {_CHAINS}
  br label %four
four:
  %q = phi i64 [ %q.begin, %dot ], [ %q.four, %four.do ]
{starts}
  %q.more = icmp sle i64 %q, %q.whole
  br i1 %q.more, label %four.do, label %joined
four.do:
  %q.four = add i64 %q, {_CHAINS}
{steps}
  br label %four
joined:
  %s01 = fadd {number} %s0, %s1
  %s23 = fadd {number} %s2, %s3
  %s.all = fadd {number} %s01, %s23
  br label %one
one:
  %o = phi i64 [ %q, %joined ], [ %o.next, %one.do ]
  %s.one = phi {number} [ %s.all, %joined ], [ %slast.next, %one.do ]
  %o.more = icmp slt i64 %o, %q.end
  br i1 %o.more, label %one.do, label %added
one.do:
{_step("last", 0, "%s.one", index, number, "%o")}
  %o.next = add i64 %o, 1
  br label %one
added:
  %factor.at = getelementptr {number}, ptr %p.val, i64 %p
  %factor = load {number}, ptr %factor.at
  %sum.next = call {number} @{fused_name(number)}({number} %factor, {number} %s.one, {number} %sum)
  br label %element
told:
  %out.at = getelementptr {number}, ptr %out, i64 %i
  store {number} %sum, ptr %out.at
  br label %clear
clear:
  %e = phi i64 [ %m.begin, %told ], [ %e.next, %clear.do ]
  %e.more = icmp slt i64 %e, %m.end
  br i1 %e.more, label %clear.do, label %row
clear.do:
  %gone.at = getelementptr {index}, ptr %m.crd, i64 %e
  %gone = load {index}, ptr %gone.at
  %zero.at = getelementptr {number}, ptr %dense, {index} %gone
  store {number} 0.0, ptr %zero.at
  %e.next = add i64 %e, 1
  br label %clear
done:
  ret void
}}
declare {number} @{fused_name(number)}({number}, {number}, {number})
"""


def _step(name: str, offset: int, before: str, index: str, number: str, at: str = "%q") -> str:
    """One element of a row of Q times the dense row, added to a chain."""
    return f"""  %at{name} = add i64 {at}, {offset}
  %k{name}.at = getelementptr {index}, ptr %q.crd, i64 %at{name}
  %k{name} = load {index}, ptr %k{name}.at
  %v{name}.at = getelementptr {number}, ptr %q.val, i64 %at{name}
  %v{name} = load {number}, ptr %v{name}.at
  %d{name}.at = getelementptr {number}, ptr %dense, {index} %k{name}
  %d{name} = load {number}, ptr %d{name}.at
  %s{name}.next = call {number} @{fused_name(number)}({number} %v{name}, {number} %d{name},
                  {number} {before})"""
