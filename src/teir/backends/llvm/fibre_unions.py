"""The symbolic phase of sums of products of matrices, compiled: which columns every row reaches.

    row r of B C = the union of the rows of C whose numbers row r of B stores
    row r of B + C = what either stores;  of B * C, element by element, what both store

A mark per column and one per line of 64 columns: the lines between the first and the last column
of a row are looked through in order, 64 at a time, so columns come out sorted, and what was marked
is cleared on the way. Most fibres are short: no loop but that over steps of eight depends on their
length. Rows that store what the row before stores are copied, and not marked twice.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from teir.backends.llvm.compile_ir import (
    compile_object,
    compiler_version,
    load_object,
    machine_for,
    module_text,
)
from teir.runtime.object_cache import object_cache
from teir.runtime.runtime import current
from teir.target import Isa

Array = np.ndarray[Any, np.dtype[Any]]

LINE = 64
"""Columns of a line, and lines looked at together."""
ROOM = 64
"""Columns behind those of the rows that may be overwritten."""
_AT_ONCE = 8
"""Columns marked without a test between them."""


TERM_WORDS = 8
"""Words of a term's record: kind, pos, crd and repeats of either level, one word to spare."""


class TermKind(Enum):
    """What a term adds to a row: a fibre, rows of a matrix that a fibre names, what two store."""

    FIBRE = 0
    PRODUCT = 1
    BOTH = 2


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a union: pos, crd and `FibreUnions.same_rows` of one level or two.

    Rows marked as the same by the first term's left level are the same for all terms.
    """

    kind: TermKind
    left: tuple[Array, Array, Array]
    right: tuple[Array, Array, Array] | None


@dataclass(frozen=True, slots=True)
class FibreUnions:
    """The compiled loops for one width of index arrays; other threads run while they do."""

    _pairs: Callable[..., int]
    _same: Callable[..., int]
    _unions: Callable[..., int]
    _owner: Any

    def pairs(self, pos: Array, crd: Array, right_pos: Array) -> Array:
        """Per row, and before the first one, how many pairs all rows up to it make."""
        sums = np.zeros(pos.size, np.int64)
        self._pairs(*_addresses(pos, crd, right_pos), pos.size - 1, *_addresses(sums))
        return sums

    def same_rows(self, pos: Array, crd: Array) -> Array:
        """A byte per row: 1 where it stores what the row before it stores."""
        flags = np.zeros(max(1, pos.size - 1), np.uint8)
        self._same(*_addresses(pos, crd), pos.size - 1, *_addresses(flags))
        return flags

    def unions(
        self,
        terms: Sequence[Term],
        rows: range,
        marks: tuple[Array, Array],
        counts: Array,
        columns: Array,
    ) -> int:
        """How many columns ``rows`` reach; they are written to ``columns``, per row to ``counts``.

        Index arrays are those of valid levels. ``marks``: zeroed bytes, `marks_for` the columns.
        ``columns`` has room for what the rows may reach and `ROOM` more.
        """
        words = np.zeros((len(terms), TERM_WORDS), np.int64)
        for record, term in zip(words, terms, strict=True):
            pointers = _addresses(*term.left, *(term.right or ()))
            record[: 1 + len(pointers)] = (term.kind.value, *pointers)
        places = _addresses(*marks, counts, columns)
        (at,) = _addresses(words)
        return int(self._unions(rows.start, rows.stop, at, len(terms), *places))


def marks_for(columns: int) -> tuple[Array, Array]:
    """Zeroed marks for so many columns, and for their lines."""
    lines = -(-columns // LINE)
    return np.zeros(LINE * (lines + 1), np.uint8), np.zeros(lines + LINE, np.uint8)


def fibre_unions(isa: Isa, width: int) -> FibreUnions:
    """The loops for index arrays of ``width`` bytes (4 or 8)."""
    return current().once(f"fibre unions {isa.value} {width}", lambda: _bound(isa, width))


def _bound(isa: Isa, width: int) -> FibreUnions:
    words = ("row_pairs", "same_rows", "fibre_unions")
    symbols = tuple(f"teir_{word}_{8 * width}" for word in words)
    made = [
        row_pairs_function(symbols[0], width),
        same_rows_function(symbols[1], width),
        unions_function(symbols[2], width, compresses=isa is Isa.AVX512),
    ]
    text = module_text(made, isa)
    key = "\n".join(("fibre unions", compiler_version(), str(machine_for(isa)), text)).encode()
    cache = current().once("object cache", lambda: object_cache(os.environ))
    data = cache.load(key)
    if data is None:
        data = compile_object(text, isa, symbols)
        cache.store(key, data)
    code = load_object(data, symbols)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kinds = (
        ctypes.CFUNCTYPE(number, pointer, pointer, pointer, number, pointer),
        ctypes.CFUNCTYPE(number, pointer, pointer, number, pointer),
        ctypes.CFUNCTYPE(number, number, number, pointer, number, *[pointer] * 4),
    )
    pairs, same, unions = (
        kind(code.addresses[symbol]) for kind, symbol in zip(kinds, symbols, strict=True)
    )
    return FibreUnions(pairs, same, unions, code.owner)


def _addresses(*arrays: Array) -> tuple[int, ...]:
    return tuple(array.__array_interface__["data"][0] for array in arrays)


def _index(name: str, array: str, place: str, width: int) -> str:
    """``%name``: the index at a place of an array, as i64."""
    element = f"i{8 * width}"
    loaded = f"""  %{name}.at = getelementptr {element}, ptr {array}, i64 {place}
  %{name}.short = load {element}, ptr %{name}.at, align 1
"""
    wide = "add i64 %{0}.short, 0" if width == 8 else "sext i32 %{0}.short to i64"
    return loaded + f"  %{name} = {wide.format(name)}\n"


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
{_index("b", "%pos", "%r", width)}{_index("e", "%pos", "%r.next", width)}  br label %element
element:
  %p = phi i64 [ %b, %open ], [ %p.next, %add ]
  %sum.now = phi i64 [ %sum, %open ], [ %sum.next, %add ]
  %some = icmp slt i64 %p, %e
  br i1 %some, label %add, label %row.end
add:
  %p.next = add i64 %p, 1
{_index("j", "%crd", "%p", width)}  %j.next = add i64 %j, 1
{_index("q0", "%right", "%j", width)}{_index("q1", "%right", "%j.next", width)}
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
{_index("a", "%pos", "%r.before", width)}{_index("b", "%pos", "%r", width)}{
        _index("c", "%pos", "%r.next", width)
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
{_index("x", "%crd", "%p", width)}{_index("y", "%crd", "%o", width)}  %is = icmp eq i64 %x, %y
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


def unions_function(symbol: str, width: int, *, compresses: bool) -> str:
    """``unions(first, last, terms, count, marks, lines, counts, out)`` in LLVM IR.

    With ``compresses`` the columns of a line are stored by vectors that lanes are squeezed out of.
    """
    element = f"i{8 * width}"
    take, declared = _squeezed(width) if compresses else (_one_by_one(width), "")
    return f"""
{_mark_fibre(width)}
{_mark_product(width)}
{_mark_both(width)}
define internal void @teir_mark_term(ptr %term, i64 %r, ptr %marks, ptr %lines, ptr %ends)
    nounwind {{
entry:
{_words("term", ("kind", "lpos", "lcrd", "lsame", "rpos", "rcrd", "rsame"))}
  %r.next = add i64 %r, 1
{_index("b", "%lpos", "%r", width)}{_index("e", "%lpos", "%r.next", width)}
  switch i64 %kind.word, label %copy [ i64 1, label %product  i64 2, label %both ]
copy:
  call void @teir_mark_fibre(ptr %lcrd, i64 %b, i64 %e, ptr %marks, ptr %lines, ptr %ends)
  ret void
product:
  call void @teir_mark_product(ptr %lcrd, i64 %b, i64 %e, ptr %rpos, ptr %rcrd, ptr %rsame,
                               ptr %marks, ptr %lines, ptr %ends)
  ret void
both:
{_index("f", "%rpos", "%r", width)}{_index("g", "%rpos", "%r.next", width)}
  call void @teir_mark_both(ptr %lcrd, i64 %b, i64 %e, ptr %rcrd, i64 %f, i64 %g,
                            ptr %marks, ptr %lines, ptr %ends)
  ret void
}}
define i64 @{symbol}(i64 %first, i64 %last, ptr %terms, i64 %count, ptr %marks, ptr %lines,
                     ptr %counts, ptr %out) nounwind {{
entry:
  %ends = alloca [2 x i64], align 8
  %end.at = getelementptr i8, ptr %ends, i64 8
  %repeats.at = getelementptr i8, ptr %terms, i64 24
  %repeats.flags = load ptr, ptr %repeats.at
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
copy:
  %length = sub i64 %n, %before
  %bytes = mul i64 %length, {width}
  %from = getelementptr {element}, ptr %out, i64 %before
  %to = getelementptr {element}, ptr %out, i64 %n
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %n.copied = add i64 %n, %length
  br label %row.end
fresh:
  store i64 {2**62}, ptr %ends
  store i64 -1, ptr %end.at
  br label %term
term:
  %t = phi i64 [ 0, %fresh ], [ %t.next, %term.mark ]
  %terms.left = icmp slt i64 %t, %count
  br i1 %terms.left, label %term.mark, label %marked
term.mark:
  %t.byte = mul i64 %t, {8 * TERM_WORDS}
  %term.at = getelementptr i8, ptr %terms, i64 %t.byte
  call void @teir_mark_term(ptr %term.at, i64 %r, ptr %marks, ptr %lines, ptr %ends)
  %t.next = add i64 %t, 1
  br label %term
marked:
  %low = load i64, ptr %ends
  %high = load i64, ptr %end.at
  br label %group
group:
  %line.from = phi i64 [ %low, %marked ], [ %line.on, %group.end ]
  %n.group = phi i64 [ %n, %marked ], [ %n.line, %group.end ]
  %left = icmp sle i64 %line.from, %high
  br i1 %left, label %group.open, label %row.end
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
  br label %group
row.end:
  %n.end = phi i64 [ %n.copied, %copy ], [ %n.group, %group ]
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


def _words(base: str, names: tuple[str, ...]) -> str:
    """The words of a record: the first as a number, ``%kind.word``, the others as pointers."""
    lines = [f"  %{names[0]}.word = load i64, ptr %{base}, align 8"]
    for number, name in enumerate(names[1:], 1):
        lines.append(f"  %{name}.at = getelementptr i8, ptr %{base}, i64 {8 * number}")
        lines.append(f"  %{name} = load ptr, ptr %{name}.at, align 8")
    return "\n".join(lines)


def _mark_fibre(width: int) -> str:
    """Mark the coordinates of one fibre; ``ends`` are the first and the last line with a mark."""
    return f"""
define internal void @teir_mark_fibre(ptr %crd, i64 %b, i64 %e, ptr %marks, ptr %lines, ptr %ends)
    alwaysinline nounwind {{
entry:
  %any = icmp slt i64 %b, %e
  br i1 %any, label %ends.look, label %done
ends.look:
  %e.last = sub i64 %e, 1
{_index("k0", "%crd", "%b", width)}{_index("k1", "%crd", "%e.last", width)}
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
        lines.append(_index(name, "%crd", f"%{name}.place", width).rstrip())
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


def _mark_product(width: int) -> str:
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
{_index("j", "%crd", "%p", width)}  %follows = add i64 %j.before, 1
  %adjacent = icmp eq i64 %j, %follows
  %rs.at = getelementptr i8, ptr %rsame, i64 %j
  %rs = load i8, ptr %rs.at
  %equal = icmp ne i8 %rs, 0
  %marked = and i1 %adjacent, %equal
  br i1 %marked, label %fibre.end, label %fresh
fresh:
  %j.next = add i64 %j, 1
{_index("q0", "%rpos", "%j", width)}{_index("q1", "%rpos", "%j.next", width)}
  call void @teir_mark_fibre(ptr %rcrd, i64 %q0, i64 %q1, ptr %marks, ptr %lines, ptr %ends)
  br label %fibre.end
fibre.end:
  br label %fibre
done:
  ret void
}}"""


def _mark_both(width: int) -> str:
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
{_index("x", "%crd", "%p", width)}{_index("y", "%other", "%q", width)}
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
