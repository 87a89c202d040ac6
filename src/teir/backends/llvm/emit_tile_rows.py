"""Strips of rows of A on their way into the room of a `TileProduct`.

A group of 32 steps of all tiles of a strip comes before the next group, so that rows which lie side
by side are read along.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_loops import Carried, emit_loop, emit_when
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    prefetch,
    shift_pointer,
)
from teir.backends.llvm.emit_tile_grid import Grid, Rows, row_tile
from teir.backends.llvm.emit_tile_packing import (
    adjacent_elements,
    distance,
    each_segment,
    exist,
    in_turn,
    paired_steps,
    turned_words,
    whole_or_part,
)
from teir.backends.llvm.emit_tile_sums import Depth
from teir.lower.tile_kernels import TileProduct
from teir.lower.tile_room import GROUP_BYTES, GROUP_STEPS, PANEL_GROUP_BYTES, TILE_BYTES, TILE_SIDE

_BYTES_AHEAD = 4 * GROUP_BYTES
"""From what is turned to what is asked for, where steps are adjacent."""


@dataclass(frozen=True, slots=True)
class Strip:
    """``count`` tiles of rows from the tile ``first`` on, an even number; the first at ``place``.

    Pairs of tiles are ``pair_bytes`` apart in the room.
    """

    name: str
    first: str
    count: str
    place: str
    pair_bytes: str


def pack_strip(
    text: FunctionText, kernel: TileProduct, grid: Grid, depth: Depth, strip: Strip
) -> None:
    """All steps of the rows of ``strip``, those that do not exist as zeros."""
    step = str(GROUP_BYTES)
    if not kernel.a_adjacent:
        step = text.value(f"mul i64 %a_k, {GROUP_STEPS}")

    def segment(_: str, now: list[str]) -> list[str]:
        def group(values: list[str]) -> list[str]:
            target, source, left = values
            _pack_group(text, kernel, grid, strip, (source, target, left))
            return [
                shift_pointer(text, target, PANEL_GROUP_BYTES),
                shift_pointer(text, source, step),
                text.value(f"sub i64 {left}, {GROUP_STEPS}"),
            ]

        start = (Carried("ptr", now[0]), Carried("ptr", now[1]), Carried("i64", "%k"))
        label = f"{strip.name}_groups"
        return emit_loop(text, label, depth.groups, 1, start, group)[1][:1]

    each_segment(text, strip.name, grid.a, "a", strip.place, segment)


def _pack_group(
    text: FunctionText, kernel: TileProduct, grid: Grid, strip: Strip, group: tuple[str, str, str]
) -> None:
    """A group of steps of all tiles: where it lies in A and in the room, how many steps exist."""
    at, place, steps = group
    pack = _turn if kernel.a_adjacent else _interleave

    def all_tiles(left: str | None) -> None:
        def tile(now: list[str]) -> list[str]:
            (number,) = now
            rows = row_tile(text, grid, kernel, text.value(f"add i64 {strip.first}, {number}"))
            source = shift_pointer(text, at, distance(text, grid.a, rows.a))
            pack(text, source, _tile_place(text, strip, place, number), rows, left)
            return [text.value(f"add i64 {number}, 1")]

        name = f"{strip.name}_{'whole' if left is None else 'part'}"
        emit_loop(text, f"{name}_tiles", strip.count, 1, (Carried("i64", "0"),), tile)

    whole_or_part(text, strip.name, steps, all_tiles)


def pair_place(text: FunctionText, start: str, number: str, pair_bytes: str) -> str:
    """Where the pair of tiles of rows that has tile ``number`` lies behind ``start``."""
    pairs = text.value(f"lshr i64 {number}, 1")
    return shift_pointer(text, start, text.value(f"mul i64 {pairs}, {pair_bytes}"))


def _tile_place(text: FunctionText, strip: Strip, place: str, number: str) -> str:
    side = text.value(f"and i64 {number}, 1")
    place = pair_place(text, place, number, strip.pair_bytes)
    return shift_pointer(text, place, text.value(f"mul i64 {side}, {TILE_BYTES}"))


def _interleave(text: FunctionText, source: str, target: str, rows: Rows, left: str | None) -> None:
    """Steps by twos of a tile whose rows are adjacent; ``left`` of them exist, or all."""
    mask = exist(text, TILE_SIDE, rows.count)
    if left is not None:
        _interleave_part(text, source, target, mask, left)
        return
    for pair, words in enumerate(paired_steps(text, source, "%a_k", mask)):
        _store_words(text, shift_pointer(text, target, pair * GROUP_BYTES), words)


def _interleave_part(text: FunctionText, source: str, target: str, mask: str, left: str) -> None:
    """``left`` steps, fewer than a group has, and zeros behind them."""

    def pair(now: list[str]) -> list[str]:
        at, place = now
        first = adjacent_elements(text, at, mask, TILE_SIDE)
        after = shift_pointer(text, at, "%a_k")
        second = adjacent_elements(text, after, mask, TILE_SIDE)
        _store_words(text, place, in_turn(text, first, second))
        return [shift_pointer(text, after, "%a_k"), shift_pointer(text, place, GROUP_BYTES)]

    start = (Carried("ptr", source), Carried("ptr", target))
    pairs = text.value(f"lshr i64 {left}, 1")
    _, (at, place) = emit_loop(text, "part_pairs", pairs, 1, start, pair)
    is_odd = text.value(f"icmp ne i64 {text.value(f'and i64 {left}, 1')}, 0")

    def single() -> list[str]:
        last = adjacent_elements(text, at, mask, TILE_SIDE)
        _store_words(text, place, in_turn(text, last, "zeroinitializer"))
        return [shift_pointer(text, place, GROUP_BYTES)]

    (behind,) = emit_when(text, "part_single", is_odd, (Carried("ptr", place),), single)

    def nothing(now: list[str]) -> list[str]:
        _store_words(text, now[0], "zeroinitializer")
        return [shift_pointer(text, now[0], GROUP_BYTES)]

    taken = text.value(f"lshr i64 {text.value(f'add i64 {left}, 1')}, 1")
    missing = text.value(f"sub i64 {TILE_SIDE}, {taken}")
    emit_loop(text, "part_zeros", missing, 1, (Carried("ptr", behind),), nothing)


def _store_words(text: FunctionText, place: str, words: str) -> None:
    text.effect(f"store <{2 * TILE_SIDE} x i16> {words}, ptr {place}, align 1")


def _turn(text: FunctionText, source: str, target: str, rows: Rows, left: str | None) -> None:
    """A square of words of a tile whose steps are adjacent.

    Rows that do not exist are the last one that does: nobody reads what they are multiplied to.
    """
    steps = str(GROUP_STEPS) if left is None else left
    mask = exist(
        text, GROUP_STEPS, text.value(f"call i64 @llvm.smin.i64(i64 {steps}, i64 {GROUP_STEPS})")
    )
    halves = []
    for row in range(TILE_SIDE):
        prefetch(text, shift_pointer(text, source, _BYTES_AHEAD), Cache.SECOND)
        halves.append(adjacent_elements(text, source, mask, GROUP_STEPS))
        follows = text.value(f"icmp ugt i64 {rows.count}, {row + 1}")
        source = shift_pointer(text, source, text.value(f"select i1 {follows}, i64 %a_m, i64 0"))
    for number, words in enumerate(turned_words(text, halves)):
        place = shift_pointer(text, target, number * GROUP_BYTES)
        text.effect(f"store <{TILE_SIDE} x i32> {words}, ptr {place}, align 1")
