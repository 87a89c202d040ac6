"""Pieces of LLVM IR on eight coordinates of a fibre at once, with eight of another one."""

from __future__ import annotations

from collections.abc import Iterable

LANES = 8
_WIDE = 16


def lane_numbers(element: str, numbers: Iterable[int]) -> str:
    """A constant vector."""
    return "<" + ", ".join(f"{element} {one}" for one in numbers) + ">"


def suffix(element: str, lanes: int = LANES) -> str:
    """How intrinsics name a vector type."""
    return f"v{lanes}" + {"double": "f64", "float": "f32"}.get(element, element)


def bits_of(name: str, lanes: int) -> str:
    """``%name.bits``: the lanes of a mask as a number."""
    return f"  %{name}.bits = bitcast <{lanes} x i1> %{name} to i{lanes}"


def in_all_lanes(name: str, made: str, number: str) -> str:
    """``%name``: the number ``%name.one`` that a text makes, in all lanes."""
    kind = f"<{LANES} x {number}>"
    return f"""{made}
  %{name}.first = insertelement {kind} poison, {number} %{name}.one, i64 0
  %{name} = shufflevector {kind} %{name}.first, {kind} poison, <{LANES} x i32> zeroinitializer"""


def masked_load(own: str, begin: str, end: str, width: int) -> str:
    """``%own``: up to eight coordinates at ``%own.at``, the largest there is behind the end.

    ``%own.left`` how many the fibre has left, ``%own.count`` how many of them are in ``%own.is``.
    """
    element = f"i{8 * width}"
    kind = f"<{LANES} x {element}>"
    narrow = f"add i64 %{own}.count, 0" if width == 8 else f"trunc i64 %{own}.count to i32"
    largest = lane_numbers(element, [2 ** (8 * width - 1) - 1] * LANES)
    return f"""  %{own}.left = sub i64 {end}, {begin}
  %{own}.count = call i64 @llvm.umin.i64(i64 %{own}.left, i64 {LANES})
  %{own}.size = {narrow}
  %{own}.size.first = insertelement {kind} poison, {element} %{own}.size, i64 0
  %{own}.sizes = shufflevector {kind} %{own}.size.first, {kind} poison,
                <{LANES} x i32> zeroinitializer
  %{own}.is = icmp ugt {kind} %{own}.sizes, {lane_numbers(element, range(LANES))}
  %{own} = call {kind} @llvm.masked.load.{suffix(element)}.p0(ptr %{own}.at, i32 1,
                <{LANES} x i1> %{own}.is, {kind} {largest})"""


def compared_text(width: int) -> str:
    """``%met``: coordinates of %a that %c has; ``%less``: how many of %c are less than each.

    ``%met.count`` of those that %a.own holds, ``%met.bits`` which. Of coordinates of four bytes a
    vector holds those of %a twice, beside two turns of %c.
    """
    element = f"i{8 * width}"
    copies = _WIDE // LANES if width == 4 else 1
    lanes = copies * LANES
    kind, wide = f"<{LANES} x {element}>", f"<{lanes} x {element}>"
    twice = lane_numbers("i32", [lane % LANES for lane in range(lanes)])
    lines = [f"  %a.wide = shufflevector {kind} %a, {kind} poison, <{lanes} x i32> {twice}"]
    equal, less = "zeroinitializer", "zeroinitializer"
    for turn in range(0, LANES, copies):
        order = lane_numbers(
            "i32", [(lane + turn + lane // LANES) % LANES for lane in range(lanes)]
        )
        lines.append(f"""  %c{turn} = shufflevector {kind} %c, {kind} poison,
                <{lanes} x i32> {order}
  %is{turn} = icmp eq {wide} %a.wide, %c{turn}
  %equal{turn} = or <{lanes} x i1> {equal}, %is{turn}
  %above{turn} = icmp sgt {wide} %a.wide, %c{turn}
  %more{turn} = add {wide} {less}, {lane_numbers(element, [1] * lanes)}
  %less{turn} = select <{lanes} x i1> %above{turn}, {wide} %more{turn}, {wide} {less}""")
        equal, less = f"%equal{turn}", f"%less{turn}"
    lines.append(_halves_text(equal, less, wide) if copies > 1 else _whole_text(equal, less))
    lines.append(f"""  %met = and <{LANES} x i1> %equal, %a.own
{bits_of("met", LANES)}
  %met.few = call i8 @llvm.ctpop.i8(i8 %met.bits)
  %met.count = zext i8 %met.few to i64
  %less = add {kind} %less.low, %less.high""")
    return "\n".join(lines)


def _halves_text(equal: str, less: str, wide: str) -> str:
    low = lane_numbers("i32", range(LANES))
    high = lane_numbers("i32", range(LANES, 2 * LANES))
    bits = f"<{2 * LANES} x i1>"
    return f"""  %equal.low = shufflevector {bits} {equal}, {bits} poison, <{LANES} x i32> {low}
  %equal.high = shufflevector {bits} {equal}, {bits} poison, <{LANES} x i32> {high}
  %equal = or <{LANES} x i1> %equal.low, %equal.high
  %less.low = shufflevector {wide} {less}, {wide} poison, <{LANES} x i32> {low}
  %less.high = shufflevector {wide} {less}, {wide} poison, <{LANES} x i32> {high}"""


def _whole_text(equal: str, less: str) -> str:
    return f"""  %equal = or <{LANES} x i1> {equal}, zeroinitializer
  %less.low = add <{LANES} x i64> {less}, zeroinitializer
  %less.high = add <{LANES} x i64> zeroinitializer, zeroinitializer"""
