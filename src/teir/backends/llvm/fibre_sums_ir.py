"""LLVM IR that computes the rows of a sum of products with their columns, in one pass.

Every element is added where its column lies in a dense row, and the column is marked. Columns come
out of the marks in order; the row is read there and set to zero again.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.llvm.fibre_lanes_ir import lanes_declarations, lanes_text
from teir.backends.llvm.fibre_merge import way_text
from teir.backends.llvm.fibre_pairs_ir import pair_text
from teir.backends.llvm.fibre_short_ir import short_rows_text
from teir.backends.llvm.fibre_unions_ir import Squeeze, columns_text, lines_text, terms_text
from teir.backends.llvm.fibre_walks import (
    AT_ONCE,
    column_text,
    last_places,
    meet_text,
    places_behind,
    walk_text,
)
from teir.backends.llvm.fibre_words import (
    SCALE_BYTES,
    fused_name,
    index_text,
    scale_text,
    span_text,
    words_text,
)

SPARE = AT_ONCE
"""Numbers behind those of the dense row that may be overwritten."""
SHARE_WORDS = 5
ROOM_WORDS = 4
_ADD_TERM = """void @teir_add_term(ptr %term.at, i64 %r, ptr %dense, ptr %spare, ptr %marks,
                           ptr %lines, ptr %ends)"""
_WORDS = ("kind", "lpos", "lcrd", "lval", "rpos", "rcrd", "rval")


def sums_function(symbol: str, width: int, number: str, squeeze: Squeeze) -> str:
    """A job of the thread pool that computes a share of the rows.

    ``number`` is the type of the values, ``double`` or ``float``.

        frame    terms, how many, columns, columns up to every row, shares, rooms
        share    first row, last row, where columns go, where values go, how many there were
        room     marks, marks of lines, dense row, stamps: one for every thread

    Stamps are there for one product of int32 matrices where lanes can be squeezed, else 0.
    """
    take, declared = columns_text(width, squeeze)
    compresses = squeeze is not Squeeze.NOTHING
    declared += lanes_declarations(width, number) if compresses else ""
    lists = has_lists(width, squeeze)
    short = short_rows_text(number) if lists else ""
    declared = "\n".join(dict.fromkeys(declared.splitlines()))
    return f"""
{_add_fibre_text(width, number)}
{_add_product_text(width, number)}
{_add_both_text(width, number)}
{_add_term_text(width, number)}
{way_text()}{short}
{lanes_text(width, number) if compresses else pair_text(width, number)}
{_job_text(symbol)}{_rows_text(width, number, take, compresses, lists)}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.cttz.i64(i64, i1)
declare {number} @{fused_name(number)}({number}, {number}, {number})
{declared}
"""


def has_lists(width: int, squeeze: Squeeze) -> bool:
    """True where rows of few products are listed (`teir.backends.llvm.fibre_short_ir`)."""
    return width == 4 and squeeze is not Squeeze.NOTHING


def _rows_text(width: int, number: str, take: str, compresses: bool, lists: bool) -> str:
    """All rows of a share; ``take`` stores the columns that are marked in a line."""
    element = f"i{8 * width}"
    listed = ", [ %n.listed, %listed ]" if lists else ""
    return f"""
define internal i64 @teir_sums(i64 %first, i64 %last, ptr %terms, i64 %count, ptr %marks,
                               ptr %lines, ptr %dense, ptr %stamps, i64 %columns, ptr %row.ends,
                               ptr %out, ptr %values) nounwind {{
entry:
  %is.listed = icmp ne ptr %stamps, null
  %ends = alloca [2 x i64], align 8
  %end.at = getelementptr i8, ptr %ends, i64 8
  %spare = getelementptr {number}, ptr %dense, i64 %columns
  %way = call i64 @teir_way(ptr %terms, i64 %count)
  %pairs = icmp ne i64 %way, 0
{_ALL_ROWS if compresses else "  br label %row"}
row:
  %r = phi i64 [ %first, %entry ], [ %r.next, %row.end ]
  %n = phi i64 [ 0, %entry ], [ %n.end, %row.end ]
  %more = icmp slt i64 %r, %last
  br i1 %more, label %open, label %done
open:
  %r.next = add i64 %r, 1
{_LISTED if lists else "  br label %mark" if compresses else _one_row(element, number)}
{terms_text(_ADD_TERM)}{lines_text(take, "numbers")}
numbers:
  %v = phi i64 [ %n, %group ], [ %v.next, %number ]{", [ %n, %listed ]" if lists else ""}
  %n.row = phi i64 [ %n.group, %group ], [ %n.row, %number ]{listed}
  %v.left = icmp slt i64 %v, %n.row
  br i1 %v.left, label %number, label %row.end
number:
{_numbers_text(width, number)}  %v.next = add i64 %v, {SPARE}
  br label %numbers
row.end:
  %n.end = phi i64 [ %n.row, %numbers ]{"" if compresses else ", [ %n.merged, %merge ]"}
  %end.to = getelementptr i64, ptr %row.ends, i64 %r
  store i64 %n.end, ptr %end.to
  br label %row
done:
  ret i64 %n
}}"""


def _job_text(symbol: str) -> str:
    frame = _words_text("frame", ("terms", "count", "columns", "row.ends", "shares", "rooms"))
    share = _words_text("share", ("first", "last", "out", "values"))
    room = _words_text("room", ("marks", "lines", "dense", "stamps"))
    return f"""
define void @{symbol}(ptr %node, ptr %frame, i64 %participant, i64 %number, i64 %chunks) nounwind {{
entry:
{frame}
  %share.byte = mul i64 %number, {8 * SHARE_WORDS}
  %share = getelementptr i8, ptr %shares, i64 %share.byte
{share}
  %room.byte = mul i64 %participant, {8 * ROOM_WORDS}
  %room = getelementptr i8, ptr %rooms, i64 %room.byte
{room}
  %count.word = ptrtoint ptr %count to i64
  %columns.word = ptrtoint ptr %columns to i64
  %first.word = ptrtoint ptr %first to i64
  %last.word = ptrtoint ptr %last to i64
  %made = call i64 @teir_sums(i64 %first.word, i64 %last.word, ptr %terms, i64 %count.word,
                              ptr %marks, ptr %lines, ptr %dense, ptr %stamps,
                              i64 %columns.word, ptr %row.ends, ptr %out, ptr %values)
  %made.at = getelementptr i8, ptr %share, i64 {8 * (SHARE_WORDS - 1)}
  store i64 %made, ptr %made.at, align 8
  ret void
}}"""


def _words_text(base: str, names: Sequence[str]) -> str:
    """The words of a record as pointers."""
    lines = []
    for place, name in enumerate(names):
        lines.append(f"  %{name}.at = getelementptr i8, ptr %{base}, i64 {8 * place}")
        lines.append(f"  %{name} = load ptr, ptr %{name}.at, align 8")
    return "\n".join(lines)


_ALL_ROWS = """  switch i64 %way, label %row [ i64 1, label %union  i64 2, label %both ]
union:
  %united = call i64 @teir_union_rows(ptr %terms, i64 %first, i64 %last, ptr %row.ends, ptr %out,
                                      ptr %values)
  ret i64 %united
both:
  %met = call i64 @teir_both_rows(ptr %terms, i64 %first, i64 %last, ptr %row.ends, ptr %out,
                                  ptr %values)
  ret i64 %met"""

_LISTED = """  br i1 %is.listed, label %list, label %mark
list:
  %list.at = getelementptr i32, ptr %out, i64 %n
  %made = call i64 @teir_short_row(ptr %terms, i64 %r, ptr %dense, ptr %stamps, ptr %list.at)
  %is.short = icmp sge i64 %made, 0
  br i1 %is.short, label %listed, label %mark
listed:
  %n.listed = add i64 %n, %made
  br label %numbers"""


def _one_row(element: str, number: str) -> str:
    """A row of two short fibres."""
    return f"""  br i1 %pairs, label %merge, label %mark
merge:
  %out.place = getelementptr {element}, ptr %out, i64 %n
  %values.place = getelementptr {number}, ptr %values, i64 %n
  %merged = call i64 @teir_pair(ptr %terms, i64 %way, i64 %r, ptr %out.place, ptr %values.place)
  %n.merged = add i64 %n, %merged
  %is.merged = icmp sge i64 %merged, 0
  br i1 %is.merged, label %row.end, label %mark"""


def _numbers_text(width: int, number: str) -> str:
    """Several numbers taken out of the dense row; behind the last one spare numbers are taken."""
    lines = []
    for n in range(SPARE):
        lines.append(f"  %v{n} = add i64 %v, {n}")
        lines.append(index_text(f"k{n}", "%out", f"%v{n}", width).rstrip())
        lines.append(f"""  %v{n}.is = icmp slt i64 %v{n}, %n.row
  %k{n}.other = add i64 %columns, {n}
  %k{n}.there = select i1 %v{n}.is, i64 %k{n}, i64 %k{n}.other
  %k{n}.place = getelementptr {number}, ptr %dense, i64 %k{n}.there
  %k{n}.value = load {number}, ptr %k{n}.place
  store {number} 0.0, ptr %k{n}.place
  %k{n}.to = getelementptr {number}, ptr %values, i64 %v{n}
  store {number} %k{n}.value, ptr %k{n}.to""")
    return "\n".join(lines) + "\n"


def _add_fibre_text(width: int, number: str) -> str:
    """One fibre times a number; the places behind its last element go to spare numbers."""
    far, last = last_places()
    signature = f"""teir_add_fibre(ptr %crd, ptr %val, i64 %b, i64 %e, {number} %scale, ptr %row,
                                     ptr %spare, ptr %marks, ptr %lines, ptr %ends)"""
    return walk_text(
        signature,
        _adds(places_behind(), "s", width, number, some=False),
        far + _adds(last, "r", width, number, some=True),
        width,
    )


def _adds(places: Sequence[str], prefix: str, width: int, number: str, *, some: bool) -> str:
    """Add the elements at some places without a test between them; ``some`` of them exist."""
    lines = []
    for n, place in enumerate(places):
        name = f"{prefix}{n}"
        lines.append(f"""{column_text(name, place, width)}
  %{name}.cell = getelementptr {number}, ptr %row, i64 %{name}""")
        cell = f"%{name}.cell"
        if some:
            lines.append(f"""  %{name}.is = icmp slt i64 %{name}.far, %e
  %{name}.other = getelementptr {number}, ptr %spare, i64 {n}
  %{name}.to = select i1 %{name}.is, ptr {cell}, ptr %{name}.other""")
            cell = f"%{name}.to"
        lines.append(f"""  %{name}.val = getelementptr {number}, ptr %val, i64 %{name}.place
  %{name}.factor = load {number}, ptr %{name}.val, align 1
  %{name}.before = load {number}, ptr {cell}
  %{name}.sum = call {number} @{fused_name(number)}({number} %scale, {number} %{name}.factor,
                                                {number} %{name}.before)
  store {number} %{name}.sum, ptr {cell}""")
    return "\n".join(lines) + "\n"


def _add_product_text(width: int, number: str) -> str:
    """The rows of a matrix that one fibre names, times its elements."""
    return f"""
define internal void @teir_add_product(ptr %crd, ptr %val, i64 %b, i64 %e, {number} %scale,
                                       ptr %rpos, ptr %rcrd, ptr %rval, ptr %row, ptr %spare,
                                       ptr %marks, ptr %lines, ptr %ends) nounwind {{
entry:
  br label %fibre
fibre:
  %p = phi i64 [ %b, %entry ], [ %p.next, %look ]
  %some = icmp slt i64 %p, %e
  br i1 %some, label %look, label %done
look:
  %p.next = add i64 %p, 1
{index_text("j", "%crd", "%p", width)}  %j.next = add i64 %j, 1
{span_text("q0", "q1", "%rpos", "%j", width)}
  %val.at = getelementptr {number}, ptr %val, i64 %p
  %factor = load {number}, ptr %val.at, align 1
  %scaled = fmul {number} %scale, %factor
  call void @teir_add_fibre(ptr %rcrd, ptr %rval, i64 %q0, i64 %q1, {number} %scaled, ptr %row,
                            ptr %spare, ptr %marks, ptr %lines, ptr %ends)
  br label %fibre
done:
  ret void
}}"""


def _add_both_text(width: int, number: str) -> str:
    """The products of what two fibres store."""
    signature = f"""teir_add_both(ptr %crd, ptr %val, i64 %b, i64 %e, {number} %scale,
                                    ptr %other, ptr %oval, i64 %f, i64 %g, ptr %row, ptr %marks,
                                    ptr %lines, ptr %ends)"""
    met = f"""  %left.at = getelementptr {number}, ptr %val, i64 %p
  %left = load {number}, ptr %left.at, align 1
  %scaled = fmul {number} %scale, %left
  %right.at = getelementptr {number}, ptr %oval, i64 %q
  %right = load {number}, ptr %right.at, align 1
  %cell = getelementptr {number}, ptr %row, i64 %x
  %before = load {number}, ptr %cell
  %sum = call {number} @{fused_name(number)}({number} %scaled, {number} %right, {number} %before)
  store {number} %sum, ptr %cell
"""
    return meet_text(signature, met, width)


def _add_term_text(width: int, number: str) -> str:
    """One term of a row."""
    return f"""
define internal void @teir_add_term(ptr %term, i64 %r, ptr %row, ptr %spare, ptr %marks,
                                    ptr %lines, ptr %ends) nounwind {{
entry:
{words_text("term", _WORDS)}
{scale_text("scale", "term", SCALE_BYTES, number)}
  %r.next = add i64 %r, 1
{span_text("b", "e", "%lpos", "%r", width)}
  switch i64 %kind.word, label %fibre [ i64 1, label %product  i64 2, label %both ]
fibre:
  call void @teir_add_fibre(ptr %lcrd, ptr %lval, i64 %b, i64 %e, {number} %scale, ptr %row,
                            ptr %spare, ptr %marks, ptr %lines, ptr %ends)
  ret void
product:
  call void @teir_add_product(ptr %lcrd, ptr %lval, i64 %b, i64 %e, {number} %scale, ptr %rpos,
                              ptr %rcrd, ptr %rval, ptr %row, ptr %spare, ptr %marks, ptr %lines,
                              ptr %ends)
  ret void
both:
{span_text("f", "g", "%rpos", "%r", width)}
  call void @teir_add_both(ptr %lcrd, ptr %lval, i64 %b, i64 %e, {number} %scale, ptr %rcrd,
                           ptr %rval, i64 %f, i64 %g, ptr %row, ptr %marks, ptr %lines, ptr %ends)
  ret void
}}"""
