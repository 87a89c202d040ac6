"""LLVM IR of the check of index arrays: are coordinates inside, and does every fibre ascend?"""

from __future__ import annotations

from dataclasses import dataclass

from teir.target import Isa


def check_function(symbol: str, isa: Isa, width: int, *, copies: bool) -> str:
    """The function's definition in LLVM IR; with ``copies`` it takes %own.pos and %own.crd too."""
    element = f"i{8 * width}"
    lanes = max(1, isa.vector_bytes // width)
    own = ", ptr noalias %own.pos, ptr noalias %own.crd" if copies else ""
    kept_pos = f"  store {element} %begin, ptr %own.pos, align 1\n" if copies else ""
    kept_crd = f"  store {element} %first, ptr %own.crd, align 1\n" if copies else ""
    return f"""
define i64 @{symbol}(ptr %pos, i64 %fibres, ptr %crd, i64 %stored, i64 %extent{own}) {{
entry:
  %begin = load {element}, ptr %pos, align 1
  %lastp = getelementptr {element}, ptr %pos, i64 %fibres
  %last = load {element}, ptr %lastp, align 1
  %count = {_narrow("%stored", width)}
  %wrong0 = icmp ne {element} %begin, 0
  %wrong1 = icmp ne {element} %last, %count
  %wrong = or i1 %wrong0, %wrong1
{kept_pos}  br i1 %wrong, label %no, label %pos.entry
{_falls("pos", isa, width, "%fibres", is_crd=False, copies=copies)}
pos.done:
  %pos.good = icmp eq i64 %pos.falls, 0
  br i1 %pos.good, label %some, label %no
some:
  %empty = icmp eq i64 %stored, 0
  br i1 %empty, label %yes, label %range
range:
{_bound_text(width)}
  %first = load {element}, ptr %crd, align 1
  %inside = icmp ult {element} %first, %bound
  %steps = sub i64 %stored, 1
{kept_crd}  br i1 %inside, label %crd.entry, label %no
{_falls("crd", isa, width, "%steps", is_crd=True, copies=copies)}
crd.done:
  %outside = icmp ne i64 %crd.out, 0
  br i1 %outside, label %no, label %starts
{_starts_text(width)}yes:
  ret i64 0
no:
  ret i64 1
}}
{_declarations(element, lanes, width)}"""


def _starts_text(width: int) -> str:
    """Counts the fibres whose first coordinate does not exceed the one before, from %starts on."""
    element = f"i{8 * width}"
    return f"""starts:
  %count.n = {_narrow("%stored", width)}
  br label %front
front:
  %first.f = phi i64 [ 0, %starts ], [ %first.next, %front.step ]
  %front.some = icmp slt i64 %first.f, %fibres
  br i1 %front.some, label %front.look, label %starts.done
front.look:
  %first.at = getelementptr {element}, ptr %pos, i64 %first.f
  %first.n = load {element}, ptr %first.at, align 1
  %is.first = icmp eq {element} %first.n, 0
  br i1 %is.first, label %front.step, label %fibre
front.step:
  %first.next = add i64 %first.f, 1
  br label %front
fibre:
  %f = phi i64 [ %first.f, %front.look ], [ %f.next, %fibre.look ]
  %from.n = phi {element} [ %first.n, %front.look ], [ %to.n, %fibre.look ]
  %seen.now = phi i64 [ 0, %front.look ], [ %seen.next, %fibre.look ]
  %over = icmp eq {element} %from.n, %count.n
  br i1 %over, label %starts.done, label %fibre.look
fibre.look:
  %f.next = add i64 %f, 1
  %fn = getelementptr {element}, ptr %pos, i64 %f.next
  %to.n = load {element}, ptr %fn, align 1
  %from = {_wide("%from.n", width)}
  %hp = getelementptr {element}, ptr %crd, i64 %from
  %bp = getelementptr {element}, ptr %hp, i64 -1
  %here = load {element}, ptr %hp, align 1
  %prior = load {element}, ptr %bp, align 1
  %drop = icmp ule {element} %here, %prior
  %filled = icmp ne {element} %from.n, %to.n
  %counts = and i1 %drop, %filled
  %one = zext i1 %counts to i64
  %seen.next = add i64 %seen.now, %one
  br label %fibre
starts.done:
  %seen = phi i64 [ 0, %front ], [ %seen.now, %fibre ]
  %same = icmp eq i64 %seen, %crd.falls
  br i1 %same, label %yes, label %no
"""


def _bound_text(width: int) -> str:
    """The extent as an unsigned element; every int32 coordinate is below 2^31."""
    if width == 8:
        return "  %bound = add i64 %extent, 0"
    least = "%most = call i64 @llvm.umin.i64(i64 %extent, i64 2147483648)"
    return f"  {least}\n  %bound = trunc i64 %most to i32"


def _narrow(name: str, width: int) -> str:
    return f"trunc i64 {name} to i32" if width == 4 else f"add i64 {name}, 0"


def _wide(name: str, width: int) -> str:
    return f"zext i32 {name} to i64" if width == 4 else f"add i64 {name}, 0"


def _declarations(element: str, lanes: int, width: int) -> str:
    total = f"declare {element} @llvm.vector.reduce.add.v{lanes}{element}(<{lanes} x {element}>)"
    return total if width == 8 else f"{total}\ndeclare i64 @llvm.umin.i64(i64, i64)"


@dataclass(frozen=True, slots=True)
class _Array:
    """One of the two arrays: its name, how it is read, whether it is copied on the way."""

    name: str
    width: int
    lanes: int
    is_crd: bool
    copies: bool

    @property
    def element(self) -> str:
        return f"i{8 * self.width}"

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.element}>"

    @property
    def falls_where(self) -> str:
        """How an element compares with the one before where it counts: equal coordinates do."""
        return "ule" if self.is_crd else "slt"


def _falls(name: str, isa: Isa, width: int, steps: str, *, is_crd: bool, copies: bool) -> str:
    """How many of the elements 1 to ``steps`` of an array are below the one before.

    Of coordinates equal ones count, and those not below %bound are counted too. Vectors first, then
    the rest.
    """
    array = _Array(name, width, max(1, isa.vector_bytes // width), is_crd, copies)
    return _falls_of_vectors(array, steps) + _falls_of_rest(array, steps)


def _kept(array: _Array, part: str, place: str, kind: str) -> str:
    """The copy of what is looked at."""
    if not array.copies:
        return ""
    name, element = array.name, array.element
    return (
        f"  %{name}.{part}.to = getelementptr {element}, ptr %own.{name}, i64 %{name}.{place}\n"
        f"  store {kind} %{name}.{part}.b, ptr %{name}.{part}.to, align 1\n"
    )


def _bounds(array: _Array) -> str:
    """%bound in every lane."""
    if not array.is_crd:
        return ""
    name, vector, lanes = array.name, array.vector, array.lanes
    return (
        f"  %{name}.one = insertelement {vector} undef, {array.element} %bound, i32 0\n"
        f"  %{name}.bounds = shufflevector {vector} %{name}.one, {vector} undef, "
        f"<{lanes} x i32> zeroinitializer\n"
    )


def _largest(array: _Array) -> str:
    """The largest coordinate of every lane so far."""
    name, vector, lanes = array.name, array.vector, array.lanes
    if not array.is_crd:
        return f"  %{name}.v.out2 = or {vector} %{name}.v.out, zeroinitializer\n"
    return (
        f"  %{name}.v.is.more = icmp ugt {vector} %{name}.v.b, %{name}.v.out\n"
        f"  %{name}.v.out2 = select <{lanes} x i1> %{name}.v.is.more, {vector} %{name}.v.b, "
        f"{vector} %{name}.v.out\n"
    )


def _lanes_beyond(array: _Array) -> str:
    """1 in every lane whose largest coordinate is not below %bound."""
    name, vector, lanes = array.name, array.vector, array.lanes
    if not array.is_crd:
        return f"  %{name}.v.oz = or {vector} %{name}.v.out, zeroinitializer\n"
    return (
        f"  %{name}.v.o = icmp uge {vector} %{name}.v.out, %{name}.bounds\n"
        f"  %{name}.v.oz = zext <{lanes} x i1> %{name}.v.o to {vector}\n"
    )


def _is_beyond(array: _Array) -> str:
    """Not 0 where a coordinate so far is not below %bound."""
    name = array.name
    if not array.is_crd:
        return f"  %{name}.out.next = or i64 %{name}.out, 0\n"
    return (
        f"  %{name}.s.o = icmp uge {array.element} %{name}.s.b, %bound\n"
        f"  %{name}.s.oz = zext i1 %{name}.s.o to i64\n"
        f"  %{name}.out.next = or i64 %{name}.out, %{name}.s.oz\n"
    )


def _falls_of_vectors(array: _Array, steps: str) -> str:
    name, element, vector, lanes = array.name, array.element, array.vector, array.lanes
    ones = "<" + ", ".join([f"{element} 1"] * lanes) + ">"
    total = f"{element} @llvm.vector.reduce.add.v{lanes}{element}({vector}"
    return f"""{name}.entry:
{_bounds(array)}  %{name}.whole = sdiv i64 {steps}, {lanes}
  %{name}.end = mul i64 %{name}.whole, {lanes}
  br label %{name}.v
{name}.v:
  %{name}.i = phi i64 [ 0, %{name}.entry ], [ %{name}.i.next, %{name}.v.body ]
  %{name}.v.sum = phi {vector} [ zeroinitializer, %{name}.entry ],
      [ %{name}.v.sum2, %{name}.v.body ]
  %{name}.v.out = phi {vector} [ zeroinitializer, %{name}.entry ],
      [ %{name}.v.out2, %{name}.v.body ]
  %{name}.v.more = icmp slt i64 %{name}.i, %{name}.end
  br i1 %{name}.v.more, label %{name}.v.body, label %{name}.v.done
{name}.v.body:
  %{name}.v.pa = getelementptr {element}, ptr %{name}, i64 %{name}.i
  %{name}.v.i1 = add i64 %{name}.i, 1
  %{name}.v.pb = getelementptr {element}, ptr %{name}, i64 %{name}.v.i1
  %{name}.v.a = load {vector}, ptr %{name}.v.pa, align 1
  %{name}.v.b = load {vector}, ptr %{name}.v.pb, align 1
  %{name}.v.c = icmp {array.falls_where} {vector} %{name}.v.b, %{name}.v.a
  %{name}.v.more.falls = add {vector} %{name}.v.sum, {ones}
  %{name}.v.sum2 = select <{lanes} x i1> %{name}.v.c, {vector} %{name}.v.more.falls,
      {vector} %{name}.v.sum
{_largest(array)}{_kept(array, "v", "v.i1", vector)}  %{name}.i.next = add i64 %{name}.i, {lanes}
  br label %{name}.v
{name}.v.done:
  %{name}.v.total = call {total} %{name}.v.sum)
  %{name}.v.total64 = {_wide(f"%{name}.v.total", array.width)}
{_lanes_beyond(array)}  %{name}.v.bad = call {total} %{name}.v.oz)
  %{name}.v.bad64 = {_wide(f"%{name}.v.bad", array.width)}
  br label %{name}.s
"""


def _falls_of_rest(array: _Array, steps: str) -> str:
    name, element = array.name, array.element
    return f"""{name}.s:
  %{name}.j = phi i64 [ %{name}.end, %{name}.v.done ], [ %{name}.j.next, %{name}.s.body ]
  %{name}.falls = phi i64 [ %{name}.v.total64, %{name}.v.done ],
      [ %{name}.falls.next, %{name}.s.body ]
  %{name}.out = phi i64 [ %{name}.v.bad64, %{name}.v.done ], [ %{name}.out.next, %{name}.s.body ]
  %{name}.s.more = icmp slt i64 %{name}.j, {steps}
  br i1 %{name}.s.more, label %{name}.s.body, label %{name}.done
{name}.s.body:
  %{name}.s.pa = getelementptr {element}, ptr %{name}, i64 %{name}.j
  %{name}.j.next = add i64 %{name}.j, 1
  %{name}.s.pb = getelementptr {element}, ptr %{name}, i64 %{name}.j.next
  %{name}.s.a = load {element}, ptr %{name}.s.pa, align 1
  %{name}.s.b = load {element}, ptr %{name}.s.pb, align 1
  %{name}.s.c = icmp {array.falls_where} {element} %{name}.s.b, %{name}.s.a
  %{name}.s.z = zext i1 %{name}.s.c to i64
  %{name}.falls.next = add i64 %{name}.falls, %{name}.s.z
{_is_beyond(array)}{_kept(array, "s", "j.next", element)}  br label %{name}.s"""
