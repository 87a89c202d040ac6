"""LLVM IR that writes the columns of a union or an intersection of two fibres without marks."""

from __future__ import annotations

from teir.backends.llvm.fibre_steps import lengths_text, steps_text
from teir.backends.llvm.fibre_words import TERM_WORDS, index_text, two_patterns_text, two_spans_text


def way_text() -> str:
    """1 for the union of two fibres, 2 for what two store, 0 for anything else."""
    return f"""define internal i64 @teir_way(ptr %terms, i64 %count) nounwind {{
entry:
  %kind = load i64, ptr %terms, align 8
  switch i64 %count, label %neither [ i64 1, label %one  i64 2, label %two ]
one:
  %is.both = icmp eq i64 %kind, 2
  %both = select i1 %is.both, i64 2, i64 0
  ret i64 %both
two:
  %other.at = getelementptr i8, ptr %terms, i64 {8 * TERM_WORDS}
  %other = load i64, ptr %other.at, align 8
  %kinds = or i64 %kind, %other
  %are.fibres = icmp eq i64 %kinds, 0
  %union = zext i1 %are.fibres to i64
  ret i64 %union
neither:
  ret i64 0
}}"""


def merge_text(width: int) -> str:
    """Short fibres of two, merged straight into the columns: those of a union, or of both.

    The way is 1 for the union of two fibres, 2 for what two store, 0 for anything else; the number
    of columns is -1 where a union is too long for this to be the fastest. No step is guessed:
    every one takes the lesser coordinate, and moves on in either fibre that has it. Of long fibres
    the shorter one is marked and the other one looks its coordinates up, a step at a time too.
    """
    return f"""
{way_text()}
define internal i64 @teir_merge(ptr %terms, i64 %way, i64 %r, ptr %out, ptr %marks) nounwind {{
entry:
  %is.union = icmp eq i64 %way, 1
  %second = select i1 %is.union, i64 {8 * (TERM_WORDS + 1)}, i64 32
{two_patterns_text("%second")}  %r.next = add i64 %r, 1
{two_spans_text(width)}{lengths_text()}long:
  br i1 %is.union, label %neither, label %probe.begin
neither:
  ret i64 -1
{_probe_text(width)}{steps_text(width, "", lambda _: "")}}}"""


def _probe_text(width: int) -> str:
    """From %probe.begin on: the shorter fibre is marked, what the other one meets goes to %out."""
    element = f"i{8 * width}"
    return f"""probe.begin:
  %left.short = icmp sle i64 %length, %other.length
  %few = select i1 %left.short, ptr %crd, ptr %other
  %few.begin = select i1 %left.short, i64 %b, i64 %f
  %few.end = select i1 %left.short, i64 %e, i64 %g
  %many = select i1 %left.short, ptr %other, ptr %crd
  %many.begin = select i1 %left.short, i64 %f, i64 %b
  %many.end = select i1 %left.short, i64 %g, i64 %e
  br label %set
set:
  %s = phi i64 [ %few.begin, %probe.begin ], [ %s.next, %set.take ]
  %s.some = icmp slt i64 %s, %few.end
  br i1 %s.some, label %set.take, label %probe
set.take:
{index_text("u", "%few", "%s", width)}  %set.at = getelementptr i8, ptr %marks, i64 %u
  store i8 1, ptr %set.at
  %s.next = add i64 %s, 1
  br label %set
probe:
  %t = phi i64 [ %many.begin, %set ], [ %t.next, %probe.take ]
  %m = phi i64 [ 0, %set ], [ %m.next, %probe.take ]
  %t.some = icmp slt i64 %t, %many.end
  br i1 %t.some, label %probe.take, label %clear
probe.take:
{index_text("v", "%many", "%t", width)}  %probe.at = getelementptr i8, ptr %marks, i64 %v
  %hit = load i8, ptr %probe.at
  %found.at = getelementptr {element}, ptr %out, i64 %m
  store {element} %v.short, ptr %found.at, align 1
  %hits = zext i8 %hit to i64
  %m.next = add i64 %m, %hits
  %t.next = add i64 %t, 1
  br label %probe
clear:
  %c = phi i64 [ %few.begin, %probe ], [ %c.next, %clear.take ]
  %c.some = icmp slt i64 %c, %few.end
  br i1 %c.some, label %clear.take, label %probed
clear.take:
{index_text("w", "%few", "%c", width)}  %clear.at = getelementptr i8, ptr %marks, i64 %w
  store i8 0, ptr %clear.at
  %c.next = add i64 %c, 1
  br label %clear
probed:
  ret i64 %m
"""
