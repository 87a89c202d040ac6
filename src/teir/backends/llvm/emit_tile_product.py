"""A product of BF16 matrices by the processor's tile registers (AMX): loops around its blocks.

    for every panel of at most 32 rows of A:
      interleave the panel's steps by twos, padded with zeros, into the room
      for every block of at most 32 columns:
        sum all steps in four tiles, of 16 x 16 results each
        put the tiles down in the room; add C, round, store

A tile of results has a row for every column of the block, since C is adjacent along m. A column of
B, 32 steps of it, is a row of a tile where k is adjacent in B; where n is, and where the steps left
over are fewer than 32, columns are copied into the room first. Tile registers belong to the call:
configured when it begins, released when it ends. Source: Intel SDM volume 1 chapter 18, volume 2
TDPBF16PS.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from teir.backends.llvm.emit_flush import start_flushing, stop_flushing
from teir.backends.llvm.emit_loops import Carried, emit_loop, emit_when
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.backends.llvm.emit_tile_packing import (
    Columns,
    Panel,
    pack_columns,
    pack_panel,
)
from teir.backends.llvm.emit_tile_sums import LANES, Block, configure, emit_sums, store_sums
from teir.lower.kernels import TileProduct
from teir.lower.tile_room import (
    CONFIGURED_BYTES,
    GROUP_STEPS,
    PANEL_GROUP_BYTES,
    PANEL_START_BYTES,
)
from teir.target import Isa

TILE_PRODUCT_ARGUMENTS = (
    "m", "n", "k", "a_k", "b_k", "batch", "a_batch", "b_batch", "outer", "a_outer", "b_outer",
    "b_n", "c_n", "accumulate",
)  # fmt: skip

_PANEL = 2 * LANES
_COLUMNS = 32


def emit_tile_product_body(
    kernel: TileProduct, isa: Isa, operands: tuple[str, ...]
) -> FunctionText:
    """The body for the operands A, B, C and room and the arguments of `TileProduct`."""
    text = FunctionText()
    text.label("entry")
    mode = start_flushing(text, isa)
    columns, panel = _laid_out(text, kernel, operands)
    pack_columns(text, kernel, columns)
    _emit_panels(text, kernel, isa, operands, (columns, panel))
    text.effect("call void @llvm.x86.tilerelease()")
    stop_flushing(text, isa, mode)
    text.effect("ret void")
    return text


def _laid_out(
    text: FunctionText, kernel: TileProduct, operands: tuple[str, ...]
) -> tuple[Columns, Panel]:
    """Where the room keeps what is packed: first the panel of A, then columns of B."""
    _, b, _, room = operands
    whole = text.value(f"lshr i64 %k, {GROUP_STEPS.bit_length() - 1}")
    left = text.value(f"and i64 %k, {GROUP_STEPS - 1}")
    has_left = text.value(f"icmp ne i64 {left}, 0")
    more = text.value(f"zext i1 {has_left} to i64")
    groups = text.value(f"add i64 {whole}, {more}")
    segments = text.value("mul i64 %batch, %outer")
    all_groups = text.value(f"mul i64 {segments}, {groups}")
    panel = shift_pointer(text, room, PANEL_START_BYTES)
    panel_bytes = text.value(f"mul i64 {all_groups}, {PANEL_GROUP_BYTES}")
    packed = shift_pointer(text, panel, panel_bytes)
    kept = text.value(f"mul i64 {segments}, {more}") if kernel.b_adjacent else all_groups
    odd = text.value(f"or i64 {kept}, 1")
    column_bytes = text.value(f"mul i64 {odd}, {2 * GROUP_STEPS}")
    columns = Columns(b, packed, column_bytes, whole, left, groups, all_groups)
    return columns, Panel(panel, groups)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Columns in ``blocks`` blocks of ``size``; the last block begins at ``last``.

    Blocks have equal sizes, for the registers have one configuration during a call: the last one
    forms some columns of the block before once more, and leaves them.
    """

    blocks: str
    size: str
    last: str


def _cut(text: FunctionText) -> _Cut:
    rounded = text.value(f"add i64 %n, {_COLUMNS - 1}")
    blocks = text.value(f"udiv i64 {rounded}, {_COLUMNS}")
    more = text.value(f"sub i64 {blocks}, 1")
    size = text.value(f"udiv i64 {text.value(f'add i64 %n, {more}')}, {blocks}")
    return _Cut(blocks, size, text.value(f"sub i64 %n, {size}"))


def _emit_panels(
    text: FunctionText,
    kernel: TileProduct,
    isa: Isa,
    operands: tuple[str, ...],
    packed: tuple[Columns, Panel],
) -> None:
    a, _, c, room = operands
    columns, panel = packed
    cut = _cut(text)
    configure(text, shift_pointer(text, room, CONFIGURED_BYTES), cut.size)
    shared = _Sweep(kernel, isa, columns, panel, cut, room)
    is_high = text.value(f"icmp ugt i64 {cut.size}, {LANES}")
    is_low = text.value(f"icmp ule i64 {cut.size}, {LANES}")

    def one_panel(now: list[str]) -> list[str]:
        a_now, c_now, left = now
        lanes = text.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 {_PANEL})")
        pack_panel(text, panel, a_now, lanes)
        are_both = text.value(f"icmp ugt i64 {lanes}, {LANES}")
        is_single = text.value(f"icmp ule i64 {lanes}, {LANES}")

        def sweep(tiles: int, rows: int) -> list[str]:
            _emit_sweep(text, shared, c_now, lanes, tiles, rows)
            return []

        for tiles, fits in ((2, are_both), (1, is_single)):
            for rows, suits in ((2, is_high), (1, is_low)):
                taken = text.value(f"and i1 {fits}, {suits}")
                emit_when(text, f"by{tiles}x{rows}", taken, (), partial(sweep, tiles, rows))
        return [
            shift_pointer(text, a_now, _PANEL * kernel.in_type.width),
            shift_pointer(text, c_now, _PANEL * kernel.out_type.width),
            text.value(f"sub i64 {left}, {_PANEL}"),
        ]

    count = text.value(f"add i64 %m, {_PANEL - 1}")
    panels = text.value(f"udiv i64 {count}, {_PANEL}")
    start = (Carried("ptr", a), Carried("ptr", c), Carried("i64", "%m"))
    emit_loop(text, "panels", panels, 1, start, one_panel)


@dataclass(frozen=True, slots=True)
class _Sweep:
    """What every sweep over the columns beside a panel reads."""

    kernel: TileProduct
    isa: Isa
    columns: Columns
    panel: Panel
    cut: _Cut
    room: str


def _emit_sweep(
    text: FunctionText, sweep: _Sweep, c: str, lanes: str, tiles: int, rows: int
) -> None:
    """All blocks of columns beside a panel with ``lanes`` rows whose part of C is at ``c``."""
    columns, cut = sweep.columns, sweep.cut

    def one_block(now: list[str]) -> list[str]:
        (done,) = now
        first = text.value(f"call i64 @llvm.umin.i64(i64 {done}, i64 {cut.last})")
        skipped = text.value(f"sub i64 {done}, {first}")
        block = Block(
            f"by{tiles}x{rows}",
            tiles,
            rows,
            _at(text, columns.b, first, "%b_n"),
            _at(text, columns.packed, first, columns.column_bytes),
            _at(text, c, done, "%c_n"),
            skipped,
            text.value(f"sub i64 {cut.size}, {skipped}"),
        )
        emit_sums(text, sweep.kernel, columns, sweep.panel, block)
        store_sums(text, sweep.kernel, sweep.isa, block, sweep.room, lanes)
        return [text.value(f"add i64 {done}, {cut.size}")]

    name = f"by{tiles}x{rows}_blocks"
    emit_loop(text, name, cut.blocks, 1, (Carried("i64", "0"),), one_block)


def _at(text: FunctionText, place: str, column: str, step: str) -> str:
    return shift_pointer(text, place, text.value(f"mul i64 {column}, {step}"))
