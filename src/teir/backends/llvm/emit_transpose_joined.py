"""Transposing copies whose rows of the output are several short runs of the input, joined.

    for every tile of the joined rows: where its columns lie in the input
      for every o
        for every tile of m, the last one moved back over its neighbour
          ask for the lines of the columns some tiles ahead; a square, turned in registers

The places of a tile's columns are computed once for all its squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_text import Cache, FunctionText, cache_of_next, prefetch, shift_pointer
from teir.backends.llvm.emit_transpose import SquareTile
from teir.lower.copy_kernels import JoinedTranspose
from teir.target import LINE_BYTES, Isa

JOINED_TRANSPOSE_ARGUMENTS = (
    "m", "n0", "n1", "in_n0", "in_n1", "out_m", "o", "in_o", "out_o"
)  # fmt: skip

_LINES_AHEAD = 4


def emit_transpose_joined_body(kernel: JoinedTranspose, isa: Isa) -> FunctionText:
    """The body for operands %A (adjacent along m), %B (adjacent along n0, n1) and the arguments."""
    text, side = FunctionText(), kernel.lanes
    text.label("entry")
    text.effect("%n = mul i64 %n0, %n1")
    text.effect(f"%m_last = sub i64 %m, {side}")
    text.effect(f"%n_last = sub i64 %n, {side}")
    text.effect(f"%over = add i64 %n, {side - 1}")
    text.effect(f"%tiles = udiv i64 %over, {side}")
    emit_loop(
        text,
        "columns",
        "%tiles",
        1,
        [Carried("i64", "0")],
        partial(_tile, text, kernel, cache_of_next(isa)),
    )
    text.effect("ret void")
    return text


def _tile(text: FunctionText, kernel: JoinedTranspose, cache: Cache, carried: Values) -> Values:
    """All squares of the columns from the carried one on."""
    (begin,) = carried
    first = text.value(f"call i64 @llvm.smin.i64(i64 {begin}, i64 %n_last)")
    columns = _columns(text, kernel.lanes, first)
    into = text.value(f"mul i64 {first}, {kernel.element_bytes}")
    places = [Carried("ptr", "%A"), Carried("ptr", shift_pointer(text, "%B", into))]
    emit_loop(text, "outer", "%o", 1, places, partial(_squares, text, kernel, cache, columns))
    return [text.value(f"add i64 {begin}, {kernel.lanes}")]


def _columns(text: FunctionText, count: int, first: str) -> list[str]:
    """Where so many columns from ``first`` on lie in the input, in bytes."""
    outer = text.value(f"udiv i64 {first}, %n0")
    whole = text.value(f"mul i64 {outer}, %n0")
    inner = text.value(f"sub i64 {first}, {whole}")
    start = text.value(f"mul i64 {outer}, %in_n1")
    found = []
    for _ in range(count):
        inside = text.value(f"mul i64 {inner}, %in_n0")
        found.append(text.value(f"add i64 {start}, {inside}"))
        following = text.value(f"add i64 {inner}, 1")
        is_end = text.value(f"icmp eq i64 {following}, %n0")
        inner = text.value(f"select i1 {is_end}, i64 0, i64 {following}")
        next_start = text.value(f"add i64 {start}, %in_n1")
        start = text.value(f"select i1 {is_end}, i64 {next_start}, i64 {start}")
    return found


def _squares(
    text: FunctionText,
    kernel: JoinedTranspose,
    cache: Cache,
    columns: Sequence[str],
    places: Values,
) -> Values:
    """The squares of one o, and where those of the next begin."""
    source, target = places

    def square(carried: Values) -> Values:
        (begin,) = carried
        row = text.value(f"call i64 @llvm.smin.i64(i64 {begin}, i64 %m_last)")
        _square(text, kernel, cache, columns, source, target, row)
        return [text.value(f"add i64 {begin}, {kernel.lanes}")]

    over = text.value(f"add i64 %m, {kernel.lanes - 1}")
    emit_loop(text, "rows", over, kernel.lanes, [Carried("i64", "0")], square)
    return [shift_pointer(text, source, "%in_o"), shift_pointer(text, target, "%out_o")]


def _square(
    text: FunctionText,
    kernel: JoinedTranspose,
    cache: Cache,
    columns: Sequence[str],
    source: str,
    target: str,
    row: str,
) -> None:
    tile = SquareTile(text, kernel.element_bytes, kernel.lanes)
    source = shift_pointer(text, source, text.value(f"mul i64 {row}, {kernel.element_bytes}"))
    starts = [shift_pointer(text, source, column) for column in columns]
    for start in starts:
        prefetch(text, shift_pointer(text, start, _LINES_AHEAD * LINE_BYTES), cache)
    turned = tile.transposed([tile.loaded_parts(group) for group in tile.across(starts)])
    place = shift_pointer(text, target, text.value(f"mul i64 {row}, %out_m"))
    for number, value in enumerate(turned):
        place = shift_pointer(text, place, "%out_m") if number else place
        text.effect(f"store {tile.kind} {value}, ptr {place}, align 1")
