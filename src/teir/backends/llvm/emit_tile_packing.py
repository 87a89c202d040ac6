"""What a `TileProduct` copies into its room: two tiles of rows of A, tiles of columns of B.

A product of tiles takes 32 steps: of one factor rows of 32 adjacent steps, of the other 16 rows of
two adjacent steps each. Steps that do not exist are zeros in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from teir.backends.llvm.emit_loops import Carried, emit_loop, emit_when
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    constants,
    prefetch,
    shift_pointer,
    shuffle,
    splat,
)
from teir.backends.llvm.emit_tile_grid import Grid, Rows, column_tile
from teir.backends.llvm.emit_tile_sums import Depth
from teir.backends.llvm.emit_transpose import SquareTile
from teir.lower.tile_kernels import TileProduct
from teir.lower.tile_room import GROUP_BYTES, GROUP_STEPS, PANEL_GROUP_BYTES, TILE_BYTES, TILE_SIDE

_SIDE = TILE_SIDE
"""Rows of a tile, and 32-bit words of one of its rows."""
_WORD_BYTES = 4


def pack_rows(text: FunctionText, depth: Depth, panel: str, tiles: Sequence[Rows]) -> None:
    """The rows of one or two tiles, side by side in every group of steps."""
    name = f"rows{len(tiles)}"
    masks = [exist(text, _SIDE, tile.count) for tile in tiles]
    shifts = [distance(text, tiles[0].a, tile.a) for tile in tiles[1:]]
    twice = text.value("shl i64 %a_k, 1")

    def steps(place: str, has_second: bool) -> list[tuple[str, str]]:
        places = [place, *(shift_pointer(text, place, shift) for shift in shifts)]
        first = [
            adjacent_elements(text, at, mask, _SIDE) for at, mask in zip(places, masks, strict=True)
        ]
        if not has_second:
            return [(one, "zeroinitializer") for one in first]
        seconds = [shift_pointer(text, at, "%a_k") for at in places]
        second = [
            adjacent_elements(text, at, mask, _SIDE)
            for at, mask in zip(seconds, masks, strict=True)
        ]
        return list(zip(first, second, strict=True))

    def segment(_: str, now: list[str]) -> list[str]:
        target, source = now
        pairs = text.value("lshr i64 %piece, 1")
        pieces = text.value("udiv i64 %k, %piece")

        def piece(values: list[str]) -> list[str]:
            def pair(inner: list[str]) -> list[str]:
                _store_pairs(text, target, inner[1], steps(inner[0], True))
                return [
                    shift_pointer(text, inner[0], twice),
                    text.value(f"add i64 {inner[1]}, 1"),
                ]

            start = (Carried("ptr", values[0]), Carried("i64", values[1]))
            _, (_, number) = emit_loop(text, f"{name}_pairs", pairs, 1, start, pair)
            return [shift_pointer(text, values[0], "%a_piece"), number]

        start = (Carried("ptr", source), Carried("i64", "0"))
        _, (_, number) = emit_loop(text, f"{name}_pieces", pieces, 1, start, piece)
        is_odd = text.value(f"icmp ne i64 {text.value('and i64 %k, 1')}, 0")

        def single() -> list[str]:
            before = text.value(f"mul i64 {text.value('sub i64 %k, 1')}, %a_k")
            place = shift_pointer(text, source, before)
            _store_pairs(text, target, number, steps(place, False))
            return [text.value(f"add i64 {number}, 1")]

        (number,) = emit_when(text, f"{name}_single", is_odd, (Carried("i64", number),), single)
        all_pairs = text.value(f"mul i64 {depth.groups}, {_SIDE}")
        missing = text.value(f"sub i64 {all_pairs}, {number}")

        def nothing(values: list[str]) -> list[str]:
            zeros = [("zeroinitializer", "zeroinitializer")] * len(tiles)
            _store_pairs(text, target, values[0], zeros)
            return [text.value(f"add i64 {values[0]}, 1")]

        emit_loop(text, f"{name}_zeros", missing, 1, (Carried("i64", number),), nothing)
        size = text.value(f"mul i64 {depth.groups}, {PANEL_GROUP_BYTES}")
        return [shift_pointer(text, target, size)]

    each_segment(text, name, tiles[0].a, "a", panel, segment)


def distance(text: FunctionText, one: str, other: str) -> str:
    ends = [text.value(f"ptrtoint ptr {place} to i64") for place in (other, one)]
    return text.value(f"sub i64 {ends[0]}, {ends[1]}")


def _store_pairs(
    text: FunctionText, panel: str, number: str, pairs: Sequence[tuple[str, str]]
) -> None:
    """Pair ``number`` of a segment: 16 words of two steps in each tile."""
    group = text.value(f"lshr i64 {number}, 4")
    start = text.value(f"mul i64 {group}, {PANEL_GROUP_BYTES}")
    inside = text.value(f"and i64 {number}, {_SIDE - 1}")
    row = text.value(f"mul i64 {inside}, {GROUP_BYTES}")
    at = shift_pointer(text, panel, text.value(f"add i64 {start}, {row}"))
    for tile, (first, second) in enumerate(pairs):
        words = in_turn(text, first, second)
        place = shift_pointer(text, at, tile * TILE_BYTES)
        text.effect(f"store <{2 * _SIDE} x i16> {words}, ptr {place}, align 1")


def copy_columns(
    text: FunctionText,
    kernel: TileProduct,
    grid: Grid,
    depth: Depth,
    packed: str,
    chosen: tuple[str, str],
) -> None:
    """Tiles of columns one after the other: from the tile ``chosen`` first on, so many."""
    size = text.value(f"mul i64 {depth.all_groups}, {TILE_BYTES}")
    copy = _copy_group if kernel.b_adjacent else _turn_group
    step = str(GROUP_BYTES)
    if not kernel.b_adjacent:
        step = text.value(f"mul i64 %b_k, {GROUP_STEPS}")

    def tile(now: list[str]) -> list[str]:
        target, number = now
        columns = column_tile(text, grid, number)

        def segment(_: str, values: list[str]) -> list[str]:
            def group(places: list[str]) -> list[str]:
                source, there, left = places
                copy(text, source, there, left, grid.columns.size)
                return [
                    shift_pointer(text, source, step),
                    shift_pointer(text, there, TILE_BYTES),
                    text.value(f"sub i64 {left}, {GROUP_STEPS}"),
                ]

            start = (Carried("ptr", values[1]), Carried("ptr", values[0]), Carried("i64", "%k"))
            _, following = emit_loop(text, "copied_groups", depth.groups, 1, start, group)
            return [following[1]]

        each_segment(text, "copied", columns.b, "b", target, segment)
        return [shift_pointer(text, target, size), text.value(f"add i64 {number}, 1")]

    first, count = chosen
    start = (Carried("ptr", packed), Carried("i64", first))
    emit_loop(text, "copied_tiles", count, 1, start, tile)


def _copy_group(text: FunctionText, source: str, target: str, steps: str, count: str) -> None:
    """``steps`` adjacent steps, at most 32 are taken, of ``count`` columns.

    The same of the next tile is asked for: so many columns side by side no processor follows.
    """
    most = text.value(f"call i64 @llvm.smin.i64(i64 {steps}, i64 {GROUP_STEPS})")
    mask = exist(text, GROUP_STEPS, most)
    next_tile = text.value(f"mul i64 %b_n, {_SIDE}")

    def column(values: list[str]) -> list[str]:
        prefetch(text, shift_pointer(text, values[0], next_tile), Cache.FIRST)
        words = adjacent_elements(text, values[0], mask)
        text.effect(f"store <{GROUP_STEPS} x i16> {words}, ptr {values[1]}, align 1")
        return [
            shift_pointer(text, values[0], "%b_n"),
            shift_pointer(text, values[1], GROUP_BYTES),
        ]

    start = (Carried("ptr", source), Carried("ptr", target))
    emit_loop(text, "copied_columns", count, 1, start, column)


def _turn_group(text: FunctionText, source: str, target: str, steps: str, count: str) -> None:
    """``steps`` steps, at most 32, of ``count`` columns; the target has room for all."""

    whole_or_part(
        text, "turned", steps, lambda left: _turn_square(text, source, target, left, count)
    )


def _turn_square(
    text: FunctionText, source: str, target: str, steps: str | None, count: str
) -> None:
    """``steps`` of the 32 steps exist, or all."""
    rows = paired_steps(text, source, "%b_k", exist(text, _SIDE, count), steps)
    for number, column in enumerate(turned_words(text, rows)):
        place = shift_pointer(text, target, number * GROUP_BYTES)
        text.effect(f"store <{_SIDE} x i32> {column}, ptr {place}, align 1")


def whole_or_part(
    text: FunctionText, name: str, steps: str, body: Callable[[str | None], None]
) -> None:
    """``body`` for a group of 32 steps, which it is told None of, or for one of fewer ``steps``."""

    def group(left: str | None) -> list[str]:
        body(left)
        return []

    is_whole = text.value(f"icmp sge i64 {steps}, {GROUP_STEPS}")
    emit_when(text, f"{name}_whole", is_whole, (), partial(group, None))
    is_part = text.value(f"xor i1 {is_whole}, true")
    emit_when(text, f"{name}_part", is_part, (), partial(group, steps))


def paired_steps(
    text: FunctionText, source: str, stride: str, mask: str, steps: str | None = None
) -> list[str]:
    """A group of steps of 16 adjacent elements, two steps in turn: 16 words for every two.

    ``steps`` of them exist, or all.
    """
    words = []
    for pair in range(_SIDE):
        halves = []
        for step in (2 * pair, 2 * pair + 1):
            existing = _of_step(text, mask, step, steps)
            halves.append(adjacent_elements(text, source, existing, _SIDE))
            source = shift_pointer(text, source, stride)
        words.append(in_turn(text, halves[0], halves[1]))
    return words


def in_turn(text: FunctionText, first: str, second: str) -> str:
    """Elements of the first and of the second step, of either in turn."""
    order = [lane + part * _SIDE for lane in range(_SIDE) for part in (0, 1)]
    return shuffle(text, "i16", _SIDE, first, second, order)


def turned_words(text: FunctionText, rows: Sequence[str]) -> list[str]:
    """A square of 16 rows of 16 words, each of two elements, turned."""
    square = SquareTile(text, _WORD_BYTES, _SIDE)
    words = [text.value(f"bitcast <{2 * _SIDE} x i16> {row} to {square.words}") for row in rows]
    return square.transposed([square.gathered(group) for group in square.across(words)])


def each_segment(
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


def _of_step(text: FunctionText, mask: str, step: int, steps: str | None) -> str:
    """The mask of 16 elements of a step, nothing where there are no more than ``step`` steps."""
    if steps is None:
        return mask
    there = splat(text, "i1", text.value(f"icmp sgt i64 {steps}, {step}"), _SIDE)
    return text.value(f"and <{_SIDE} x i1> {mask}, {there}")


def exist(text: FunctionText, count: int, existing: str) -> str:
    limit = splat(text, "i16", text.value(f"trunc i64 {existing} to i16"), count)
    return text.value(f"icmp ult <{count} x i16> {constants('i16', range(count))}, {limit}")


def adjacent_elements(text: FunctionText, place: str, mask: str, count: int = GROUP_STEPS) -> str:
    """Adjacent elements, zeros where the mask says that none exist."""
    return text.value(
        f"call <{count} x i16> @llvm.masked.load.v{count}i16.p0(ptr {place}, i32 1, "
        f"<{count} x i1> {mask}, <{count} x i16> zeroinitializer)"
    )
