"""LLVM IR that computes rows from two fibres each, eight coordinates of either at once.

    row r = row r of B + row r of C      row r = row r of B * row r of C, where both store

Eight coordinates of either fibre are compared with each other: every one learns how many of the
other fibre are less, which is its place in the result. Lanes are then squeezed, or spread, to where
they go. Only the end of a fibre is a branch that is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable

from teir.backends.llvm.fibre_words import (
    SCALE_BYTES,
    TERM_WORDS,
    index_text,
    scale_text,
    two_fibres_text,
)

_LANES = 8


def lanes_text(width: int, number: str) -> str:
    """``teir_union_rows`` and ``teir_both_rows (terms, first, last, counts, out, values)``.

    They return how many columns there are. What lies behind the last column is overwritten.
    """
    made = [_rows_text(width, number, is_union=one) for one in (True, False)]
    return "\n".join(made)


def _rows_text(width: int, number: str, *, is_union: bool) -> str:
    second = 8 * (TERM_WORDS + 1) if is_union else 32
    name = "teir_union_rows" if is_union else "teir_both_rows"
    places = (SCALE_BYTES, 8 * TERM_WORDS + SCALE_BYTES)
    scales = [_scale_text("scales", places[0], number)]
    if is_union:
        scales.append(_scale_text("others", places[1], number))
    signed = "\n".join(scales)
    return f"""
define internal i64 @{name}(ptr %terms, i64 %first, i64 %last, ptr %counts, ptr %out,
                            ptr %values) nounwind {{
entry:
{two_fibres_text(second)}{signed}
  br label %row
row:
  %r = phi i64 [ %first, %entry ], [ %r.next, %row.end ]
  %n.row = phi i64 [ 0, %entry ], [ %n.next, %row.end ]
  %more = icmp slt i64 %r, %last
  br i1 %more, label %open, label %done
open:
  %r.next = add i64 %r, 1
{index_text("b", "%pos", "%r", width)}{index_text("e", "%pos", "%r.next", width)}{
        index_text("f", "%other.pos", "%r", width)
    }{index_text("g", "%other.pos", "%r.next", width)}  br label %lanes
{_row_text(width, number, is_union=is_union)}
row.end:
  %row.count = sub i64 %n.next, %n.row
  %count.at = getelementptr i64, ptr %counts, i64 %r
  store i64 %row.count, ptr %count.at
  br label %row
done:
  ret i64 %n.row
}}"""


def _scale_text(name: str, place: int, number: str) -> str:
    """``%name``: a scale of the records in all lanes."""
    kind = f"<{_LANES} x {number}>"
    return f"""{scale_text(f"{name}.one", "terms", place, number)}
  %{name}.first = insertelement {kind} poison, {number} %{name}.one, i64 0
  %{name} = shufflevector {kind} %{name}.first, {kind} poison, <8 x i32> zeroinitializer"""


def lanes_declarations(width: int, number: str) -> str:
    """What `lanes_text` calls."""
    element = f"i{8 * width}"
    kind, numbers, bits = f"<8 x {element}>", f"<8 x {number}>", "<8 x i1>"
    return f"""
declare {kind} @llvm.masked.load.v8{element}.p0(ptr, i32, {bits}, {kind})
declare {numbers} @llvm.masked.load.{_suffix(number)}.p0(ptr, i32, {bits}, {numbers})
declare {kind} @llvm.masked.expandload.v8{element}(ptr, {bits}, {kind})
declare {numbers} @llvm.masked.expandload.{_suffix(number)}(ptr, {bits}, {numbers})
declare {kind} @{_compress(element)}({kind}, {bits}, {kind})
declare {numbers} @{_compress(number)}({numbers}, {bits}, {numbers})
declare {numbers} @{_fused_lanes(number)}({numbers}, {numbers}, {numbers})
declare {element} @llvm.vector.reduce.or.v8{element}({kind})
declare {kind} @llvm.ctpop.v8{element}({kind})
declare {element} @llvm.smin.{element}({element}, {element})
declare i8 @llvm.ctpop.i8(i8)
"""


def _row_text(width: int, number: str, *, is_union: bool) -> str:
    """Eight coordinates of either fibre at a time, down to the lesser of the two last ones."""
    element = f"i{8 * width}"
    kind, bits = f"<8 x {element}>", "<8 x i1>"
    iota = _lanes(element, range(_LANES))
    lines = [
        f"""lanes:
  %p = phi i64 [ %b, %open ], [ %p.next, %next ]
  %q = phi i64 [ %f, %open ], [ %q.next, %next ]
  %n = phi i64 [ %n.row, %open ], [ %n.next, %next ]
  %out.at = getelementptr {element}, ptr %out, i64 %n
  %values.at = getelementptr {number}, ptr %values, i64 %n"""
    ]
    for name, array, begin, end in (("a", "%crd", "%p", "%e"), ("c", "%other", "%q", "%g")):
        lines += [
            f"  %{name}.left = sub i64 {end}, {begin}",
            _splat(f"{name}.length", f"{name}.size", f"%{name}.left", width),
            f"  %{name}.is = icmp ugt {kind} %{name}.length, {iota}",
            f"  %{name}.at = getelementptr {element}, ptr {array}, i64 {begin}",
            f"  %{name} = call {kind} @llvm.masked.load.v8{element}.p0(ptr %{name}.at, i32 1, "
            f"{bits} %{name}.is, {kind} {_lanes(element, [2 ** (8 * width - 1) - 1] * _LANES)})",
            f"  %{name}.last = extractelement {kind} %{name}, i64 {_LANES - 1}",
        ]
    lines.append(f"""  %bound = call {element} @llvm.smin.{element}({element} %a.last,
                                               {element} %c.last)
  %bound.first = insertelement {kind} poison, {element} %bound, i64 0
  %bounds = shufflevector {kind} %bound.first, {kind} poison, <8 x i32> zeroinitializer""")
    for name, place in (("a", "%p"), ("c", "%q")):
        lines.append(f"""  %{name}.near = icmp sle {kind} %{name}, %bounds
  %{name}.own = and {bits} %{name}.near, %{name}.is
  %{name}.bits = bitcast {bits} %{name}.own to i8
  %{name}.few = call i8 @llvm.ctpop.i8(i8 %{name}.bits)
  %{name}.count = zext i8 %{name}.few to i64
  %{place[1:]}.next = add i64 {place}, %{name}.count""")
    lines.append(_compared_text(width))
    made = _union_text(width, number) if is_union else _both_text(width, number)
    over = "and" if is_union else "or"
    lines.append(f"""{made}
  br label %next
next:
  %n.next = add i64 %n, %made
  %p.over = icmp sge i64 %p.next, %e
  %q.over = icmp sge i64 %q.next, %g
  %is.over = {over} i1 %p.over, %q.over
  br i1 %is.over, label %row.end, label %lanes""")
    return "\n".join(lines)


def _compared_text(width: int) -> str:
    """``%met``: coordinates of the first fibre that the second has; ``%less``: how many less."""
    element = f"i{8 * width}"
    kind, bits = f"<8 x {element}>", "<8 x i1>"
    equal, less = "zeroinitializer", "zeroinitializer"
    lines = []
    for turn in range(_LANES):
        order = _lanes("i32", [(lane + turn) % _LANES for lane in range(_LANES)])
        lines += [
            f"  %c{turn} = shufflevector {kind} %c, {kind} poison, <8 x i32> {order}",
            f"  %is{turn} = icmp eq {kind} %a, %c{turn}",
            f"  %equal{turn} = or {bits} {equal}, %is{turn}",
            f"  %above{turn} = icmp sgt {kind} %a, %c{turn}",
            f"  %one{turn} = zext {bits} %above{turn} to {kind}",
            f"  %less{turn} = add {kind} {less}, %one{turn}",
        ]
        equal, less = f"%equal{turn}", f"%less{turn}"
    lines.append(f"""  %met = and {bits} {equal}, %a.own
  %met.bits = bitcast {bits} %met to i8
  %met.few = call i8 @llvm.ctpop.i8(i8 %met.bits)
  %met.count = zext i8 %met.few to i64
  %less = add {kind} {less}, zeroinitializer""")
    return "\n".join(lines)


def _both_text(width: int, number: str) -> str:
    """What both store, and its products."""
    element = f"i{8 * width}"
    kind, numbers, bits = f"<8 x {element}>", f"<8 x {number}>", "<8 x i1>"
    return f"""  %made = add i64 %met.count, 0
  %where = shl {kind} {_lanes(element, [1] * _LANES)}, %less
  %where.met = select {bits} %met, {kind} %where, {kind} zeroinitializer
  %which = call {element} @llvm.vector.reduce.or.v8{element}({kind} %where.met)
  %which.bits = trunc {element} %which to i8
  %c.met = bitcast i8 %which.bits to {bits}
{_load("a.all", "%val", "%p", "%a.is", number)}{_load("c.all", "%oval", "%q", "%c.is", number)}
  %a.squeezed = call {numbers} @{_compress(number)}({numbers} %a.all, {bits} %met,
                                                    {numbers} poison)
  %c.squeezed = call {numbers} @{_compress(number)}({numbers} %c.all, {bits} %c.met,
                                                    {numbers} poison)
  %squeezed = call {kind} @{_compress(element)}({kind} %a, {bits} %met, {kind} poison)
  %a.scaled = fmul {numbers} %scales, %a.squeezed
  %products = call {numbers} @{_fused_lanes(number)}({numbers} %a.scaled, {numbers} %c.squeezed,
                                                     {numbers} zeroinitializer)
  store {kind} %squeezed, ptr %out.at, align 1
  store {numbers} %products, ptr %values.at, align 1"""


def _union_text(width: int, number: str) -> str:
    """What either stores, and its sums: a bit per place of the result says whose it is."""
    element = f"i{8 * width}"
    kind, bits = f"<8 x {element}>", "<8 x i1>"
    return f"""  %met.wide = zext i8 %met.bits to i64
{_splat("met.all", "met.narrow", "%met.wide", width)}
  %met.below = and {kind} %met.all, {_lanes(element, [2**lane - 1 for lane in range(_LANES)])}
  %met.before = call {kind} @llvm.ctpop.v8{element}({kind} %met.below)
  %far = add {kind} %less, {_lanes(element, range(_LANES))}
  %place = sub {kind} %far, %met.before
  %bit = shl {kind} {_lanes(element, [1] * _LANES)}, %place
  %bit.high = shl {kind} %bit, {_lanes(element, [16] * _LANES)}
  %bit.met = select {bits} %met, {kind} %bit.high, {kind} zeroinitializer
  %bit.all = or {kind} %bit, %bit.met
  %bit.own = select {bits} %a.own, {kind} %bit.all, {kind} zeroinitializer
  %word = call {element} @llvm.vector.reduce.or.v8{element}({kind} %bit.own)
  %a.word = trunc {element} %word to i16
  %word.high = lshr {element} %word, 16
  %met.word = trunc {element} %word.high to i16
  %both.count = add i64 %a.count, %c.count
  %made = sub i64 %both.count, %met.count
  %past = shl i64 1, %made
  %full = sub i64 %past, 1
  %full.word = trunc i64 %full to i16
  %a.not = xor i16 %a.word, -1
  %c.only = and i16 %full.word, %a.not
  %c.word = or i16 %c.only, %met.word
  %a.low = trunc i16 %a.word to i8
  %a.taken = call i8 @llvm.ctpop.i8(i8 %a.low)
  %a.second = zext i8 %a.taken to i64
  %p.second = add i64 %p, %a.second
  %c.low = trunc i16 %c.word to i8
  %c.taken = call i8 @llvm.ctpop.i8(i8 %c.low)
  %c.second = zext i8 %c.taken to i64
  %q.second = add i64 %q, %c.second
{_half_text("first", 0, ("%p", "%q"), width, number)}
{_half_text("second", 8, ("%p.second", "%q.second"), width, number)}"""


def _half_text(name: str, first: int, places: tuple[str, str], width: int, number: str) -> str:
    """Eight columns of a union from ``first`` on, and their sums."""
    element = f"i{8 * width}"
    kind, numbers, bits = f"<8 x {element}>", f"<8 x {number}>", "<8 x i1>"
    lines = []
    for fibre, place, coordinates, values in (
        ("a", places[0], "%crd", "%val"),
        ("c", places[1], "%other", "%oval"),
    ):
        lines += [
            f"  %{fibre}.{name}.word = lshr i16 %{fibre}.word, {first}",
            f"  %{fibre}.{name}.byte = trunc i16 %{fibre}.{name}.word to i8",
            f"  %{fibre}.{name}.is = bitcast i8 %{fibre}.{name}.byte to {bits}",
            f"  %{fibre}.{name}.crd.at = getelementptr {element}, ptr {coordinates}, i64 {place}",
            f"  %{fibre}.{name}.val.at = getelementptr {number}, ptr {values}, i64 {place}",
        ]
        before = "zeroinitializer" if fibre == "a" else f"%a.{name}.crd"
        lines += [
            f"  %{fibre}.{name}.crd = call {kind} @llvm.masked.expandload.v8{element}"
            f"(ptr %{fibre}.{name}.crd.at, {bits} %{fibre}.{name}.is, {kind} {before})",
            f"  %{fibre}.{name}.val = call {numbers} @llvm.masked.expandload.{_suffix(number)}"
            f"(ptr %{fibre}.{name}.val.at, {bits} %{fibre}.{name}.is, {numbers} zeroinitializer)",
        ]
    lines += [
        f"  %{name}.sum = call {numbers} @{_fused_lanes(number)}({numbers} %scales, "
        f"{numbers} %a.{name}.val, {numbers} zeroinitializer)",
        f"  %{name}.all = call {numbers} @{_fused_lanes(number)}({numbers} %others, "
        f"{numbers} %c.{name}.val, {numbers} %{name}.sum)",
        f"  %{name}.out = getelementptr {element}, ptr %out.at, i64 {first}",
        f"  store {kind} %c.{name}.crd, ptr %{name}.out, align 1",
        f"  %{name}.values = getelementptr {number}, ptr %values.at, i64 {first}",
        f"  store {numbers} %{name}.all, ptr %{name}.values, align 1",
    ]
    return "\n".join(lines)


def _splat(name: str, narrow: str, value: str, width: int) -> str:
    """``%name``: an i64 in all lanes of the width of coordinates."""
    element = f"i{8 * width}"
    kind = f"<8 x {element}>"
    made = f"add i64 {value}, 0" if width == 8 else f"trunc i64 {value} to i32"
    return f"""  %{narrow} = {made}
  %{narrow}.first = insertelement {kind} poison, {element} %{narrow}, i64 0
  %{name} = shufflevector {kind} %{narrow}.first, {kind} poison, <8 x i32> zeroinitializer"""


def _lanes(element: str, numbers: Iterable[int]) -> str:
    return "<" + ", ".join(f"{element} {one}" for one in numbers) + ">"


def _load(name: str, array: str, place: str, mask: str, number: str) -> str:
    """The values of a fibre where it has lanes."""
    kind = f"<8 x {number}>"
    return f"""  %{name}.at = getelementptr {number}, ptr {array}, i64 {place}
  %{name} = call {kind} @llvm.masked.load.{_suffix(number)}.p0(ptr %{name}.at, i32 1,
                <8 x i1> {mask}, {kind} zeroinitializer)
"""


def _suffix(element: str) -> str:
    return {"double": "v8f64", "float": "v8f32"}.get(element, f"v8{element}")


def _compress(element: str) -> str:
    return f"llvm.experimental.vector.compress.{_suffix(element)}"


def _fused_lanes(number: str) -> str:
    return f"llvm.fma.{_suffix(number)}"
