"""What a register block of panels asks for: A and C of the next tile, B of later steps."""

from __future__ import annotations

from collections.abc import Callable

from teir.backends.llvm.emit_panel_lines import PanelLines
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    cache_of_next,
    prefetch,
    prefetch_to_write,
    shift_pointer,
)
from teir.lower.kernels import PANEL_STEPS, PanelBlock
from teir.target import LINE_BYTES, Isa

_PANEL_AHEAD_BYTES = 512
"""How far ahead packed columns that lie side by side are asked for."""

Columns = list[tuple[str, ...]]
"""For every column of C the places of its runs."""


def claim_unless(
    text: FunctionText,
    kernel: PanelBlock,
    lines: PanelLines,
    fits: tuple[str, str] | None,
    columns: Columns,
) -> None:
    """Ask for the lines a later block writes, so that its stores find them near.

    Lines that are stored past the caches are not asked for: ``fits`` says where that is so (see
    `PanelStore`), and None that it never is. With it the text ends in the block %begin.
    """
    if fits is None:
        _claim(text, kernel, columns)
        return
    passes_caches = fits[0] if lines.exist else fits[1]
    text.effect(f"br i1 {passes_caches}, label %begin, label %claim")
    text.label("claim")
    if lines.exist:
        _claim_ends(text, kernel, lines, columns)
    else:
        _claim(text, kernel, columns)
    text.effect("br label %begin")
    text.label("begin")


def _claim_ends(
    text: FunctionText, kernel: PanelBlock, lines: PanelLines, columns: Columns
) -> None:
    """Only the lines at both ends of a stretch that does not begin with a line."""
    for place, lanes in lines.segments(columns):
        ahead = shift_pointer(text, place, "%c_ahead")
        for offset in (0, len(lanes) * kernel.data_type.width):
            prefetch_to_write(text, shift_pointer(text, ahead, offset))


def _claim(text: FunctionText, kernel: PanelBlock, columns: Columns) -> None:
    run_bytes = kernel.rows // kernel.runs * kernel.data_type.width
    for runs in columns:
        for run in runs:
            place = shift_pointer(text, run, "%c_ahead")
            for line in range(0, run_bytes, LINE_BYTES):
                prefetch_to_write(text, shift_pointer(text, place, line))


def claims_in_steps(kernel: PanelBlock) -> bool:
    """True where the lines of C that follow one another are asked for one at a time.

    All at once they keep the lines of A and B waiting that the first steps read. Measured on Golden
    Cove, the products of section 5.3: 0.96 to 0.97 of the time in FP32 and FP64.
    """
    is_one_piece = kernel.dense_columns and kernel.runs == 1 and not kernel.streams
    return kernel.claims and kernel.reads_ahead and is_one_piece


def claim_unless_long(text: FunctionText, kernel: PanelBlock, steps: int, columns: Columns) -> None:
    """Ask for all lines a later block writes, where ``steps`` for each of them are too many.

    Else %c_asked is the first of them, which `claim_next` goes on from, and %c_last the last. The
    text ends in the block %begin.
    """
    block_bytes = kernel.rows * kernel.columns * kernel.data_type.width
    lines = -(-block_bytes // LINE_BYTES)
    first = shift_pointer(text, columns[0][0], "%c_ahead")
    text.define("%c_last", f"getelementptr i8, ptr {first}, i64 {(lines - 1) * LINE_BYTES}")
    is_long = text.value(f"icmp sge i64 %k, {steps * lines}")
    text.define("%c_asked", f"select i1 {is_long}, ptr {first}, ptr %c_last")
    text.effect(f"br i1 {is_long}, label %begin, label %claim")
    text.label("claim")
    _claim(text, kernel, columns)
    text.effect("br label %begin")
    text.label("begin")


def claim_next(text: FunctionText, place: str) -> str:
    """Ask for the line at ``place``; gives the one after it, the last one again at the end."""
    prefetch_to_write(text, place)
    following = shift_pointer(text, place, LINE_BYTES)
    is_inside = text.value(f"icmp ult ptr {place}, %c_last")
    return text.value(f"select i1 {is_inside}, ptr {following}, ptr {place}")


def read_ahead(
    text: FunctionText, kernel: PanelBlock, steps: int, place_of: Callable[[int], str]
) -> None:
    """Ask for what later steps read of B, whose columns these ``steps`` find at ``place_of``."""
    if not kernel.reads_ahead:
        return
    if kernel.adjacent_columns:
        base = place_of(0)
        for line in range(0, steps * kernel.columns * kernel.data_type.width, LINE_BYTES):
            beyond = shift_pointer(text, base, _PANEL_AHEAD_BYTES + line)
            prefetch(text, beyond, Cache.FIRST)
        return
    for column in range(kernel.columns):
        prefetch(text, shift_pointer(text, place_of(column), LINE_BYTES), Cache.FIRST)


def bring_a(text: FunctionText, kernel: PanelBlock, isa: Isa, a: str, numbers: range) -> None:
    """Ask for what a step whose column of A lies at ``a`` reads of these vectors in the next tile.

    Also by its last element: rows seldom begin with a line, and no one else asks for the line
    that the last ones end in.
    """
    if not kernel.brings or kernel.spreads:
        return
    width = kernel.data_type.width
    ahead, vector_bytes = shift_pointer(text, a, "%a_ahead"), kernel.lanes * width
    end = min(numbers.stop * vector_bytes, kernel.rows * width)
    for place in (*range(numbers.start * vector_bytes, end, LINE_BYTES), end - width):
        prefetch(text, shift_pointer(text, ahead, place), cache_of_next(isa))


def bring_next(
    text: FunctionText, kernel: PanelBlock, isa: Isa, step: int, brought: tuple[str, ...]
) -> tuple[str, ...]:
    """Ask for this step's part of the lines of the next tile's A that `PANEL_STEPS` steps ask for,
    row after row from the place of a line and its row on; gives those behind them.

    At the end the first line of the last row again.
    """
    line, row = brought
    before, after = (kernel.spreads * one // PANEL_STEPS for one in (step, step + 1))
    for _ in range(before, after):
        prefetch(text, line, cache_of_next(isa))
        row_end = shift_pointer(text, row, "%a_row_bytes")
        next_line = shift_pointer(text, line, LINE_BYTES)
        next_row = shift_pointer(text, row, "%a_k")
        is_inside = text.value(f"icmp ult ptr {next_line}, {row_end}")
        is_last = text.value(f"icmp uge ptr {next_row}, %a_stop")
        begun = text.value(f"select i1 {is_last}, ptr {row}, ptr {next_row}")
        line = text.value(f"select i1 {is_inside}, ptr {next_line}, ptr {begun}")
        row = text.value(f"select i1 {is_inside}, ptr {row}, ptr {begun}")
    return line, row
