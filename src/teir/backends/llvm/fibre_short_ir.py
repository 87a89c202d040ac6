"""LLVM IR for rows of a product of sparse matrices that few elements make.

    row r: list the columns as they are met for the first time, add, sort the list in registers

A row of 25 products reaches a dozen columns, which lie far apart: looking for their marks, line by
line, takes longer than sorting them. Columns are known by the number of the row that met them last,
so that nothing has to be cleared but the dense row. Up to 64 columns are sorted in four vectors by
bitonic merges (Batcher, Sorting networks and their applications, 1968).
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.llvm.fibre_words import (
    SCALE_BYTES,
    fused_name,
    index_text,
    scale_text,
    span_text,
    words_text,
)

MOST_PRODUCTS = 64
"""Products of a row up to which its columns are listed."""
_LANES = 16
_WORDS = ("kind", "lpos", "lcrd", "lval", "rpos", "rcrd", "rval")
_VECTOR = f"<{_LANES} x i32>"
_LAST_MERGE = ((8, 8), (4, 4), (2, 2), (1, 1))
_SORT = ((1, 1), (3, 2), (1, 1), (7, 4), (2, 2), (1, 1), (15, 8), (4, 4), (2, 2), (1, 1))
"""Steps of a sort of 16: a lane meets the one whose number differs in these bits (xor), and the one
with the bit of the second number takes the greater."""
_REVERSED = 15


def short_rows_text(number: str) -> str:
    """``teir_short_row``: a row of a product added to the dense row, its columns in order in %out.

    Returns how many, or -1 and does nothing where more products than `MOST_PRODUCTS` make it.
    ``number`` is ``double`` or ``float``; index arrays are int32. No word of ``%stamps`` is the
    number of the row + 1.
    """
    return f"""
define internal i64 @teir_short_row(ptr %terms, i64 %r, ptr %row, ptr %stamps, ptr %out) nounwind {{
entry:
{words_text("terms", _WORDS)}
{scale_text("scale", "terms", SCALE_BYTES, number)}
  %r.next = add i64 %r, 1
  %tag = trunc i64 %r.next to i32
{span_text("b", "e", "%lpos", "%r", 4)}
  br label %count
count:
  %p = phi i64 [ %b, %entry ], [ %p.next, %count.take ]
  %whole = phi i64 [ 0, %entry ], [ %whole.next, %count.take ]
  %is.long = icmp sgt i64 %whole, {MOST_PRODUCTS}
  br i1 %is.long, label %long, label %count.more
count.more:
  %p.some = icmp slt i64 %p, %e
  br i1 %p.some, label %count.take, label %fibre
count.take:
  %p.next = add i64 %p, 1
{index_text("i", "%lcrd", "%p", 4)}  %i.next = add i64 %i, 1
{span_text("i0", "i1", "%rpos", "%i", 4)}  %i.length = sub i64 %i1, %i0
  %whole.next = add i64 %whole, %i.length
  br label %count
long:
  ret i64 -1
fibre:
  %f = phi i64 [ %b, %count.more ], [ %f.next, %element ]
  %c.fibre = phi i64 [ 0, %count.more ], [ %c, %element ]
  %f.some = icmp slt i64 %f, %e
  br i1 %f.some, label %fibre.open, label %sort
fibre.open:
  %f.next = add i64 %f, 1
{index_text("j", "%lcrd", "%f", 4)}  %j.next = add i64 %j, 1
{span_text("q0", "q1", "%rpos", "%j", 4)}  %factor.at = getelementptr {number}, ptr %lval, i64 %f
  %factor = load {number}, ptr %factor.at, align 1
  %scaled = fmul {number} %scale, %factor
  br label %element
element:
  %q = phi i64 [ %q0, %fibre.open ], [ %q.next, %element.take ]
  %c = phi i64 [ %c.fibre, %fibre.open ], [ %c.next, %element.take ]
  %q.some = icmp slt i64 %q, %q1
  br i1 %q.some, label %element.take, label %fibre
element.take:
  %q.next = add i64 %q, 1
{index_text("k", "%rcrd", "%q", 4)}  %other.at = getelementptr {number}, ptr %rval, i64 %q
  %other = load {number}, ptr %other.at, align 1
  %cell = getelementptr {number}, ptr %row, i64 %k
  %before = load {number}, ptr %cell
  %sum = call {number} @{fused_name(number)}({number} %scaled, {number} %other, {number} %before)
  store {number} %sum, ptr %cell
  %stamp.at = getelementptr i32, ptr %stamps, i64 %k
  %stamp = load i32, ptr %stamp.at
  store i32 %tag, ptr %stamp.at
  %is.new = icmp ne i32 %stamp, %tag
  %put = getelementptr i32, ptr %out, i64 %c
  store i32 %k.short, ptr %put, align 1
  %new = zext i1 %is.new to i64
  %c.next = add i64 %c, %new
  br label %element
sort:
{_sort_text()}}}
declare {_VECTOR} @llvm.umin.v16i32({_VECTOR}, {_VECTOR})
declare {_VECTOR} @llvm.umax.v16i32({_VECTOR}, {_VECTOR})
declare {_VECTOR} @llvm.masked.load.v16i32.p0(ptr, i32, <16 x i1>, {_VECTOR})
declare void @llvm.masked.store.v16i32.p0({_VECTOR}, ptr, i32, <16 x i1>)
"""


def _sort_text() -> str:
    """From %sort on: the %c.fibre columns in %out in order, their number returned."""
    first = [_loaded_text("va", 0), _steps_text("va", "va.in", _SORT)]
    two = [_loaded_text("vb", 1), _steps_text("vb", "vb.in", _SORT)]
    two += [_merged_text("ab", ("va", "vb"))]
    four = [_loaded_text("vc", 2), _steps_text("vc", "vc.in", _SORT)]
    four += [_loaded_text("vd", 3), _steps_text("vd", "vd.in", _SORT)]
    four += [_merged_text("cd", ("vc", "vd")), _merged_text("all", ("ab0", "ab1", "cd0", "cd1"))]
    return "".join(
        (
            f"  %c.lanes = trunc i64 %c.fibre to i32\n{_numbers_text()}",
            *first,
            _ended_text("one", ("va",), "two"),
            *two,
            _ended_text("pair", ("ab0", "ab1"), "four"),
            *four,
            "".join(_stored_text(f"all{n}", n) for n in range(4)),
            "  ret i64 %c.fibre\n",
        )
    )


def _numbers_text() -> str:
    """%counts: the number of columns in every lane."""
    return f"""  %counts.first = insertelement {_VECTOR} poison, i32 %c.lanes, i64 0
  %counts = shufflevector {_VECTOR} %counts.first, {_VECTOR} poison, {_VECTOR} zeroinitializer
"""


def _loaded_text(name: str, part: int) -> str:
    """``%name.in``: 16 columns of the list, lanes behind the last one as great as can be."""
    lanes = ", ".join(f"i32 {_LANES * part + lane}" for lane in range(_LANES))
    greatest = ", ".join(["i32 -1"] * _LANES)
    return f"""  %{name}.is = icmp ugt {_VECTOR} %counts, <{lanes}>
  %{name}.at = getelementptr i32, ptr %out, i64 {_LANES * part}
  %{name}.in = call {_VECTOR} @llvm.masked.load.v16i32.p0(ptr %{name}.at, i32 1,
                                <16 x i1> %{name}.is, {_VECTOR} <{greatest}>)
"""


def _stored_text(name: str, part: int) -> str:
    """The lanes that the list has, where they were."""
    mask = f"v{'abcd'[part]}"
    return f"""  call void @llvm.masked.store.v16i32.p0({_VECTOR} %{name}, ptr %{mask}.at, i32 1,
                                            <16 x i1> %{mask}.is)
"""


def _ended_text(label: str, names: Sequence[str], longer: str) -> str:
    """Where these vectors hold the list, they are stored; else on from label ``longer``."""
    stored = "".join(_stored_text(name, part) for part, name in enumerate(names))
    return f"""  %is.{label} = icmp ule i64 %c.fibre, {_LANES * len(names)}
  br i1 %is.{label}, label %{label}, label %{longer}
{label}:
{stored}  ret i64 %c.fibre
{longer}:
"""


def _steps_text(name: str, source: str, steps: Sequence[tuple[int, int]]) -> str:
    """``%name``: a vector after some steps of exchanges between lanes."""
    lines = []
    for place, (partner, bit) in enumerate(steps):
        made = name if place == len(steps) - 1 else f"{name}.{place}"
        takes = ", ".join(f"i1 {'true' if lane & bit else 'false'}" for lane in range(_LANES))
        lines.append(f"""{_shuffled_text(f"{made}.s", source, partner)}
  %{made}.low = call {_VECTOR} @llvm.umin.v16i32({_VECTOR} %{source}, {_VECTOR} %{made}.s)
  %{made}.high = call {_VECTOR} @llvm.umax.v16i32({_VECTOR} %{source}, {_VECTOR} %{made}.s)
  %{made} = select <16 x i1> <{takes}>, {_VECTOR} %{made}.high, {_VECTOR} %{made}.low
""")
        source = made
    return "".join(lines)


def _shuffled_text(name: str, source: str, partner: int) -> str:
    """Every lane has what the lane has whose number differs in the bits of ``partner``."""
    lanes = ", ".join(f"i32 {lane ^ partner}" for lane in range(_LANES))
    return f"  %{name} = shufflevector {_VECTOR} %{source}, {_VECTOR} poison, {_VECTOR} <{lanes}>"


def _merged_text(name: str, sources: Sequence[str]) -> str:
    """``%name0`` and so on: two sorted halves as one, the least lanes first."""
    half = len(sources) // 2
    behind = sources[half:][::-1]
    lines = [f"{_shuffled_text(f'{name}.{one}.r', one, _REVERSED)}\n" for one in behind]
    vectors = [*sources[:half], *(f"{name}.{one}.r" for one in behind)]
    distance = half
    while distance:
        vectors, text = _exchanged(f"{name}.x{distance}", vectors, distance)
        lines.append(text)
        distance //= 2
    lines += [_steps_text(f"{name}{n}", one, _LAST_MERGE) for n, one in enumerate(vectors)]
    return "".join(lines)


def _exchanged(name: str, vectors: Sequence[str], distance: int) -> tuple[list[str], str]:
    """The lesser lanes of vectors so far apart in the first, the greater in the second."""
    made = [f"{name}.{n}" for n in range(len(vectors))]
    lines = []
    for n in range(len(vectors)):
        kind = "umax" if n & distance else "umin"
        pair = vectors[n & ~distance], vectors[n | distance]
        lines.append(
            f"  %{made[n]} = call {_VECTOR} @llvm.{kind}.v16i32({_VECTOR} %{pair[0]}, "
            f"{_VECTOR} %{pair[1]})\n"
        )
    return made, "".join(lines)
