"""What a `TileProduct` copies into its room: panels of A by twos of steps, columns of B by groups.

A product of tiles takes 32 steps: of one factor rows of 32 adjacent steps, of the other 16 rows of
two adjacent steps each. Steps that do not exist are zeros in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from teir.backends.llvm.emit_loops import Carried, emit_loop, emit_when
from teir.backends.llvm.emit_text import FunctionText, constants, shift_pointer, shuffle, splat
from teir.lower.kernels import TileProduct
from teir.lower.tile_room import GROUP_BYTES, GROUP_STEPS, PANEL_GROUP_BYTES

_SIDE = 16
"""Rows of a tile, and 32-bit words of one of its rows."""
_TILE_BYTES = _SIDE * GROUP_BYTES
_WIDTH = 2


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of B: in their place at ``b``, and in groups of steps at ``packed``.

    ``whole`` groups and ``left`` steps make the k steps of a segment, ``groups`` groups the last of
    which may be padded; ``all_groups`` those of all segments.
    """

    b: str
    packed: str
    column_bytes: str
    whole: str
    left: str
    groups: str
    all_groups: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of A in the room, ``groups`` groups of steps for every segment."""

    at: str
    groups: str


def pack_panel(text: FunctionText, panel: Panel, a: str, lanes: str) -> None:
    """The ``lanes`` rows at ``a``: tiles of rows 0 to 15 and 16 to 31 of every group."""
    rows = _exist(text, 2 * _SIDE, lanes)

    def segment(_: str, now: list[str]) -> list[str]:
        target, source = now
        pairs = text.value("lshr i64 %k, 1")
        twice = text.value("shl i64 %a_k, 1")

        def pair(values: list[str]) -> list[str]:
            place, number = values
            first = _rows(text, place, rows)
            second = _rows(text, shift_pointer(text, place, "%a_k"), rows)
            _store_pair(text, target, number, first, second)
            return [shift_pointer(text, place, twice), text.value(f"add i64 {number}, 1")]

        start = (Carried("ptr", source), Carried("i64", "0"))
        _, (place, number) = emit_loop(text, "panel_pairs", pairs, 1, start, pair)
        odd = text.value("and i64 %k, 1")
        is_odd = text.value(f"icmp ne i64 {odd}, 0")

        def single() -> list[str]:
            first = _rows(text, place, rows)
            _store_pair(text, target, number, first, "zeroinitializer")
            return [text.value(f"add i64 {number}, 1")]

        (number,) = emit_when(text, "panel_single", is_odd, (Carried("i64", number),), single)
        all_pairs = text.value(f"mul i64 {panel.groups}, {_SIDE}")
        missing = text.value(f"sub i64 {all_pairs}, {number}")

        def nothing(values: list[str]) -> list[str]:
            _store_pair(text, target, values[0], "zeroinitializer", "zeroinitializer")
            return [text.value(f"add i64 {values[0]}, 1")]

        emit_loop(text, "panel_zeros", missing, 1, (Carried("i64", number),), nothing)
        size = text.value(f"mul i64 {panel.groups}, {PANEL_GROUP_BYTES}")
        return [shift_pointer(text, target, size)]

    _each_segment(text, "panel", a, "a", panel.at, segment)


def _store_pair(text: FunctionText, panel: str, number: str, first: str, second: str) -> None:
    """Pair ``number`` of a segment: 32 words of two steps, half of them in each tile."""
    group = text.value(f"lshr i64 {number}, 4")
    start = text.value(f"mul i64 {group}, {PANEL_GROUP_BYTES}")
    inside = text.value(f"and i64 {number}, {_SIDE - 1}")
    row = text.value(f"mul i64 {inside}, {GROUP_BYTES}")
    at = shift_pointer(text, panel, text.value(f"add i64 {start}, {row}"))
    count = 2 * _SIDE
    for tile in (0, 1):
        order = [row + part * count for row in _of_tile(tile) for part in (0, 1)]
        words = shuffle(text, "i16", count, first, second, order)
        place = shift_pointer(text, at, tile * _TILE_BYTES)
        text.effect(f"store <{count} x i16> {words}, ptr {place}, align 1")


def _of_tile(tile: int) -> range:
    return range(tile * _SIDE, (tile + 1) * _SIDE)


def pack_columns(text: FunctionText, kernel: TileProduct, columns: Columns) -> None:
    """What of B the tiles cannot read where it lies."""
    if not kernel.b_adjacent:
        _turn_columns(text, columns)
        return

    def rest() -> list[str]:
        steps = _exist(text, GROUP_STEPS, columns.left)
        skipped = text.value(f"mul i64 {columns.whole}, {GROUP_BYTES}")
        first = shift_pointer(text, columns.b, skipped)

        def segment(_: str, now: list[str]) -> list[str]:
            def column(values: list[str]) -> list[str]:
                words = _rows(text, values[0], steps)
                text.effect(f"store <32 x i16> {words}, ptr {values[1]}, align 1")
                return [
                    shift_pointer(text, values[0], "%b_n"),
                    shift_pointer(text, values[1], columns.column_bytes),
                ]

            start = (Carried("ptr", now[1]), Carried("ptr", now[0]))
            emit_loop(text, "rest_columns", "%n", 1, start, column)
            return [shift_pointer(text, now[0], GROUP_BYTES)]

        _each_segment(text, "rest", first, "b", columns.packed, segment)
        return []

    has_left = text.value(f"icmp ne i64 {columns.left}, 0")
    emit_when(text, "left", has_left, (), rest)


def _turn_columns(text: FunctionText, columns: Columns) -> None:
    """Columns that are adjacent become rows of adjacent steps, 16 columns x 32 steps at a time."""
    far = text.value(f"mul i64 {columns.column_bytes}, {_SIDE}")

    def segment(_: str, now: list[str]) -> list[str]:
        def some_columns(left: str, values: list[str]) -> list[str]:
            count = text.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 {_SIDE})")

            def group(places: list[str]) -> list[str]:
                source, target, steps = places
                _turn_square(text, source, target, columns.column_bytes, steps, count)
                return [
                    shift_pointer(text, source, text.value(f"mul i64 %b_k, {GROUP_STEPS}")),
                    shift_pointer(text, target, GROUP_BYTES),
                    text.value(f"sub i64 {steps}, {GROUP_STEPS}"),
                ]

            start = (Carried("ptr", values[0]), Carried("ptr", values[1]), Carried("i64", "%k"))
            emit_loop(text, "turned_groups", columns.groups, 1, start, group)
            return [
                shift_pointer(text, values[0], _SIDE * _WIDTH),
                shift_pointer(text, values[1], far),
                text.value(f"sub i64 {left}, {_SIDE}"),
            ]

        rounded = text.value(f"add i64 %n, {_SIDE - 1}")
        blocks = text.value(f"lshr i64 {rounded}, 4")
        start = (Carried("ptr", now[1]), Carried("ptr", now[0]), Carried("i64", "%n"))
        emit_loop(
            text, "turned", blocks, 1, start, lambda values: some_columns(values[2], values[:2])
        )
        size = text.value(f"mul i64 {columns.groups}, {GROUP_BYTES}")
        return [shift_pointer(text, now[0], size)]

    _each_segment(text, "turn", columns.b, "b", columns.packed, segment)


def _turn_square(
    text: FunctionText, source: str, target: str, column_bytes: str, steps: str, count: str
) -> None:
    """``steps`` steps, at most 32, of ``count`` columns; the target has room for all."""
    exist = _exist(text, _SIDE, count)
    words = []
    for pair in range(_SIDE):
        halves = []
        for step in (2 * pair, 2 * pair + 1):
            is_there = text.value(f"icmp sgt i64 {steps}, {step}")
            there = splat(text, "i1", is_there, _SIDE)
            mask = text.value(f"and <{_SIDE} x i1> {exist}, {there}")
            place = shift_pointer(text, source, text.value(f"mul i64 %b_k, {step}"))
            halves.append(_rows(text, place, mask, _SIDE))
        order = [lane + part * _SIDE for lane in range(_SIDE) for part in (0, 1)]
        both = shuffle(text, "i16", _SIDE, halves[0], halves[1], order)
        words.append(text.value(f"bitcast <32 x i16> {both} to <16 x i32>"))
    for number, row in enumerate(_transposed(text, words)):
        offset = text.value(f"mul i64 {column_bytes}, {number}")
        text.effect(f"store <16 x i32> {row}, ptr {shift_pointer(text, target, offset)}, align 1")


def _transposed(text: FunctionText, rows: list[str]) -> list[str]:
    """Rows of 16 words as columns, by exchanging ever smaller squares."""
    for distance in (8, 4, 2, 1):
        moved = list(rows)
        for number in range(_SIDE):
            if number & distance:
                continue
            upper, lower = rows[number], rows[number + distance]
            kept = [
                lane if not lane & distance else lane - distance + _SIDE for lane in range(_SIDE)
            ]
            other = [
                lane + distance if not lane & distance else lane + _SIDE for lane in range(_SIDE)
            ]
            moved[number] = shuffle(text, "i32", _SIDE, upper, lower, kept)
            moved[number + distance] = shuffle(text, "i32", _SIDE, upper, lower, other)
        rows = moved
    return rows


def _each_segment(
    text: FunctionText,
    name: str,
    source: str,
    side: str,
    target: str,
    body: Callable[[str, list[str]], list[str]],
) -> None:
    """``body`` for every run of k steps: it is told where they lie and says where to go on."""

    def outer(values: list[str]) -> list[str]:
        def batch(inner: list[str]) -> list[str]:
            (following,) = body(name, inner)
            return [following, shift_pointer(text, inner[1], f"%{side}_batch")]

        start = (Carried("ptr", values[0]), Carried("ptr", values[1]))
        _, (reached, _) = emit_loop(text, f"{name}_batch", "%batch", 1, start, batch)
        return [reached, shift_pointer(text, values[1], f"%{side}_outer")]

    start = (Carried("ptr", target), Carried("ptr", source))
    emit_loop(text, f"{name}_outer", "%outer", 1, start, outer)


def _exist(text: FunctionText, count: int, existing: str) -> str:
    limit = splat(text, "i16", text.value(f"trunc i64 {existing} to i16"), count)
    return text.value(f"icmp ult <{count} x i16> {constants('i16', range(count))}, {limit}")


def _rows(text: FunctionText, place: str, mask: str, count: int = GROUP_STEPS) -> str:
    """Adjacent elements, zeros where the mask says that none exist."""
    return text.value(
        f"call <{count} x i16> @llvm.masked.load.v{count}i16.p0(ptr {place}, i32 1, "
        f"<{count} x i1> {mask}, <{count} x i16> zeroinitializer)"
    )
