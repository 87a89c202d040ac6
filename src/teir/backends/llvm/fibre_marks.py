"""LLVM IR that marks the columns a row reaches: of a fibre, of rows a fibre names, of two."""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.llvm.fibre_walks import (
    column_text,
    last_places,
    meet_text,
    places_behind,
    walk_text,
)
from teir.backends.llvm.fibre_words import index_text, span_text


def mark_fibre_text(width: int) -> str:
    """Mark the coordinates of one fibre."""
    far, last = last_places()
    return walk_text(
        "teir_mark_fibre(ptr %crd, i64 %b, i64 %e, ptr %marks, ptr %lines, ptr %ends)",
        _marks(places_behind(), "s", width),
        far + _marks(last, "r", width),
        width,
    )


def _marks(places: Sequence[str], prefix: str, width: int) -> str:
    names = (f"{prefix}{number}" for number in range(len(places)))
    marks = (column_text(name, place, width) for name, place in zip(names, places, strict=True))
    return "".join(f"{one}\n" for one in marks)


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
{span_text("q0", "q1", "%rpos", "%j", width)}
  call void @teir_mark_fibre(ptr %rcrd, i64 %q0, i64 %q1, ptr %marks, ptr %lines, ptr %ends)
  br label %fibre.end
fibre.end:
  br label %fibre
done:
  ret void
}}"""


def mark_both_text(width: int) -> str:
    """Mark what two fibres store."""
    signature = """teir_mark_both(ptr %crd, i64 %b, i64 %e, ptr %other, i64 %f, i64 %g,
                                     ptr %marks, ptr %lines, ptr %ends)"""
    return meet_text(signature, "", width)
