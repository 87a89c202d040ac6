"""The loop over blocks of columns that a panel meets, and what goes on from block to block.

entry -> block: -> ... the block is stored -> next_block: blocks left -> block, else exit
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.llvm.emit_text import FunctionText, vector
from teir.lower.kernels import PanelBlock

BROUGHT = ("%block_line", "%block_row")
"""Where the line of the next tile's A lies that is asked for next, and its row."""


def begin_blocks(text: FunctionText, kernel: PanelBlock, a: str, element: str) -> None:
    """The head of the loop, reached from the block %entry; ``a`` is where A lies.

    Defines %block_b and %block_c, and those of `BROUGHT` where lines are brought a few at a time.
    """
    if kernel.joins:
        kind = vector(element, kernel.lanes)
        room = f"[{kernel.runs} x {kind}], align {kernel.lanes * kernel.data_type.width}"
        text.define("%carried", f"alloca {room}")
    moving = [("b", "ptr", "%B"), ("c", "ptr", "%C"), ("left", "i64", "%blocks")]
    if kernel.spreads:
        text.define("%a_first", f"getelementptr i8, ptr {a}, i64 %a_ahead")
        text.define("%a_stop", "getelementptr i8, ptr %a_first, i64 %a_steps_bytes")
        moving += [("line", "ptr", "%a_first"), ("row", "ptr", "%a_first")]
    text.effect("br label %block")
    text.label("block")
    for name, kind, first in moving:
        following = f"[ %next_{name}, %next_block ]"
        text.define(f"%block_{name}", f"phi {kind} [ {first}, %entry ], {following}")


def end_block(text: FunctionText, brought: Sequence[str]) -> None:
    """The end of the loop, reached where the block is stored; ``brought`` are the places of
    `BROUGHT` at the end of the block, if any."""
    text.label("next_block")
    for name, place in zip(("%next_line", "%next_row"), brought, strict=False):
        text.define(name, f"getelementptr i8, ptr {place}, i64 0")
    text.define("%next_b", "getelementptr i8, ptr %block_b, i64 %b_block")
    text.define("%next_c", "getelementptr i8, ptr %block_c, i64 %c_block")
    text.define("%next_left", "sub i64 %block_left, 1")
    text.define("%more_blocks", "icmp sgt i64 %next_left, 0")
    text.effect("br i1 %more_blocks, label %block, label %exit")
    text.label("exit")
    text.effect("ret void")
