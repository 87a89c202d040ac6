"""One block of a `TileProduct`: 32 x 32 results in four tile registers, and their way to C.

registers 0 to 3   sums: the first tile of columns by the tiles of rows, the second one by both
registers 4, 5     columns of B, 32 steps each
registers 6, 7     rows of A, 16 words of two steps each
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_loops import Carried, emit_loop, emit_when
from teir.backends.llvm.emit_numbers import widen
from teir.backends.llvm.emit_pairs import narrow_sum
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    constants,
    prefetch,
    prefetch_to_write,
    shift_pointer,
    splat,
)
from teir.backends.llvm.emit_tile_grid import Columns, Rows
from teir.dtypes import DataType
from teir.lower.tile_kernels import TileProduct
from teir.lower.tile_room import GROUP_BYTES, PANEL_GROUP_BYTES, TILE_BYTES, TILE_SIDE
from teir.target import Isa

LANES = TILE_SIDE
"""Rows of A of one tile, lanes of one of its rows."""
_FIRST_COLUMNS, _FIRST_ROWS, _REGISTERS = 4, 6, 8
_SUM_BYTES = 2 * LANES * 4
"""A column of sums in the room."""
_ROW_BYTES_AT, _ROWS_AT = 16, 48


@dataclass(frozen=True, slots=True)
class Depth:
    """Groups of steps: whole ones of a run of k, all of a run, all of all runs."""

    whole: str
    groups: str
    all_groups: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What the groups of a block ask for one after the other: from ``place`` on, up to ``end``.

    ``lines``: where a group's lines lie behind its place, ``step`` bytes behind the one before.
    """

    place: str
    step: str
    end: str
    lines: tuple[int, ...]
    is_written: bool


@dataclass(frozen=True, slots=True)
class Block:
    """Some tiles of rows by some tiles of columns, where those are copied at ``packed``."""

    name: str
    rows: tuple[Rows, ...]
    columns: tuple[Columns, ...]
    panel: str
    packed: tuple[str, ...]
    ahead: tuple[str, ...]
    asked: tuple[Asked, ...]

    @property
    def registers(self) -> list[tuple[int, int, int]]:
        """The register of the sums of every tile of columns and tile of rows."""
        return [
            (2 * column + row, column, row)
            for column in range(len(self.columns))
            for row in range(len(self.rows))
        ]


def configure(text: FunctionText, place: str, columns: str) -> None:
    """All registers 16 rows of 64 bytes; those of columns as many as a tile has columns."""
    words = [0] * 64
    words[0] = 1
    for register in range(_REGISTERS):
        words[_ROW_BYTES_AT + 2 * register] = GROUP_BYTES
        words[_ROWS_AT + register] = LANES
    text.effect(f"store <64 x i8> {constants('i8', words)}, ptr {place}, align 1")
    byte = text.value(f"trunc i64 {columns} to i8")
    for register in range(_FIRST_ROWS):
        at = shift_pointer(text, place, _ROWS_AT + register)
        text.effect(f"store i8 {byte}, ptr {at}, align 1")
    text.effect(f"call void @llvm.x86.ldtilecfg(ptr {place})")


def emit_sums(text: FunctionText, kernel: TileProduct, depth: Depth, block: Block) -> None:
    """The sums of the block, in its registers."""
    for register, _, _ in block.registers:
        text.effect(f"call void @llvm.x86.tilezero(i8 {register})")
    if kernel.copies:
        _groups(
            text,
            block,
            depth.all_groups,
            (block.panel, *block.packed),
            TILE_BYTES,
            str(GROUP_BYTES),
        )
        return

    def segment(values: list[str]) -> list[str]:
        a, *columns = values
        a, *_ = _groups(text, block, depth.whole, (a, *columns), GROUP_BYTES, "%b_n")
        return [a, *(shift_pointer(text, b, "%b_batch") for b in columns)]

    def outer(values: list[str]) -> list[str]:
        start = tuple(Carried("ptr", value) for value in values)
        _, (a, *_) = emit_loop(text, f"{block.name}_batch", "%batch", 1, start, segment)
        return [a, *(shift_pointer(text, b, "%b_outer") for b in values[1:])]

    places = (block.panel, *(tile.b for tile in block.columns))
    start = tuple(Carried("ptr", value) for value in places)
    emit_loop(text, f"{block.name}_outer", "%outer", 1, start, outer)


def _groups(
    text: FunctionText,
    block: Block,
    count: str,
    places: tuple[str, ...],
    step: int,
    column_bytes: str,
) -> list[str]:
    """The products of ``count`` groups of steps: where A and the columns lie behind them.

    Columns are ``column_bytes`` apart, a column's groups ``step`` bytes.
    """

    def group(values: list[str]) -> list[str]:
        a, *columns = values[: len(places)]
        for number, place in enumerate(columns):
            _load_tile(text, _FIRST_COLUMNS + number, place, column_bytes)
        for number in range(len(block.rows)):
            place = shift_pointer(text, a, number * TILE_BYTES)
            _load_tile(text, _FIRST_ROWS + number, place, str(GROUP_BYTES))
        asked = [
            _ask(text, one, place)
            for one, place in zip(block.asked, values[len(places) :], strict=True)
        ]
        for register, column, row in block.registers:
            text.effect(
                f"call void @llvm.x86.tdpbf16ps(i8 {register}, i8 {_FIRST_COLUMNS + column}, "
                f"i8 {_FIRST_ROWS + row})"
            )
        return [
            shift_pointer(text, a, PANEL_GROUP_BYTES),
            *(shift_pointer(text, place, step) for place in columns),
            *asked,
        ]

    every = (*places, *(one.place for one in block.asked))
    start = tuple(Carried("ptr", place) for place in every)
    return emit_loop(text, f"{block.name}_sums", count, 1, start, group)[1]


def _ask(text: FunctionText, asked: Asked, place: str) -> str:
    """Ask for the lines at ``place``; returns where the next ones begin."""
    for line in asked.lines:
        there = shift_pointer(text, place, line)
        if asked.is_written:
            prefetch_to_write(text, there)
        else:
            prefetch(text, there, Cache.SECOND)
    is_left = text.value(f"icmp ult ptr {place}, {asked.end}")
    return shift_pointer(text, place, text.value(f"select i1 {is_left}, i64 {asked.step}, i64 0"))


def _load_tile(text: FunctionText, register: int, place: str, stride: str) -> None:
    text.effect(f"call void @llvm.x86.tileloadd64(i8 {register}, ptr {place}, i64 {stride})")


def store_sums(text: FunctionText, kernel: TileProduct, isa: Isa, block: Block, room: str) -> None:
    """Add C to the sums where they accumulate, and store them as C's type."""
    for register, column, row in block.registers:
        place = shift_pointer(text, room, column * LANES * _SUM_BYTES + row * LANES * 4)
        text.effect(
            f"call void @llvm.x86.tilestored64(i8 {register}, ptr {place}, i64 {_SUM_BYTES})"
        )
    masks = [_existing(text, tile.count) for tile in block.rows]

    def store(number: int, tile: Columns, adds: bool) -> None:
        skipped = text.value(f"mul i64 {tile.skipped}, {_SUM_BYTES}")
        begin = shift_pointer(text, room, number * LANES * _SUM_BYTES)
        targets = [shift_pointer(text, rows.c, tile.c_offset) for rows in block.rows]

        def column(values: list[str]) -> list[str]:
            source, *places = values
            if not kernel.asks:
                _ask_to_store(
                    text, kernel, shift_pointer(text, places[0], block.ahead[number]), len(places)
                )
            for row, (at, mask) in enumerate(zip(places, masks, strict=True)):
                sums_at = shift_pointer(text, source, row * LANES * 4)
                total = text.value(f"load <{LANES} x float>, ptr {sums_at}, align 64")
                if adds:
                    before = _load_results(text, kernel.out_type, isa, at, mask)
                    total = text.value(f"fadd <{LANES} x float> {before}, {total}")
                _store_results(text, kernel.out_type, at, mask, total)
            return [
                shift_pointer(text, source, _SUM_BYTES),
                *(shift_pointer(text, at, "%c_n") for at in places),
            ]

        places = (shift_pointer(text, begin, skipped), *targets)
        start = tuple(Carried("ptr", place) for place in places)
        name = f"{block.name}_{'add' if adds else 'store'}{number}"
        emit_loop(text, name, tile.count, 1, start, column)

    def all_columns(adds: bool) -> list[str]:
        for number, tile in enumerate(block.columns):
            store(number, tile, adds)
        return []

    accumulates = text.value("icmp ne i64 %accumulate, 0")
    emit_when(text, f"{block.name}_adds", accumulates, (), lambda: all_columns(True))
    overwrites = text.value("icmp eq i64 %accumulate, 0")
    emit_when(text, f"{block.name}_stores", overwrites, (), lambda: all_columns(False))


def _ask_to_store(text: FunctionText, kernel: TileProduct, place: str, tiles: int) -> None:
    """Ask for the results of so many tiles of rows in a column of the next block."""
    prefetch_to_write(text, place)
    size = tiles * LANES * kernel.out_type.width
    prefetch_to_write(text, shift_pointer(text, place, size - 1))


def _existing(text: FunctionText, lanes: str) -> str:
    limit = splat(text, "i32", text.value(f"trunc i64 {lanes} to i32"), LANES)
    numbers = constants("i32", range(LANES))
    return text.value(f"icmp ult <{LANES} x i32> {numbers}, {limit}")


def _load_results(text: FunctionText, data_type: DataType, isa: Isa, at: str, mask: str) -> str:
    element, suffix = ("i16", "i16") if data_type is DataType.BF16 else ("float", "f32")
    kind = f"<{LANES} x {element}>"
    stored = text.value(
        f"call {kind} @llvm.masked.load.v{LANES}{suffix}.p0(ptr {at}, i32 1, "
        f"<{LANES} x i1> {mask}, {kind} zeroinitializer)"
    )
    return widen(text, data_type, isa, stored, LANES)


def _store_results(text: FunctionText, data_type: DataType, at: str, mask: str, total: str) -> None:
    element, suffix = ("float", "f32")
    if data_type is DataType.BF16:
        element, suffix = "i16", "i16"
        total = narrow_sum(text, total)
    text.effect(
        f"call void @llvm.masked.store.v{LANES}{suffix}.p0(<{LANES} x {element}> {total}, "
        f"ptr {at}, i32 1, <{LANES} x i1> {mask})"
    )
