"""LLVM IR that marks the columns a row reaches: of a fibre, of rows a fibre names, of two."""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.llvm.fibre_words import index_text

_AT_ONCE = 8
"""Columns marked without a test between them."""


def mark_fibre_text(width: int) -> str:
    """Mark the coordinates of one fibre; ``ends`` are the first and the last line with a mark."""
    return f"""
define internal void @teir_mark_fibre(ptr %crd, i64 %b, i64 %e, ptr %marks, ptr %lines, ptr %ends)
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
  %low = load i64, ptr %ends
  %high = load i64, ptr %high.at
  %low.now = call i64 @llvm.umin.i64(i64 %low, i64 %line0)
  %high.now = call i64 @llvm.smax.i64(i64 %high, i64 %line1)
  store i64 %low.now, ptr %ends
  store i64 %high.now, ptr %high.at
  br label %several
several:
  %q = phi i64 [ %b, %ends.look ], [ %q.next, %several.mark ]
  %q.next = add i64 %q, {_AT_ONCE}
  %whole = icmp sle i64 %q.next, %e
  br i1 %whole, label %several.mark, label %rest
several.mark:
{_marks([f"add i64 %q, {number}" for number in range(_AT_ONCE)], "s", width)}  br label %several
rest:
  %over = icmp slt i64 %q, %e
  br i1 %over, label %rest.mark, label %done
rest.mark:
{_rest_marks(width)}  br label %done
done:
  ret void
}}"""


def _marks(places: Sequence[str], prefix: str, width: int) -> str:
    """Mark the columns at some places of ``%crd`` without a test between them."""
    lines = []
    for number, place in enumerate(places):
        name = f"{prefix}{number}"
        lines.append(f"  %{name}.place = {place}")
        lines.append(index_text(name, "%crd", f"%{name}.place", width).rstrip())
        lines.append(f"""  %{name}.mark = getelementptr i8, ptr %marks, i64 %{name}
  store i8 1, ptr %{name}.mark
  %{name}.line = lshr i64 %{name}, 6
  %{name}.line.at = getelementptr i8, ptr %lines, i64 %{name}.line
  store i8 1, ptr %{name}.line.at""")
    return "\n".join(lines) + "\n"


def _rest_marks(width: int) -> str:
    """Mark the last places, the last one again for those that are none: no loop to guess wrong."""
    bounds = "".join(f"  %r{number}.far = add i64 %q, {number}\n" for number in range(_AT_ONCE - 1))
    places = [
        f"call i64 @llvm.umin.i64(i64 %r{number}.far, i64 %e.last)"
        for number in range(_AT_ONCE - 1)
    ]
    return bounds + _marks(places, "r", width)


def mark_product_text(width: int) -> str:
    """Mark the rows of a matrix that one fibre names; what repeats the row before is marked."""
    return f"""
define internal void @teir_mark_product(ptr %crd, i64 %b, i64 %e, ptr %rpos, ptr %rcrd, ptr %rsame,
                                        ptr %marks, ptr %lines, ptr %ends) nounwind {{
entry:
  br label %fibre
fibre:
  %p = phi i64 [ %b, %entry ], [ %p.next, %fibre.end ]
  %j.before = phi i64 [ -2, %entry ], [ %j, %fibre.end ]
  %some = icmp slt i64 %p, %e
  br i1 %some, label %look, label %done
look:
  %p.next = add i64 %p, 1
{index_text("j", "%crd", "%p", width)}  %follows = add i64 %j.before, 1
  %adjacent = icmp eq i64 %j, %follows
  %rs.at = getelementptr i8, ptr %rsame, i64 %j
  %rs = load i8, ptr %rs.at
  %equal = icmp ne i8 %rs, 0
  %marked = and i1 %adjacent, %equal
  br i1 %marked, label %fibre.end, label %fresh
fresh:
  %j.next = add i64 %j, 1
{index_text("q0", "%rpos", "%j", width)}{index_text("q1", "%rpos", "%j.next", width)}
  call void @teir_mark_fibre(ptr %rcrd, i64 %q0, i64 %q1, ptr %marks, ptr %lines, ptr %ends)
  br label %fibre.end
fibre.end:
  br label %fibre
done:
  ret void
}}"""


def mark_both_text(width: int) -> str:
    """Mark what two fibres store."""
    return f"""
define internal void @teir_mark_both(ptr %crd, i64 %b, i64 %e, ptr %other, i64 %f, i64 %g,
                                     ptr %marks, ptr %lines, ptr %ends) nounwind {{
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
  %mark.at = getelementptr i8, ptr %marks, i64 %x
  store i8 1, ptr %mark.at
  %line = lshr i64 %x, 6
  %line.at = getelementptr i8, ptr %lines, i64 %line
  store i8 1, ptr %line.at
  %low = load i64, ptr %ends
  %high = load i64, ptr %high.at
  %low.now = call i64 @llvm.umin.i64(i64 %low, i64 %line)
  %high.now = call i64 @llvm.smax.i64(i64 %high, i64 %line)
  store i64 %low.now, ptr %ends
  store i64 %high.now, ptr %high.at
  br label %step
done:
  ret void
}}"""
