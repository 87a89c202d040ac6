"""LLVM IR of the symbolic phase: pairs of rows, rows that repeat, the columns of every row."""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from teir.backends.llvm.fibre_marks import mark_both_text, mark_fibre_text, mark_product_text
from teir.backends.llvm.fibre_merge import merge_text
from teir.backends.llvm.fibre_words import LINE, TERM_WORDS, index_text, span_text, words_text


class Squeeze(Enum):
    """What lanes can be squeezed out of."""

    NOTHING = "no vector"
    COLUMNS = "vectors of columns"
    BYTES = "vectors of bytes too"


_MARK_TERM = "void @teir_mark_term(ptr %term.at, i64 %r, ptr %marks, ptr %lines, ptr %ends)"


def row_pairs_function(symbol: str, width: int) -> str:
    """``pairs(left pos, left crd, right pos, rows, sums)`` in LLVM IR."""
    return f"""
define i64 @{symbol}(ptr %pos, ptr %crd, ptr %right, i64 %rows, ptr %sums) nounwind {{
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.next, %row.end ]
  %sum = phi i64 [ 0, %entry ], [ %sum.now, %row.end ]
  %more = icmp slt i64 %r, %rows
  br i1 %more, label %open, label %done
open:
  %r.next = add i64 %r, 1
{span_text("b", "e", "%pos", "%r", width)}  br label %element
element:
  %p = phi i64 [ %b, %open ], [ %p.next, %add ]
  %sum.now = phi i64 [ %sum, %open ], [ %sum.next, %add ]
  %some = icmp slt i64 %p, %e
  br i1 %some, label %add, label %row.end
add:
  %p.next = add i64 %p, 1
{index_text("j", "%crd", "%p", width)}  %j.next = add i64 %j, 1
{span_text("q0", "q1", "%right", "%j", width)}
  %length = sub i64 %q1, %q0
  %sum.next = add i64 %sum.now, %length
  br label %element
row.end:
  %sum.at = getelementptr i64, ptr %sums, i64 %r.next
  store i64 %sum.now, ptr %sum.at
  br label %row
done:
  ret i64 %sum
}}
"""


def same_rows_function(symbol: str, width: int) -> str:
    """``same(pos, crd, rows, flags)`` in LLVM IR."""
    return f"""
define i64 @{symbol}(ptr %pos, ptr %crd, i64 %rows, ptr %flags) nounwind {{
entry:
  br label %row
row:
  %r = phi i64 [ 1, %entry ], [ %r.next, %row.end ]
  %more = icmp slt i64 %r, %rows
  br i1 %more, label %open, label %done
open:
  %r.before = sub i64 %r, 1
  %r.next = add i64 %r, 1
{index_text("a", "%pos", "%r.before", width)}{
        span_text("b", "c", "%pos", "%r", width)
    }  %length = sub i64 %c, %b
  %other = sub i64 %b, %a
  %fits = icmp eq i64 %length, %other
  br i1 %fits, label %element, label %row.end
element:
  %t = phi i64 [ 0, %open ], [ %t.next, %equal ]
  %inside = icmp slt i64 %t, %length
  br i1 %inside, label %compare, label %row.end
compare:
  %p = add i64 %b, %t
  %o = add i64 %a, %t
{index_text("x", "%crd", "%p", width)}{
        index_text("y", "%crd", "%o", width)
    }  %is = icmp eq i64 %x, %y
  br i1 %is, label %equal, label %row.end
equal:
  %t.next = add i64 %t, 1
  br label %element
row.end:
  %flag = phi i8 [ 0, %open ], [ 1, %element ], [ 0, %compare ]
  %flag.at = getelementptr i8, ptr %flags, i64 %r
  store i8 %flag, ptr %flag.at
  br label %row
done:
  ret i64 0
}}
"""


def unions_function(symbol: str, width: int, squeeze: Squeeze) -> str:
    """``unions(first, last, terms, count, marks, lines, counts, out)`` in LLVM IR."""
    take, declared = columns_text(width, squeeze)
    return f"""
{mark_fibre_text(width)}
{mark_product_text(width)}
{mark_both_text(width)}
{merge_text(width)}{_mark_term_text(width)}
define i64 @{symbol}(i64 %first, i64 %last, ptr %terms, i64 %count, ptr %marks, ptr %lines,
                     ptr %counts, ptr %out) nounwind {{
entry:
  %ends = alloca [2 x i64], align 8
  %end.at = getelementptr i8, ptr %ends, i64 8
  %repeats.at = getelementptr i8, ptr %terms, i64 24
  %repeats.flags = load ptr, ptr %repeats.at
  %way = call i64 @teir_way(ptr %terms, i64 %count)
  br label %row
row:
  %r = phi i64 [ %first, %entry ], [ %r.next, %row.end ]
  %n = phi i64 [ 0, %entry ], [ %n.end, %row.end ]
  %before = phi i64 [ 0, %entry ], [ %n, %row.end ]
  %more = icmp slt i64 %r, %last
  br i1 %more, label %open, label %done
open:
  %r.next = add i64 %r, 1
  %ls.at = getelementptr i8, ptr %repeats.flags, i64 %r
  %ls = load i8, ptr %ls.at
  %repeats = icmp ne i8 %ls, 0
  %later = icmp sgt i64 %r, %first
  %copies = and i1 %repeats, %later
  br i1 %copies, label %copy, label %fresh
{_without_marks_text(width)}{terms_text(_MARK_TERM)}{lines_text(take, "row.end")}
row.end:
  %n.end = phi i64 [ %n.copied, %copy ], [ %n.merged, %merge ], [ %n.group, %group ]
  %made = sub i64 %n.end, %n
  %count.at = getelementptr i64, ptr %counts, i64 %r
  store i64 %made, ptr %count.at
  br label %row
done:
  ret i64 %n
}}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.cttz.i64(i64, i1)
{declared}"""


def _mark_term_text(width: int) -> str:
    """Marks what one term stores in a row."""
    return f"""
define internal void @teir_mark_term(ptr %term, i64 %r, ptr %marks, ptr %lines, ptr %ends)
    nounwind {{
entry:
{words_text("term", ("kind", "lpos", "lcrd", "lsame", "rpos", "rcrd", "rsame"))}
  %r.next = add i64 %r, 1
{span_text("b", "e", "%lpos", "%r", width)}
  switch i64 %kind.word, label %copy [ i64 1, label %product  i64 2, label %both ]
copy:
  call void @teir_mark_fibre(ptr %lcrd, i64 %b, i64 %e, ptr %marks, ptr %lines, ptr %ends)
  ret void
product:
  call void @teir_mark_product(ptr %lcrd, i64 %b, i64 %e, ptr %rpos, ptr %rcrd, ptr %rsame,
                               ptr %marks, ptr %lines, ptr %ends)
  ret void
both:
{span_text("f", "g", "%rpos", "%r", width)}
  call void @teir_mark_both(ptr %lcrd, i64 %b, i64 %e, ptr %rcrd, i64 %f, i64 %g,
                            ptr %marks, ptr %lines, ptr %ends)
  ret void
}}"""


def _without_marks_text(width: int) -> str:
    """From %copy and %fresh on: rows that repeat the one before, and such as can be merged."""
    element = f"i{8 * width}"
    return f"""copy:
  %length = sub i64 %n, %before
  %bytes = mul i64 %length, {width}
  %from = getelementptr {element}, ptr %out, i64 %before
  %to = getelementptr {element}, ptr %out, i64 %n
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %n.copied = add i64 %n, %length
  br label %row.end
fresh:
  %merges = icmp ne i64 %way, 0
  br i1 %merges, label %merge, label %mark
merge:
  %n.place = getelementptr {element}, ptr %out, i64 %n
  %merged = call i64 @teir_merge(ptr %terms, i64 %way, i64 %r, ptr %n.place, ptr %marks)
  %n.merged = add i64 %n, %merged
  %is.merged = icmp sge i64 %merged, 0
  br i1 %is.merged, label %row.end, label %mark
"""


def terms_text(call: str) -> str:
    """From %mark on: ``call`` marks what each term at ``%term.at`` stores in row %r."""
    return f"""mark:
  store i64 {2**62}, ptr %ends
  store i64 -1, ptr %end.at
  br label %term
term:
  %t = phi i64 [ 0, %mark ], [ %t.next, %term.mark ]
  %terms.left = icmp slt i64 %t, %count
  br i1 %terms.left, label %term.mark, label %marked
term.mark:
  %t.byte = mul i64 %t, {8 * TERM_WORDS}
  %term.at = getelementptr i8, ptr %terms, i64 %t.byte
  call {call}
  %t.next = add i64 %t, 1
  br label %term
marked:
  %low = load i64, ptr %ends
  %high = load i64, ptr %end.at
  br label %group
"""


def lines_text(take: str, over: str) -> str:
    """From label ``marked`` on: the marked columns from line ``%low`` to ``%high``, marks cleared.

    ``%n`` columns have been found before, ``%n.group`` when all lines are looked through.
    """
    return f"""group:
  %line.from = phi i64 [ %low, %marked ], [ %line.on, %group.end ]
  %n.group = phi i64 [ %n, %marked ], [ %n.line, %group.end ]
  %left = icmp sle i64 %line.from, %high
  br i1 %left, label %group.open, label %{over}
group.open:
  %group.at = getelementptr i8, ptr %lines, i64 %line.from
  %touched = load <{LINE} x i8>, ptr %group.at, align 1
  store <{LINE} x i8> zeroinitializer, ptr %group.at, align 1
  %some.lines = icmp ne <{LINE} x i8> %touched, zeroinitializer
  %lines.mask = bitcast <{LINE} x i1> %some.lines to i64
  %line.on = add i64 %line.from, {LINE}
  br label %line
line:
  %lines.now = phi i64 [ %lines.mask, %group.open ], [ %lines.next, %line.end ]
  %n.line = phi i64 [ %n.group, %group.open ], [ %n.taken, %line.end ]
  %lines.over = icmp eq i64 %lines.now, 0
  br i1 %lines.over, label %group.end, label %line.open
line.open:
  %line.inside = call i64 @llvm.cttz.i64(i64 %lines.now, i1 true)
  %lines.less = sub i64 %lines.now, 1
  %lines.next = and i64 %lines.now, %lines.less
  %line.number = add i64 %line.from, %line.inside
  %start = shl i64 %line.number, 6
  %cells = getelementptr i8, ptr %marks, i64 %start
  %cell = load <{LINE} x i8>, ptr %cells, align 1
  store <{LINE} x i8> zeroinitializer, ptr %cells, align 1
  %set = icmp ne <{LINE} x i8> %cell, zeroinitializer
  %mask = bitcast <{LINE} x i1> %set to i64
{take}
group.end:
  br label %group"""


def columns_text(width: int, squeeze: Squeeze) -> tuple[str, str]:
    """Store the columns that ``%mask`` marks from ``%start`` on, lowest bit first; declarations."""
    match squeeze:
        case Squeeze.NOTHING:
            return _one_by_one(width), ""
        case Squeeze.COLUMNS:
            return _squeezed(width)
        case Squeeze.BYTES:
            return _squeezed_bytes(width)
        case _:
            assert_never(squeeze)


def _one_by_one(width: int) -> str:
    """Store the columns that ``%mask`` marks from ``%start`` on, lowest bit first."""
    element = f"i{8 * width}"
    column = "add i64 %found, 0" if width == 8 else "trunc i64 %found to i32"
    return f"""  br label %bit
bit:
  %mask.now = phi i64 [ %mask, %line.open ], [ %mask.next, %bit.take ]
  %n.taken = phi i64 [ %n.line, %line.open ], [ %n.more, %bit.take ]
  %over = icmp eq i64 %mask.now, 0
  br i1 %over, label %line.end, label %bit.take
bit.take:
  %inside = call i64 @llvm.cttz.i64(i64 %mask.now, i1 true)
  %found = add i64 %start, %inside
  %column = {column}
  %out.at = getelementptr {element}, ptr %out, i64 %n.taken
  store {element} %column, ptr %out.at, align 1
  %n.more = add i64 %n.taken, 1
  %less = sub i64 %mask.now, 1
  %mask.next = and i64 %mask.now, %less
  br label %bit
line.end:
  br label %line"""


def _squeezed(width: int) -> tuple[str, str]:
    """As `_one_by_one`, a whole vector at every step; what lies behind the last is overwritten."""
    lanes = LINE // width
    element = f"i{8 * width}"
    kind, bits = f"<{lanes} x {element}>", f"i{lanes}"
    first = "add i64 %start, 0" if width == 8 else "trunc i64 %start to i32"
    lines = [
        f"  %least = {first}",
        f"  %head = insertelement {kind} poison, {element} %least, i64 0",
        f"  %base = shufflevector {kind} %head, {kind} poison, <{lanes} x i32> zeroinitializer",
    ]
    taken = "%n.line"
    for part in range(width):
        numbers = ", ".join(f"{element} {part * lanes + lane}" for lane in range(lanes))
        lines += [
            f"  %far{part} = add {kind} %base, <{numbers}>",
            f"  %shifted{part} = lshr i64 %mask, {part * lanes}",
            f"  %bits{part} = trunc i64 %shifted{part} to {bits}",
            f"  %which{part} = bitcast {bits} %bits{part} to <{lanes} x i1>",
            f"  %near{part} = call {kind} @llvm.experimental.vector.compress.v{lanes}{element}"
            f"({kind} %far{part}, <{lanes} x i1> %which{part}, {kind} poison)",
            f"  %put{part} = getelementptr {element}, ptr %out, i64 {taken}",
            f"  store {kind} %near{part}, ptr %put{part}, align 1",
            f"  %some{part} = call {bits} @llvm.ctpop.{bits}({bits} %bits{part})",
            f"  %more{part} = zext {bits} %some{part} to i64",
            f"  %now{part} = add i64 {taken}, %more{part}",
        ]
        taken = f"%now{part}"
    lines += [
        "  br label %line.end",
        "line.end:",
        f"  %n.taken = phi i64 [ {taken}, %line.open ]",
        "  br label %line",
    ]
    declared = f"""declare {bits} @llvm.ctpop.{bits}({bits})
declare {kind} @llvm.experimental.vector.compress.v{lanes}{element}({kind}, <{lanes} x i1>, {kind})
"""
    return "\n".join(lines), declared


def _squeezed_bytes(width: int) -> tuple[str, str]:
    """As `_squeezed`, by the places inside the line, a byte each; few marks take one step."""
    lanes = LINE // width
    element = f"i{8 * width}"
    wide, kind = f"<{LINE} x i8>", f"<{lanes} x {element}>"
    first = "add i64 %start, 0" if width == 8 else "trunc i64 %start to i32"
    places = ", ".join(f"i8 {place}" for place in range(LINE))
    lines = [
        f"  %least = {first}",
        f"  %head = insertelement {kind} poison, {element} %least, i64 0",
        f"  %base = shufflevector {kind} %head, {kind} poison, <{lanes} x i32> zeroinitializer",
        f"  %near = call {wide} @llvm.experimental.vector.compress.v{LINE}i8"
        f"({wide} <{places}>, <{LINE} x i1> %set, {wide} poison)",
        "  %some = call i64 @llvm.ctpop.i64(i64 %mask)",
        "  %n.taken = add i64 %n.line, %some",
    ]
    for part in range(width):
        order = ", ".join(f"i32 {part * lanes + lane}" for lane in range(lanes))
        lines += [
            f"  %bytes{part} = shufflevector {wide} %near, {wide} poison, "
            f"<{lanes} x i32> <{order}>",
            f"  %inside{part} = zext <{lanes} x i8> %bytes{part} to {kind}",
            f"  %far{part} = add {kind} %base, %inside{part}",
            f"  %at{part} = add i64 %n.line, {part * lanes}",
            f"  %put{part} = getelementptr {element}, ptr %out, i64 %at{part}",
            f"  store {kind} %far{part}, ptr %put{part}, align 1",
        ]
        if part == 0:
            lines += [
                f"  %many = icmp ugt i64 %some, {lanes}",
                "  br i1 %many, label %line.rest, label %line.end",
                "line.rest:",
            ]
    lines += ["  br label %line.end", "line.end:", "  br label %line"]
    declared = f"""declare i64 @llvm.ctpop.i64(i64)
declare {wide} @llvm.experimental.vector.compress.v{LINE}i8({wide}, <{LINE} x i1>, {wide})
"""
    return "\n".join(lines), declared
