"""LLVM IR that computes one row from two fibres: their sum, or the product of what both store.

A step at a time: every step takes the lesser coordinate, and moves on in either fibre that has it.
Only the end of a fibre is a branch that is guessed.
"""

from __future__ import annotations

from teir.backends.llvm.fibre_words import SCALE_BYTES, TERM_WORDS, index_text, scale_text

_MERGED = 48
"""Coordinates of two fibres together up to which they are merged; longer ones are marked."""


def pair_text(width: int, number: str) -> str:
    """``teir_pair(terms, way, row, out, values)``: how many columns, -1 where there are too many.

    The way is 1 for the sum of two fibres, 2 for the product of what both store.
    """
    return f"""
define internal i64 @teir_pair(ptr %terms, i64 %way, i64 %r, ptr %out, ptr %values) nounwind {{
entry:
  %is.union = icmp eq i64 %way, 1
  %second = select i1 %is.union, i64 {8 * (TERM_WORDS + 1)}, i64 32
  %pos.at = getelementptr i8, ptr %terms, i64 8
  %other.at = getelementptr i8, ptr %terms, i64 %second
  %pos = load ptr, ptr %pos.at, align 8
  %other.pos = load ptr, ptr %other.at, align 8
  %crd.at = getelementptr i8, ptr %pos.at, i64 8
  %other.crd.at = getelementptr i8, ptr %other.at, i64 8
  %crd = load ptr, ptr %crd.at, align 8
  %other = load ptr, ptr %other.crd.at, align 8
  %val.at = getelementptr i8, ptr %pos.at, i64 16
  %other.val.at = getelementptr i8, ptr %other.at, i64 16
  %val = load ptr, ptr %val.at, align 8
  %oval = load ptr, ptr %other.val.at, align 8
{scale_text("scale", "terms", SCALE_BYTES, number)}
  %second.scale = select i1 %is.union, i64 {8 * TERM_WORDS + SCALE_BYTES}, i64 {SCALE_BYTES}
  %own.place = getelementptr i8, ptr %terms, i64 %second.scale
{scale_text("own", "own.place", 0, number)}
  %other.scale = select i1 %is.union, {number} %own, {number} 1.0
  %r.next = add i64 %r, 1
{index_text("b", "%pos", "%r", width)}{index_text("e", "%pos", "%r.next", width)}{
        index_text("f", "%other.pos", "%r", width)
    }{index_text("g", "%other.pos", "%r.next", width)}{_steps_text(width, number)}}}"""


def _steps_text(width: int, number: str) -> str:
    """A coordinate at a time; no step is guessed."""
    element = f"i{8 * width}"
    rest = "\n".join(_rest_text(label, width, number) for label in ("left", "right"))
    return f"""  %length = sub i64 %e, %b
  %other.length = sub i64 %g, %f
  %whole = add i64 %length, %other.length
  %is.short = icmp ule i64 %whole, {_MERGED}
  br i1 %is.short, label %step, label %long
long:
  ret i64 -1
step:
  %p = phi i64 [ %b, %entry ], [ %p.next, %take ]
  %q = phi i64 [ %f, %entry ], [ %q.next, %take ]
  %n = phi i64 [ 0, %entry ], [ %n.next, %take ]
  %p.some = icmp slt i64 %p, %e
  %q.some = icmp slt i64 %q, %g
  %some = and i1 %p.some, %q.some
  br i1 %some, label %take, label %over
take:
{index_text("x", "%crd", "%p", width)}{index_text("y", "%other", "%q", width)}
  %x.first = icmp sle i64 %x, %y
  %y.first = icmp sle i64 %y, %x
  %same = and i1 %x.first, %y.first
  %least = select i1 %x.first, {element} %x.short, {element} %y.short
  %put = getelementptr {element}, ptr %out, i64 %n
  store {element} %least, ptr %put, align 1
{_number("x", "%val", "%p", "%scale", number)}{_number("y", "%oval", "%q", "%other.scale", number)}
  %x.counted = select i1 %x.first, {number} %x.number, {number} 0.0
  %y.counted = select i1 %y.first, {number} %y.number, {number} 0.0
  %x.sum = fadd {number} %x.counted, 0.0
  %sum = fadd {number} %x.sum, %y.counted
  %zero.product = call {number} @{_fused(number)}({number} %x.number, {number} %y.number,
                                                  {number} 0.0)
  %made = select i1 %is.union, {number} %sum, {number} %zero.product
  %value.at = getelementptr {number}, ptr %values, i64 %n
  store {number} %made, ptr %value.at
  %taken = or i1 %is.union, %same
  %p.step = zext i1 %x.first to i64
  %q.step = zext i1 %y.first to i64
  %n.step = zext i1 %taken to i64
  %p.next = add i64 %p, %p.step
  %q.next = add i64 %q, %q.step
  %n.next = add i64 %n, %n.step
  br label %step
over:
  br i1 %is.union, label %left, label %done
{rest}
done:
  %total = phi i64 [ %n, %over ], [ %right.n, %right ]
  ret i64 %total
"""


def _number(name: str, array: str, place: str, scale: str, number: str) -> str:
    """``%name.number``: a value with the sign of its term."""
    return f"""  %{name}.number.at = getelementptr {number}, ptr {array}, i64 {place}
  %{name}.stored = load {number}, ptr %{name}.number.at, align 1
  %{name}.number = fmul {number} {scale}, %{name}.stored
"""


def _rest_text(label: str, width: int, number: str) -> str:
    """What is left of one fibre after the other has ended."""
    element = f"i{8 * width}"
    is_left = label == "left"
    before, array, after = ("over", "%crd", "right") if is_left else ("left", "%other", "done")
    values, scale = ("%val", "%scale") if is_left else ("%oval", "%other.scale")
    place, end, count = ("p", "e", "%n") if is_left else ("q", "g", "%left.n")
    return f"""{label}:
  %{label}.at = phi i64 [ %{place}, %{before} ], [ %{label}.next, %{label}.take ]
  %{label}.n = phi i64 [ {count}, %{before} ], [ %{label}.more, %{label}.take ]
  %{label}.some = icmp slt i64 %{label}.at, %{end}
  br i1 %{label}.some, label %{label}.take, label %{after}
{label}.take:
{index_text(f"{label}.crd", array, f"%{label}.at", width)}{
        _number(label, values, f"%{label}.at", scale, number)
    }  %{label}.put = getelementptr {element}, ptr %out, i64 %{label}.n
  store {element} %{label}.crd.short, ptr %{label}.put, align 1
  %{label}.sum = fadd {number} %{label}.number, 0.0
  %{label}.value.at = getelementptr {number}, ptr %values, i64 %{label}.n
  store {number} %{label}.sum, ptr %{label}.value.at
  %{label}.next = add i64 %{label}.at, 1
  %{label}.more = add i64 %{label}.n, 1
  br label %{label}"""


def _fused(number: str) -> str:
    return f"llvm.fma.f{64 if number == 'double' else 32}"
