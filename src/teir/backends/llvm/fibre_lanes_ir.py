"""LLVM IR that computes rows from two fibres each, eight coordinates of either at once.

    row r = row r of B + row r of C      row r = row r of B * row r of C, where both store

Eight coordinates of either fibre are compared with each other: every one learns how many of the
other fibre are less, which is its place in the result; lanes are then squeezed, or spread, to where
they go. Where the eight are the same in both, as in rows with one pattern, nothing moves. How far
to go on in either fibre hangs on two numbers and one comparison, so that the next eight are on
their way while these are placed. To a sum what is left of one fibre is copied.
"""

from __future__ import annotations

from teir.backends.llvm.fibre_lane_words import (
    LANES,
    bits_of,
    in_all_lanes,
    masked_load,
    suffix,
)
from teir.backends.llvm.fibre_placing_ir import (
    placing_declarations,
    spread_function,
    squeezed_function,
)
from teir.backends.llvm.fibre_words import (
    SCALE_BYTES,
    TERM_WORDS,
    scale_text,
    two_fibres_text,
    two_spans_text,
)


def lanes_text(width: int, number: str) -> str:
    """``teir_union_rows`` and ``teir_both_rows (terms, first, last, ends, out, values)``.

    They return how many columns there are, and store in ``ends`` how many up to every row. What
    lies behind the last column is overwritten.
    """
    rows = (_rows_text(width, number, is_union=one) for one in (True, False))
    return "\n".join((spread_function(width, number), squeezed_function(width, number), *rows))


def lanes_declarations(width: int, number: str) -> str:
    """What `lanes_text` calls."""
    element = f"i{8 * width}"
    kind, numbers, bits = f"<8 x {element}>", f"<8 x {number}>", "<8 x i1>"
    return f"""
declare {kind} @llvm.masked.load.v8{element}.p0(ptr, i32, {bits}, {kind})
declare {numbers} @llvm.masked.load.{suffix(number)}.p0(ptr, i32, {bits}, {numbers})
declare {numbers} @llvm.fma.{suffix(number)}({numbers}, {numbers}, {numbers})
{placing_declarations(width, number)}"""


def _rows_text(width: int, number: str, *, is_union: bool) -> str:
    name = "teir_union_rows" if is_union else "teir_both_rows"
    second = 8 * (TERM_WORDS + 1) if is_union else 32
    own = 8 * TERM_WORDS + SCALE_BYTES if is_union else SCALE_BYTES
    scales = "\n".join(
        in_all_lanes(name, scale_text(f"{name}.one", "terms", place, number), number)
        for name, place in (("scales", SCALE_BYTES), ("others", own))
    )
    rests = [_rest_text(one, width, number) for one in ("left", "right")] if is_union else []
    over = "\n".join([*rests, "row.end:"])
    after = "left" if is_union else "row.end"
    last = "[ %right.n, %right ]" if is_union else "[ %few.n, %few ]"
    return f"""
define internal i64 @{name}(ptr %terms, i64 %first, i64 %last, ptr %ends, ptr %out, ptr %values)
    nounwind {{
entry:
{two_fibres_text(second)}{scales}
  br label %row
row:
  %r = phi i64 [ %first, %entry ], [ %r.next, %row.end ]
  %n.row = phi i64 [ 0, %entry ], [ %n.end, %row.end ]
  %more = icmp slt i64 %r, %last
  br i1 %more, label %open, label %done
open:
  %r.next = add i64 %r, 1
{two_spans_text(width)}  br label %full
{_loop_text("full", ("open", "few"), width, number, is_union=is_union)}
{_loop_text("few", ("full", after), width, number, is_union=is_union)}
{over}
  %n.end = phi i64 {last}
  %end.at = getelementptr i64, ptr %ends, i64 %r
  store i64 %n.end, ptr %end.at
  br label %row
done:
  ret i64 %n.row
}}"""


def _alike_text(name: str, number: str, *, is_union: bool) -> str:
    """``%name.total``: the values of eight coordinates that both fibres store."""
    numbers = f"<8 x {number}>"
    fused = f"call {numbers} @llvm.fma.{suffix(number)}({numbers}"
    if not is_union:
        return f"""  %{name}.scaled = fmul {numbers} %scales, %{name}.a.all
  %{name}.total = {fused} %{name}.scaled, {numbers} %{name}.c.all,
                {numbers} zeroinitializer)"""
    return f"""  %{name}.sum = {fused} %scales, {numbers} %{name}.a.all,
                {numbers} zeroinitializer)
  %{name}.total = {fused} %others, {numbers} %{name}.c.all, {numbers} %{name}.sum)"""


_SIDES = (("a", "p", "%e", "%crd", "%val"), ("c", "q", "%g", "%other", "%oval"))
"""Of either fibre: letter, place in it, where it ends, coordinates, values."""


def _loop_text(
    name: str, around: tuple[str, str], width: int, number: str, *, is_union: bool
) -> str:
    """Eight coordinates of either fibre at a time: ``full`` ones, then ``few``, masked.

    ``around`` are the labels before and after the loop.
    """
    before, after = around
    is_full = name == "full"
    start = ("%b", "%f", "%n.row") if is_full else ("%full.p", "%full.q", "%full.n")
    begin = "\n".join(
        f"  %{name}.{one} = phi i64 [ {first}, %{before} ], "
        f"[ %{name}.{one}.same, %{name}.same ], [ %{name}.{one}.next, %{name}.apart ]"
        for one, first in zip("pqn", start, strict=True)
    )
    some = "\n".join(
        f"""  %{name}.{place}.past = add i64 %{name}.{place}, {LANES if is_full else 1}
  %{name}.{place}.some = icmp sle i64 %{name}.{place}.past, {end}"""
        for _, place, end, _, _ in _SIDES
    )
    return f"""{name}:
{begin}
{some}
  %{name}.some = and i1 %{name}.p.some, %{name}.q.some
  br i1 %{name}.some, label %{name}.look, label %{after}
{name}.look:
  %{name}.out = getelementptr i{8 * width}, ptr %out, i64 %{name}.n
  %{name}.values = getelementptr {number}, ptr %values, i64 %{name}.n
{_look_text(name, width, number)}
{name}.same:
{_same_text(name, width, number, is_union=is_union)}
  br label %{name}
{name}.apart:
{_apart_text(name, width, number, is_union=is_union)}
  br label %{name}"""


def _look_text(name: str, width: int, number: str) -> str:
    """The coordinates of both, and whether they are the same."""
    element = f"i{8 * width}"
    kind = f"<8 x {element}>"
    lines = []
    for side, place, end, coordinates, values in _SIDES:
        own = f"{name}.{side}"
        at = f"i64 %{name}.{place}"
        lines.append(f"  %{own}.at = getelementptr {element}, ptr {coordinates}, {at}")
        lines.append(f"  %{own}.val = getelementptr {number}, ptr {values}, {at}")
        if name == "full":
            lines.append(f"  %{own} = load {kind}, ptr %{own}.at, align 1")
        else:
            lines.append(masked_load(own, f"%{name}.{place}", end, width))
    lines.append(f"""  %{name}.is = icmp eq {kind} %{name}.a, %{name}.c
{bits_of(f"{name}.is", LANES)}
  %{name}.alike = icmp eq i8 %{name}.is.bits, -1""")
    if name == "full":
        lines.append(f"  br i1 %{name}.alike, label %{name}.same, label %{name}.apart")
    else:
        lines.append(f"""  %{name}.as.many = icmp eq i64 %{name}.a.left, %{name}.c.left
  %{name}.both = and i1 %{name}.alike, %{name}.as.many
  br i1 %{name}.both, label %{name}.same, label %{name}.apart""")
    return "\n".join(lines)


def _same_text(name: str, width: int, number: str, *, is_union: bool) -> str:
    """Both store the same eight coordinates."""
    kind, numbers = f"<8 x i{8 * width}>", f"<8 x {number}>"
    lines = []
    for side in "ac":
        own = f"{name}.{side}"
        at = f"ptr %{own}.val"
        masked = f"call {numbers} @llvm.masked.load.{suffix(number)}.p0({at}, i32 1, "
        masked += f"<8 x i1> %{own}.is, {numbers} zeroinitializer)"
        plain = f"load {numbers}, {at}, align 1"
        lines.append(f"  %{own}.all = {plain if name == 'full' else masked}")
    count = str(LANES) if name == "full" else f"%{name}.a.count"
    lines.append(f"""{_alike_text(name, number, is_union=is_union)}
  store {kind} %{name}.a, ptr %{name}.out, align 1
  store {numbers} %{name}.total, ptr %{name}.values, align 1""")
    lines += [f"  %{name}.{one}.same = add i64 %{name}.{one}, {count}" for one in "pqn"]
    return "\n".join(lines)


def _apart_text(name: str, width: int, number: str, *, is_union: bool) -> str:
    """Down to the lesser of the two last coordinates."""
    kind, numbers = f"<8 x i{8 * width}>", f"<8 x {number}>"
    is_full = name == "full"
    masks = ["splat (i1 true)" if is_full else f"%{name}.{side}.is" for side in "ac"]
    lines = [_last_text(f"{name}.{side}", width, is_full=is_full) for side in "ac"]
    for (side, place, _, _, _), other, mask in zip(_SIDES, "ca", masks, strict=True):
        own = f"{name}.{side}"
        lines.append(f"""  %{own}.near = icmp sle {kind} %{own}, %{name}.{other}.bounds
  %{own}.own = and <8 x i1> %{own}.near, {mask}
{bits_of(f"{own}.own", LANES)}
  %{own}.few = call i8 @llvm.ctpop.i8(i8 %{own}.own.bits)
  %{own}.taken = zext i8 %{own}.few to i64
  %{name}.{place}.next = add i64 %{name}.{place}, %{own}.taken""")
    placed = "teir_spread" if is_union else "teir_squeezed"
    lines.append(f"""  %{name}.most = add i64 %{name}.a.taken, %{name}.c.taken
  %{name}.made = call i64 @{placed}({kind} %{name}.a, {kind} %{name}.c, <8 x i1> {masks[0]},
      <8 x i1> {masks[1]}, <8 x i1> %{name}.a.own, i64 %{name}.most, ptr %{name}.a.at,
      ptr %{name}.c.at, ptr %{name}.a.val, ptr %{name}.c.val, {numbers} %scales, {numbers} %others,
      ptr %{name}.out, ptr %{name}.values)
  %{name}.n.next = add i64 %{name}.n, %{name}.made""")
    return "\n".join(lines)


def _last_text(own: str, width: int, *, is_full: bool) -> str:
    """``%own.bounds``: the last coordinate in all lanes, the largest there is behind the end."""
    element = f"i{8 * width}"
    kind = f"<8 x {element}>"
    if is_full:
        last = f"""  %{own}.last.at = getelementptr {element}, ptr %{own}.at, i64 {LANES - 1}
  %{own}.last = load {element}, ptr %{own}.last.at, align 1"""
    else:
        last = f"  %{own}.last = extractelement {kind} %{own}, i64 {LANES - 1}"
    return f"""{last}
  %{own}.head = insertelement {kind} poison, {element} %{own}.last, i64 0
  %{own}.bounds = shufflevector {kind} %{own}.head, {kind} poison, <8 x i32> zeroinitializer"""


def _rest_text(label: str, width: int, number: str) -> str:
    """What is left of one fibre after the other has ended."""
    element = f"i{8 * width}"
    kind, numbers = f"<8 x {element}>", f"<8 x {number}>"
    is_left = label == "left"
    before, after = ("few", "right") if is_left else ("left", "row.end")
    coordinates, values, scale = (
        ("%crd", "%val", "%scales") if is_left else ("%other", "%oval", "%others")
    )
    place, end, count = ("p", "%e", "%few.n") if is_left else ("q", "%g", "%left.n")
    own = f"{label}.a"
    return f"""{label}:
  %{label}.p = phi i64 [ %few.{place}, %{before} ], [ %{label}.p.next, %{label}.take ]
  %{label}.n = phi i64 [ {count}, %{before} ], [ %{label}.n.next, %{label}.take ]
  %{label}.some = icmp slt i64 %{label}.p, {end}
  br i1 %{label}.some, label %{label}.take, label %{after}
{label}.take:
  %{own}.at = getelementptr {element}, ptr {coordinates}, i64 %{label}.p
  %{own}.val = getelementptr {number}, ptr {values}, i64 %{label}.p
{masked_load(own, f"%{label}.p", end, width)}
  %{own}.all = call {numbers} @llvm.masked.load.{suffix(number)}.p0(ptr %{own}.val, i32 1,
                <8 x i1> %{own}.is, {numbers} zeroinitializer)
  %{own}.sum = call {numbers} @llvm.fma.{suffix(number)}({numbers} {scale}, {numbers} %{own}.all,
                {numbers} zeroinitializer)
  %{own}.out = getelementptr {element}, ptr %out, i64 %{label}.n
  %{own}.values = getelementptr {number}, ptr %values, i64 %{label}.n
  store {kind} %{own}, ptr %{own}.out, align 1
  store {numbers} %{own}.sum, ptr %{own}.values, align 1
  %{label}.p.next = add i64 %{label}.p, %{own}.count
  %{label}.n.next = add i64 %{label}.n, %{own}.count
  br label %{label}"""
