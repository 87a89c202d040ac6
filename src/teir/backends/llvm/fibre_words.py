"""Pieces of LLVM IR that walks fibres of index arrays; their sizes."""

from __future__ import annotations

LINE = 64
"""Columns of a line, and lines looked at together."""
TERM_WORDS = 8
"""Words of a term's record: kind, pos, crd and repeats (or values) of either level, a scale."""
SCALE_BYTES = 8 * (TERM_WORDS - 1)
"""Where the scale of a term lies in its record, an FP64."""


def index_text(name: str, array: str, place: str, width: int) -> str:
    """``%name``: the index at a place of an array, as i64."""
    element = f"i{8 * width}"
    loaded = f"""  %{name}.at = getelementptr {element}, ptr {array}, i64 {place}
  %{name}.short = load {element}, ptr %{name}.at, align 1
"""
    wide = "add i64 %{0}.short, 0" if width == 8 else "sext i32 %{0}.short to i64"
    return loaded + f"  %{name} = {wide.format(name)}\n"


def span_text(begin: str, end: str, pos: str, row: str, width: int) -> str:
    """Where a row begins and ends by ``pos``; ``row`` and ``row.next`` are its number and + 1."""
    return index_text(begin, pos, row, width) + index_text(end, pos, f"{row}.next", width)


def fused_name(number: str) -> str:
    """The multiply-add of a ``number``."""
    return f"llvm.fma.f{64 if number == 'double' else 32}"


def words_text(base: str, names: tuple[str, ...]) -> str:
    """The words of a record: the first as a number, ``%kind.word``, the others as pointers."""
    lines = [f"  %{names[0]}.word = load i64, ptr %{base}, align 8"]
    for number, name in enumerate(names[1:], 1):
        lines.append(f"  %{name}.at = getelementptr i8, ptr %{base}, i64 {8 * number}")
        lines.append(f"  %{name} = load ptr, ptr %{name}.at, align 8")
    return "\n".join(lines)


def scale_text(name: str, base: str, place: int, number: str) -> str:
    """``%name``: the FP64 at a place of a record, as a ``number``."""
    loaded = f"""  %{name}.at = getelementptr i8, ptr %{base}, i64 {place}
  %{name}.wide = load double, ptr %{name}.at, align 8
"""
    same = f"  %{name} = fadd double %{name}.wide, -0.0"
    narrow = f"  %{name} = fptrunc double %{name}.wide to float"
    return loaded + (same if number == "double" else narrow)


def two_patterns_text(second: int | str) -> str:
    """Arrays of the first fibre of ``%terms``, and of the one whose words begin at ``second``.

    ``%pos``, ``%crd`` and ``%other.pos``, ``%other``.
    """
    return f"""  %pos.at = getelementptr i8, ptr %terms, i64 8
  %other.at = getelementptr i8, ptr %terms, i64 {second}
  %pos = load ptr, ptr %pos.at, align 8
  %other.pos = load ptr, ptr %other.at, align 8
  %crd.at = getelementptr i8, ptr %pos.at, i64 8
  %other.crd.at = getelementptr i8, ptr %other.at, i64 8
  %crd = load ptr, ptr %crd.at, align 8
  %other = load ptr, ptr %other.crd.at, align 8
"""


def two_spans_text(width: int) -> str:
    """Where row %r of either begins and ends: ``%b`` to ``%e``, and ``%f`` to ``%g``."""
    first = span_text("b", "e", "%pos", "%r", width)
    return first + span_text("f", "g", "%other.pos", "%r", width)


def two_fibres_text(second: int | str) -> str:
    """As `two_patterns_text`, and the arrays of the values: ``%val`` and ``%oval``."""
    return f"""{two_patterns_text(second)}  %val.at = getelementptr i8, ptr %pos.at, i64 16
  %other.val.at = getelementptr i8, ptr %other.at, i64 16
  %val = load ptr, ptr %val.at, align 8
  %oval = load ptr, ptr %other.val.at, align 8
"""
