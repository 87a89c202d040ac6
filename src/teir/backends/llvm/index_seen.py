"""Index arrays that were a compressed level before: are they still? Compiled, in one pass each.

The bounds of fibres have to be those seen then. Fibres begin where they began, so that it is known
without them where a coordinate need not exceed the one before: one bit for each pair of neighbours.
Coordinates may be others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from teir.backends.llvm.cached_code import cached_function
from teir.runtime.runtime import current
from teir.target import Isa

Still = Callable[[int, int, int, int, int, int, int], int]
"""``still(pos, pos seen, entries, crd, stored, starts, extent)``: 0 where the level is one again.

1 where a bound is another, or something does not hold. Bit p of ``starts`` says whether a fibre
begins with the coordinate p + 1; there are ``stored - 1``.
"""

_LANES = 16


def still_level(isa: Isa, width: int) -> Still:
    """The check for index arrays of ``width`` bytes (4 or 8); it takes addresses."""
    return current().once(f"seen index check {isa.value} {width}", lambda: _bound(isa, width))


def _bound(isa: Isa, width: int) -> Still:
    symbol = f"teir_index_still_{8 * width}"
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kinds = (pointer, pointer, number, pointer, number, pointer, number)
    text = still_function(symbol, width)
    return cached_function("seen index check", isa, symbol, text, number, *kinds)


def still_function(symbol: str, width: int) -> str:
    """The function's definition in LLVM IR; every int32 coordinate is below 2^31."""
    element = f"i{8 * width}"
    kind = f"<{_LANES} x {element}>"
    suffix = f"v{_LANES}{element}"
    bound = "add i64 %extent, 0" if width == 8 else "trunc i64 %least to i32"
    return f"""
define i64 @{symbol}(ptr %pos, ptr %seen, i64 %entries, ptr %crd, i64 %stored, ptr %starts,
    i64 %extent) nounwind {{
entry:
  %least = call i64 @llvm.umin.i64(i64 %extent, i64 2147483648)
  %bound = {bound}
  %steps = sub i64 %stored, 1
  %pos.whole = and i64 %entries, {-_LANES}
  %crd.whole = and i64 %steps, {-_LANES}
  br label %bounds
{_bounds_text(element, kind, suffix)}
compared:
  %differs = icmp ne {element} %p.bits, 0
  br i1 %differs, label %no, label %some
some:
  %empty = icmp eq i64 %stored, 0
  br i1 %empty, label %yes, label %begin
begin:
  %first = load {element}, ptr %crd, align 1
  %begin.last = insertelement {kind} poison, {element} %first, i64 {_LANES - 1}
  br label %pairs
{_pairs_text(element, kind, suffix)}
done:
  %beyond = icmp uge {element} %s.top, %bound
  %falls = icmp ne i64 %s.falls, 0
  %wrong = or i1 %beyond, %falls
  br i1 %wrong, label %no, label %yes
yes:
  ret i64 0
no:
  ret i64 1
}}
declare i64 @llvm.umin.i64(i64, i64)
declare {element} @llvm.umax.{element}({element}, {element})
declare {kind} @llvm.umax.{suffix}({kind}, {kind})
declare {element} @llvm.vector.reduce.umax.{suffix}({kind})
declare {element} @llvm.vector.reduce.or.{suffix}({kind})
"""


def _bounds_text(element: str, kind: str, suffix: str) -> str:
    """%p.bits: not 0 where a bound is not the one seen."""
    return f"""bounds:
  %q = phi i64 [ 0, %entry ], [ %q.next, %bounds.do ]
  %q.bits = phi {kind} [ zeroinitializer, %entry ], [ %q.bits2, %bounds.do ]
  %q.more = icmp slt i64 %q, %pos.whole
  br i1 %q.more, label %bounds.do, label %bounds.rest
bounds.do:
  %q.at = getelementptr {element}, ptr %pos, i64 %q
  %q.was = getelementptr {element}, ptr %seen, i64 %q
  %q.now = load {kind}, ptr %q.at, align 1
  %q.then = load {kind}, ptr %q.was, align 1
  %q.both = xor {kind} %q.now, %q.then
  %q.bits2 = or {kind} %q.bits, %q.both
  %q.next = add i64 %q, {_LANES}
  br label %bounds
bounds.rest:
  %q.all = call {element} @llvm.vector.reduce.or.{suffix}({kind} %q.bits)
  br label %bound.one
bound.one:
  %p = phi i64 [ %pos.whole, %bounds.rest ], [ %p.next, %bound.do ]
  %p.bits = phi {element} [ %q.all, %bounds.rest ], [ %p.bits2, %bound.do ]
  %p.more = icmp slt i64 %p, %entries
  br i1 %p.more, label %bound.do, label %compared
bound.do:
  %p.at = getelementptr {element}, ptr %pos, i64 %p
  %p.was = getelementptr {element}, ptr %seen, i64 %p
  %p.now = load {element}, ptr %p.at, align 1
  %p.then = load {element}, ptr %p.was, align 1
  %p.both = xor {element} %p.now, %p.then
  %p.bits2 = or {element} %p.bits, %p.both
  %p.next = add i64 %p, 1
  br label %bound.one"""


def _pairs_text(element: str, kind: str, suffix: str) -> str:
    """%s.top: the largest coordinate. %s.falls: not 0 where one falls inside a fibre."""
    mask = f"i{_LANES}"
    shifted = ", ".join(f"i32 {lane}" for lane in range(_LANES - 1, 2 * _LANES - 1))
    return f"""pairs:
  %v = phi i64 [ 0, %begin ], [ %v.next, %pairs.do ]
  %v.before = phi {kind} [ %begin.last, %begin ], [ %v.b, %pairs.do ]
  %v.falls = phi {mask} [ 0, %begin ], [ %v.falls2, %pairs.do ]
  %v.top = phi {kind} [ zeroinitializer, %begin ], [ %v.top2, %pairs.do ]
  %v.more = icmp slt i64 %v, %crd.whole
  br i1 %v.more, label %pairs.do, label %pairs.rest
pairs.do:
  %v.next1 = add i64 %v, 1
  %v.right = getelementptr {element}, ptr %crd, i64 %v.next1
  %v.b = load {kind}, ptr %v.right, align 1
  %v.a = shufflevector {kind} %v.before, {kind} %v.b, <{_LANES} x i32> <{shifted}>
  %v.is = icmp ule {kind} %v.b, %v.a
  %v.are = bitcast <{_LANES} x i1> %v.is to {mask}
  %v.byte = lshr i64 %v, 3
  %v.from = getelementptr i8, ptr %starts, i64 %v.byte
  %v.starts = load {mask}, ptr %v.from, align 1
  %v.inside = xor {mask} %v.starts, -1
  %v.wrong = and {mask} %v.are, %v.inside
  %v.falls2 = or {mask} %v.falls, %v.wrong
  %v.top2 = call {kind} @llvm.umax.{suffix}({kind} %v.top, {kind} %v.b)
  %v.next = add i64 %v, {_LANES}
  br label %pairs
pairs.rest:
  %v.largest = call {element} @llvm.vector.reduce.umax.{suffix}({kind} %v.top)
  %v.most = call {element} @llvm.umax.{element}({element} %v.largest, {element} %first)
  %v.any = zext {mask} %v.falls to i64
  br label %pair
pair:
  %s = phi i64 [ %crd.whole, %pairs.rest ], [ %s.next, %pair.do ]
  %s.falls = phi i64 [ %v.any, %pairs.rest ], [ %s.falls2, %pair.do ]
  %s.top = phi {element} [ %v.most, %pairs.rest ], [ %s.top2, %pair.do ]
  %s.more = icmp slt i64 %s, %steps
  br i1 %s.more, label %pair.do, label %done
pair.do:
  %s.next = add i64 %s, 1
  %s.left = getelementptr {element}, ptr %crd, i64 %s
  %s.right = getelementptr {element}, ptr %crd, i64 %s.next
  %s.a = load {element}, ptr %s.left, align 1
  %s.b = load {element}, ptr %s.right, align 1
  %s.is = icmp ule {element} %s.b, %s.a
  %s.byte = lshr i64 %s, 3
  %s.from = getelementptr i8, ptr %starts, i64 %s.byte
  %s.eight = load i8, ptr %s.from, align 1
  %s.bits = zext i8 %s.eight to i64
  %s.bit = and i64 %s, 7
  %s.start = lshr i64 %s.bits, %s.bit
  %s.begins = and i64 %s.start, 1
  %s.inside = xor i64 %s.begins, 1
  %s.falls1 = zext i1 %s.is to i64
  %s.wrong = and i64 %s.falls1, %s.inside
  %s.falls2 = or i64 %s.falls, %s.wrong
  %s.top2 = call {element} @llvm.umax.{element}({element} %s.top, {element} %s.b)
  br label %pair"""
