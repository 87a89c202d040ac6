"""What a register block of panels asks for while it works: A and C of the next tile."""

from __future__ import annotations

from teir.backends.llvm.emit_panel_lines import PanelLines
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    prefetch,
    prefetch_to_write,
    shift_pointer,
)
from teir.lower.kernels import PanelBlock
from teir.target import LINE_BYTES

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


def bring_a(text: FunctionText, kernel: PanelBlock, a: str, numbers: range) -> None:
    """Ask for what a step whose column of A lies at ``a`` reads of these vectors in the next tile.

    Also by its last element: rows seldom begin with a line, and no one else asks for the line
    that the last ones end in.
    """
    if not kernel.brings:
        return
    width = kernel.data_type.width
    ahead, vector_bytes = shift_pointer(text, a, "%a_ahead"), kernel.lanes * width
    end = min(numbers.stop * vector_bytes, kernel.rows * width)
    for place in (*range(numbers.start * vector_bytes, end, LINE_BYTES), end - width):
        prefetch(text, shift_pointer(text, ahead, place), Cache.SECOND)
