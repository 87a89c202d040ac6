"""LLVM IR that merges two short fibres a step at a time.

Every step takes the lesser coordinate, and moves on in either fibre that has it. Only the end of a
fibre is a branch that is guessed.
"""

from __future__ import annotations

from collections.abc import Callable

from teir.backends.llvm.fibre_words import index_text

_MERGED = 48
"""Coordinates of two fibres together up to which they are merged; longer ones are marked."""


def lengths_text() -> str:
    """Goes to %step with two fibres that are short together, else to %long."""
    return f"""  %length = sub i64 %e, %b
  %other.length = sub i64 %g, %f
  %whole = add i64 %length, %other.length
  %is.short = icmp ule i64 %whole, {_MERGED}
  br i1 %is.short, label %step, label %long
"""


def steps_text(width: int, value: str, rest_value: Callable[[str], str]) -> str:
    """From %step on: the coordinates of %crd from %b to %e and %other from %f to %g go to %out.

    All with %is.union, else those of both; returns how many. ``value`` is what else is done for
    place %n with %x at %p and %y at %q, ``rest_value`` with what is left of ``left`` or ``right``.
    """
    element = f"i{8 * width}"
    rest = "\n".join(_rest_text(one, width, rest_value(one)) for one in ("left", "right"))
    return f"""step:
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
{value}  %taken = or i1 %is.union, %same
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


def _rest_text(label: str, width: int, value: str) -> str:
    """What is left of one fibre after the other has ended."""
    element = f"i{8 * width}"
    is_left = label == "left"
    before, array, after = ("over", "%crd", "right") if is_left else ("left", "%other", "done")
    place, end, count = ("p", "e", "%n") if is_left else ("q", "g", "%left.n")
    return f"""{label}:
  %{label}.at = phi i64 [ %{place}, %{before} ], [ %{label}.next, %{label}.take ]
  %{label}.n = phi i64 [ {count}, %{before} ], [ %{label}.more, %{label}.take ]
  %{label}.some = icmp slt i64 %{label}.at, %{end}
  br i1 %{label}.some, label %{label}.take, label %{after}
{label}.take:
{index_text(f"{label}.crd", array, f"%{label}.at", width)}{value}
  %{label}.put = getelementptr {element}, ptr %out, i64 %{label}.n
  store {element} %{label}.crd.short, ptr %{label}.put, align 1
  %{label}.next = add i64 %{label}.at, 1
  %{label}.more = add i64 %{label}.n, 1
  br label %{label}"""
