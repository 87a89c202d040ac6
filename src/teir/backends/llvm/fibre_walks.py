"""LLVM IR around what is done with every coordinate of one fibre, or with what two fibres share.

Where a coordinate is marked, so is its line of columns, and ``%ends`` holds the first and the last
line with a mark: nobody looks elsewhere for marks.
"""

from __future__ import annotations

from teir.backends.llvm.fibre_words import index_text

AT_ONCE = 8
"""Coordinates looked at without a test between them."""


def walk_text(signature: str, several: str, rest: str, width: int) -> str:
    """A function that walks the places %b to %e of %crd, ``AT_ONCE`` of them at a time.

    ``several`` treats the places from %q on, ``rest`` the last ones, fewer than ``AT_ONCE``, up to
    %e.last.
    """
    return f"""
define internal void @{signature}
    alwaysinline nounwind {{
entry:
  %any = icmp slt i64 %b, %e
  br i1 %any, label %ends.look, label %done
ends.look:
  %e.last = sub i64 %e, 1
{index_text("k0", "%crd", "%b", width)}{index_text("k1", "%crd", "%e.last", width)}
  %line0 = lshr i64 %k0, 6
  %line1 = lshr i64 %k1, 6
  %high.at = getelementptr i8, ptr %ends, i64 8
{_ends_text("%line0", "%line1")}
  br label %several
several:
  %q = phi i64 [ %b, %ends.look ], [ %q.next, %several.do ]
  %q.next = add i64 %q, {AT_ONCE}
  %whole = icmp sle i64 %q.next, %e
  br i1 %whole, label %several.do, label %rest
several.do:
{several}  br label %several
rest:
  %over = icmp slt i64 %q, %e
  br i1 %over, label %rest.do, label %done
rest.do:
{rest}  br label %done
done:
  ret void
}}"""


def places_behind() -> tuple[str, ...]:
    """The places from %q on."""
    return tuple(f"add i64 %q, {number}" for number in range(AT_ONCE))


def last_places() -> tuple[str, tuple[str, ...]]:
    """The last places, the last one again for those that are none: no loop to guess wrong.

    First the text that names them without that bound, ``%r0.far`` and so on.
    """
    numbers = range(AT_ONCE - 1)
    far = "".join(f"  %r{number}.far = add i64 %q, {number}\n" for number in numbers)
    return far, tuple(f"call i64 @llvm.umin.i64(i64 %r{one}.far, i64 %e.last)" for one in numbers)


def column_text(name: str, place: str, width: int) -> str:
    """``%name``: the coordinate at a place of %crd, marked with its line."""
    return f"""  %{name}.place = {place}
{index_text(name, "%crd", f"%{name}.place", width)}{_mark_text(name)}"""


def meet_text(signature: str, met: str, width: int) -> str:
    """A function that walks what %crd from %b to %e and %other from %f to %g share, marked.

    ``met`` is done for every coordinate %x that is at the places %p and %q.
    """
    return f"""
define internal void @{signature} nounwind {{
entry:
  %high.at = getelementptr i8, ptr %ends, i64 8
  br label %step
step:
  %p = phi i64 [ %b, %entry ], [ %p.next, %compare ], [ %p.both, %met ]
  %q = phi i64 [ %f, %entry ], [ %q.next, %compare ], [ %q.both, %met ]
  %p.some = icmp slt i64 %p, %e
  %q.some = icmp slt i64 %q, %g
  %some = and i1 %p.some, %q.some
  br i1 %some, label %compare, label %done
compare:
{index_text("x", "%crd", "%p", width)}{index_text("y", "%other", "%q", width)}
  %less = icmp slt i64 %x, %y
  %more = icmp sgt i64 %x, %y
  %p.step = zext i1 %less to i64
  %q.step = zext i1 %more to i64
  %p.next = add i64 %p, %p.step
  %q.next = add i64 %q, %q.step
  %is = icmp eq i64 %x, %y
  br i1 %is, label %met, label %step
met:
  %p.both = add i64 %p, 1
  %q.both = add i64 %q, 1
{met}{_mark_text("x")}
{_ends_text("%x.line", "%x.line")}
  br label %step
done:
  ret void
}}"""


def _mark_text(column: str) -> str:
    return f"""  %{column}.mark = getelementptr i8, ptr %marks, i64 %{column}
  store i8 1, ptr %{column}.mark
  %{column}.line = lshr i64 %{column}, 6
  %{column}.line.at = getelementptr i8, ptr %lines, i64 %{column}.line
  store i8 1, ptr %{column}.line.at"""


def _ends_text(first: str, last: str) -> str:
    return f"""  %low = load i64, ptr %ends
  %high = load i64, ptr %high.at
  %low.now = call i64 @llvm.umin.i64(i64 %low, i64 {first})
  %high.now = call i64 @llvm.smax.i64(i64 %high, i64 {last})
  store i64 %low.now, ptr %ends
  store i64 %high.now, ptr %high.at"""
