"""LLVM IR that puts what eight coordinates of either of two fibres give where it goes.

`spread_function` for a sum of rows, `squeezed_function` for the product where both store.
"""

from __future__ import annotations

from teir.backends.llvm.fibre_lane_words import (
    LANES,
    compared_text,
    lane_numbers,
    suffix,
)

_PLACES = 2 * LANES
_VECTOR_BYTES = 64


def arguments(width: int, number: str) -> str:
    """What both functions take; they return how many columns there are."""
    kind, numbers = f"<{LANES} x i{8 * width}>", f"<{LANES} x {number}>"
    return f"""({kind} %a, {kind} %c, <8 x i1> %a.is, <8 x i1> %c.is, <8 x i1> %a.own, i64 %most,
    ptr %a.at, ptr %c.at, ptr %a.val, ptr %c.val, {numbers} %scales, {numbers} %others, ptr %out,
    ptr %values)"""


def squeezed_function(width: int, number: str) -> str:
    """What both store, and its products."""
    element = f"i{8 * width}"
    kind, numbers, bits = f"<8 x {element}>", f"<8 x {number}>", "<8 x i1>"
    return f"""
define internal i64 @teir_squeezed{arguments(width, number)} alwaysinline nounwind {{
{compared_text(width)}
  %where = shl {kind} {lane_numbers(element, [1] * LANES)}, %less
  %where.met = select {bits} %met, {kind} %where, {kind} zeroinitializer
  %which = call {element} @llvm.vector.reduce.or.v8{element}({kind} %where.met)
  %which.bits = trunc {element} %which to i8
  %c.met = bitcast i8 %which.bits to {bits}
{_values_text("a", number)}
{_values_text("c", number)}
  %a.squeezed = call {numbers} @{_compress(number)}({numbers} %a.all, {bits} %met,
                                                    {numbers} poison)
  %c.squeezed = call {numbers} @{_compress(number)}({numbers} %c.all, {bits} %c.met,
                                                    {numbers} poison)
  %squeezed = call {kind} @{_compress(element)}({kind} %a, {bits} %met, {kind} poison)
  %a.scaled = fmul {numbers} %scales, %a.squeezed
  %products = call {numbers} @llvm.fma.{suffix(number)}({numbers} %a.scaled,
                {numbers} %c.squeezed, {numbers} zeroinitializer)
  store {kind} %squeezed, ptr %out, align 1
  store {numbers} %products, ptr %values, align 1
  ret i64 %met.count
}}"""


def _values_text(side: str, number: str) -> str:
    kind = f"<{LANES} x {number}>"
    return f"""  %{side}.all = call {kind} @llvm.masked.load.{suffix(number)}.p0(ptr %{side}.val,
                i32 1, <8 x i1> %{side}.is, {kind} zeroinitializer)"""


def _compress(element: str) -> str:
    return f"llvm.experimental.vector.compress.{suffix(element)}"


def spread_function(width: int, number: str) -> str:
    """Put the own lanes of two vectors, and their sums, in order: a bit per place says whose."""
    element = f"i{8 * width}"
    kind = f"<8 x {element}>"
    ones, high = lane_numbers(element, [1] * LANES), lane_numbers(element, [_PLACES] * LANES)
    below = lane_numbers(element, [2**lane - 1 for lane in range(LANES)])
    return f"""
define internal i64 @teir_spread{arguments(width, number)} alwaysinline nounwind {{
{compared_text(width)}
  %met.wide = zext i8 %met.bits to {element}
  %met.head = insertelement {kind} poison, {element} %met.wide, i64 0
  %met.all = shufflevector {kind} %met.head, {kind} poison, <8 x i32> zeroinitializer
  %met.below = and {kind} %met.all, {below}
  %met.before = call {kind} @llvm.ctpop.v8{element}({kind} %met.below)
  %far = add {kind} %less, {lane_numbers(element, range(LANES))}
  %place = sub {kind} %far, %met.before
  %bit = shl {kind} {ones}, %place
  %bit.high = shl {kind} %bit, {high}
  %bit.met = select <8 x i1> %met, {kind} %bit.high, {kind} zeroinitializer
  %bit.all = or {kind} %bit, %bit.met
  %bit.own = select <8 x i1> %a.own, {kind} %bit.all, {kind} zeroinitializer
  %word = call {element} @llvm.vector.reduce.or.v8{element}({kind} %bit.own)
  %a.word = trunc {element} %word to i{_PLACES}
  %word.high = lshr {element} %word, {_PLACES}
  %met.word = trunc {element} %word.high to i{_PLACES}
  %made = sub i64 %most, %met.count
  %past = shl i64 1, %made
  %full = sub i64 %past, 1
  %full.word = trunc i64 %full to i{_PLACES}
  %a.not = xor i{_PLACES} %a.word, -1
  %c.only = and i{_PLACES} %full.word, %a.not
  %c.word = or i{_PLACES} %c.only, %met.word
{_spread_coordinates(element, width)}
{_spread_values(number)}
  ret i64 %made
}}"""


def _parts(size: int) -> list[tuple[int, int]]:
    """The first place and the lanes of every vector of the result."""
    lanes = min(_PLACES, _VECTOR_BYTES // size)
    return [(first, lanes) for first in range(0, _PLACES, lanes)]


def _lanes_of(own: str, side: str, first: int, lanes: int) -> str:
    """``%own.is`` and ``%own.before``: which places are a side's, and how many before them."""
    word = f"i{_PLACES}"
    if lanes == _PLACES:
        return f"""  %{own}.is = bitcast {word} %{side}.word to <{lanes} x i1>
  %{own}.before = add i64 0, 0"""
    return f"""  %{own}.low = and {word} %{side}.word, {2**first - 1}
  %{own}.few = call {word} @llvm.ctpop.{word}({word} %{own}.low)
  %{own}.before = zext {word} %{own}.few to i64
  %{own}.word = lshr {word} %{side}.word, {first}
  %{own}.byte = trunc {word} %{own}.word to i{lanes}
  %{own}.is = bitcast i{lanes} %{own}.byte to <{lanes} x i1>"""


def _spread_coordinates(element: str, width: int) -> str:
    lines = []
    for number, (first, lanes) in enumerate(_parts(width)):
        name, kind = f"crd{number}", f"<{lanes} x {element}>"
        before = "zeroinitializer"
        for side in "ac":
            own = f"{name}.{side}"
            lines.append(f"""{_lanes_of(own, side, first, lanes)}
  %{own}.from = getelementptr {element}, ptr %{side}.at, i64 %{own}.before
  %{own} = call {kind} @llvm.masked.expandload.{suffix(element, lanes)}(ptr %{own}.from,
                <{lanes} x i1> %{own}.is, {kind} {before})""")
            before = f"%{own}"
        lines.append(f"""  %{name}.to = getelementptr {element}, ptr %out, i64 {first}
  store {kind} {before}, ptr %{name}.to, align 1""")
    return "\n".join(lines)


def _spread_values(number: str) -> str:
    """Sums of what is stored only: an infinite scale makes no number of what is not."""
    lines = []
    for part, (first, lanes) in enumerate(_parts(8 if number == "double" else 4)):
        name, kind, fused = f"val{part}", f"<{lanes} x {number}>", suffix(number, lanes)
        before = "zeroinitializer"
        for side, scale in (("a", "scales"), ("c", "others")):
            own = f"{name}.{side}"
            order = lane_numbers("i32", [lane % LANES for lane in range(lanes)])
            lines.append(f"""{_lanes_of(own, side, first, lanes)}
  %{own}.from = getelementptr {number}, ptr %{side}.val, i64 %{own}.before
  %{own} = call {kind} @llvm.masked.expandload.{fused}(ptr %{own}.from,
                <{lanes} x i1> %{own}.is, {kind} zeroinitializer)
  %{own}.scales = shufflevector <8 x {number}> %{scale}, <8 x {number}> poison,
                <{lanes} x i32> {order}
  %{own}.sum = call {kind} @llvm.fma.{fused}({kind} %{own}.scales, {kind} %{own}, {kind} {before})
  %{own}.all = select <{lanes} x i1> %{own}.is, {kind} %{own}.sum, {kind} {before}""")
            before = f"%{own}.all"
        lines.append(f"""  %{name}.to = getelementptr {number}, ptr %values, i64 {first}
  store {kind} {before}, ptr %{name}.to, align 1""")
    return "\n".join(lines)


def placing_declarations(width: int, number: str) -> str:
    """What these functions call."""
    element = f"i{8 * width}"
    kind, numbers, bits = f"<8 x {element}>", f"<8 x {number}>", "<8 x i1>"
    made = [
        f"declare {kind} @{_compress(element)}({kind}, {bits}, {kind})",
        f"declare {numbers} @{_compress(number)}({numbers}, {bits}, {numbers})",
        f"declare {element} @llvm.vector.reduce.or.v8{element}({kind})",
        f"declare {kind} @llvm.ctpop.v8{element}({kind})",
        "declare i8 @llvm.ctpop.i8(i8)",
    ]
    for one, size in ((element, width), (number, 8 if number == "double" else 4)):
        (_, lanes) = _parts(size)[0]
        vector, several = f"<{lanes} x {one}>", suffix(one, lanes)
        made.append(
            f"declare {vector} @llvm.masked.expandload.{several}(ptr, <{lanes} x i1>, {vector})"
        )
        if one == number:
            made.append(f"declare {vector} @llvm.fma.{several}({vector}, {vector}, {vector})")
    made.append(f"declare i{_PLACES} @llvm.ctpop.i{_PLACES}(i{_PLACES})")
    return "\n".join(made)
