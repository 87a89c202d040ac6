"""One block of a `TileProduct`: 32 x 32 results in four tile registers, and their way to C.

registers 0 to 3   sums: columns 0 to 15 by rows 0 to 15 and 16 to 31, columns 16 to 31 by both
registers 4, 5     columns of B, 32 steps each
registers 6, 7     rows of A, 16 words of two steps each
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_loops import Carried, emit_loop, emit_when
from teir.backends.llvm.emit_numbers import widen
from teir.backends.llvm.emit_pairs import narrow_sum
from teir.backends.llvm.emit_text import FunctionText, constants, shift_pointer, splat
from teir.backends.llvm.emit_tile_packing import Columns, Panel
from teir.dtypes import DataType
from teir.lower.kernels import TileProduct
from teir.lower.tile_room import GROUP_BYTES, PANEL_GROUP_BYTES
from teir.target import Isa

LANES = 16
"""Rows of A of one tile, lanes of one of its rows."""
_FIRST_COLUMNS, _FIRST_ROWS, _REGISTERS = 4, 6, 8
_SUM_BYTES = 2 * LANES * 4
"""A column of sums in the room."""
_ROW_BYTES_AT, _ROWS_AT = 16, 48


@dataclass(frozen=True, slots=True)
class Block:
    """``tiles`` tiles of rows by ``rows`` tiles of columns.

    The first ``skipped`` columns are formed but not stored, the ``count`` behind them go to ``c``.
    """

    name: str
    tiles: int
    rows: int
    b: str
    packed: str
    c: str
    skipped: str
    count: str

    @property
    def registers(self) -> list[tuple[int, int, int]]:
        """The register of the sums of every tile of columns and tile of rows."""
        return [
            (2 * row + tile, row, tile) for row in range(self.rows) for tile in range(self.tiles)
        ]


def configure(text: FunctionText, place: str, columns: str) -> None:
    """All registers 16 rows of 64 bytes; those of columns fewer rows where there are fewer."""
    words = [0] * 64
    words[0] = 1
    for register in range(_REGISTERS):
        words[_ROW_BYTES_AT + 2 * register] = GROUP_BYTES
        words[_ROWS_AT + register] = LANES
    text.effect(f"store <64 x i8> {constants('i8', words)}, ptr {place}, align 1")
    low = text.value(f"call i64 @llvm.umin.i64(i64 {columns}, i64 {LANES})")
    beyond = text.value(f"sub i64 {columns}, {LANES}")
    high = text.value(f"call i64 @llvm.smax.i64(i64 {beyond}, i64 1)")
    for rows, registers in ((low, (0, 1, 4)), (high, (2, 3, 5))):
        byte = text.value(f"trunc i64 {rows} to i8")
        for register in registers:
            at = shift_pointer(text, place, _ROWS_AT + register)
            text.effect(f"store i8 {byte}, ptr {at}, align 1")
    text.effect(f"call void @llvm.x86.ldtilecfg(ptr {place})")


def emit_sums(
    text: FunctionText, kernel: TileProduct, columns: Columns, panel: Panel, block: Block
) -> None:
    """The sums of the block, in its registers."""
    for register, _, _ in block.registers:
        text.effect(f"call void @llvm.x86.tilezero(i8 {register})")
    if not kernel.b_adjacent:
        both = (Carried("ptr", panel.at), Carried("ptr", block.packed))
        _groups(text, block, "sums", columns.all_groups, columns.column_bytes, both)
        return
    has_left = text.value(f"icmp ne i64 {columns.left}, 0")

    def segment(values: list[str]) -> list[str]:
        a, b, packed = values
        both = (Carried("ptr", a), Carried("ptr", b))
        a, _ = _groups(text, block, "sums", columns.whole, "%b_n", both)

        def rest() -> list[str]:
            _add_products(text, block, a, packed, columns.column_bytes)
            return [
                shift_pointer(text, a, PANEL_GROUP_BYTES),
                shift_pointer(text, packed, GROUP_BYTES),
            ]

        kept = (Carried("ptr", a), Carried("ptr", packed))
        a, packed = emit_when(text, f"{block.name}_left", has_left, kept, rest)
        return [a, shift_pointer(text, b, "%b_batch"), packed]

    def outer(values: list[str]) -> list[str]:
        start = tuple(Carried("ptr", value) for value in values)
        _, (a, _, packed) = emit_loop(text, f"{block.name}_batch", "%batch", 1, start, segment)
        return [a, shift_pointer(text, values[1], "%b_outer"), packed]

    start = tuple(Carried("ptr", value) for value in (panel.at, block.b, block.packed))
    emit_loop(text, f"{block.name}_outer", "%outer", 1, start, outer)


def _groups(
    text: FunctionText,
    block: Block,
    label: str,
    count: str,
    column_bytes: str,
    start: tuple[Carried, ...],
) -> list[str]:
    """The products of ``count`` groups of steps; where A and B lie behind them."""

    def group(values: list[str]) -> list[str]:
        _add_products(text, block, values[0], values[1], column_bytes)
        return [
            shift_pointer(text, values[0], PANEL_GROUP_BYTES),
            shift_pointer(text, values[1], GROUP_BYTES),
        ]

    return emit_loop(text, f"{block.name}_{label}", count, 1, start, group)[1]


def _add_products(text: FunctionText, block: Block, a: str, b: str, column_bytes: str) -> None:
    tile_bytes = LANES * GROUP_BYTES
    far = text.value(f"mul i64 {column_bytes}, {LANES}") if block.rows > 1 else "0"
    for row in range(block.rows):
        place = shift_pointer(text, b, far) if row else b
        _load_tile(text, _FIRST_COLUMNS + row, place, column_bytes)
    for tile in range(block.tiles):
        place = shift_pointer(text, a, tile * tile_bytes)
        _load_tile(text, _FIRST_ROWS + tile, place, str(GROUP_BYTES))
    for register, row, tile in block.registers:
        text.effect(
            f"call void @llvm.x86.tdpbf16ps(i8 {register}, i8 {_FIRST_COLUMNS + row}, "
            f"i8 {_FIRST_ROWS + tile})"
        )


def _load_tile(text: FunctionText, register: int, place: str, stride: str) -> None:
    text.effect(f"call void @llvm.x86.tileloadd64(i8 {register}, ptr {place}, i64 {stride})")


def store_sums(
    text: FunctionText, kernel: TileProduct, isa: Isa, block: Block, room: str, lanes: str
) -> None:
    """Add C to the sums where they accumulate, and store them as C's type."""
    for register, row, tile in block.registers:
        place = shift_pointer(text, room, row * LANES * _SUM_BYTES + tile * LANES * 4)
        text.effect(
            f"call void @llvm.x86.tilestored64(i8 {register}, ptr {place}, i64 {_SUM_BYTES})"
        )
    masks = [_existing(text, lanes, tile) for tile in range(block.tiles)]
    skipped = text.value(f"mul i64 {block.skipped}, {_SUM_BYTES}")
    start = (Carried("ptr", shift_pointer(text, room, skipped)), Carried("ptr", block.c))

    def columns(adds: bool) -> list[str]:
        def column(values: list[str]) -> list[str]:
            source, target = values
            for tile, mask in enumerate(masks):
                sums_at = shift_pointer(text, source, tile * LANES * 4)
                total = text.value(f"load <{LANES} x float>, ptr {sums_at}, align 64")
                at = shift_pointer(text, target, tile * LANES * kernel.out_type.width)
                if adds:
                    before = _load_results(text, kernel.out_type, isa, at, mask)
                    total = text.value(f"fadd <{LANES} x float> {before}, {total}")
                _store_results(text, kernel.out_type, at, mask, total)
            return [shift_pointer(text, source, _SUM_BYTES), shift_pointer(text, target, "%c_n")]

        name = f"{block.name}_{'add' if adds else 'store'}"
        emit_loop(text, name, block.count, 1, start, column)
        return []

    accumulates = text.value("icmp ne i64 %accumulate, 0")
    emit_when(text, f"{block.name}_adds", accumulates, (), lambda: columns(True))
    overwrites = text.value("icmp eq i64 %accumulate, 0")
    emit_when(text, f"{block.name}_stores", overwrites, (), lambda: columns(False))


def _existing(text: FunctionText, lanes: str, tile: int) -> str:
    limit = splat(text, "i32", text.value(f"trunc i64 {lanes} to i32"), LANES)
    numbers = constants("i32", range(tile * LANES, (tile + 1) * LANES))
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
