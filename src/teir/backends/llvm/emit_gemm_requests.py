"""What a register block asks for while it works: B and C of the next tile, a few lines at a time.

The processor waits where it is asked for more lines at once than can be on their way, and takes a
few after so many multiply-adds in passing. So every pass through the loop asks for some columns of
B, each once while the loop passes a line, and the last ones claim a column of C each. Which columns
follows from how much is left to do: a count of its own would take a register, and none is to spare.

    passes left    9     8     7     6     5     4     3     2     1
    asks for B     2 3   0 1   6 7   4 5   2 3   0 1   6 7   4 5   2 3   where a line lasts four
    claims of C                      5     4     3     2     1     0     of six columns

The requests are basic blocks of their own, before those of the multiply-adds: in one block with
them LLVM would schedule the multiply-adds behind the addresses, and keep sums on the stack.
Lines go to the second cache: the first is full of this tile.
"""

from __future__ import annotations

from teir.backends.llvm.emit_gemm_block import Block
from teir.backends.llvm.emit_gemm_columns import walks_columns
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    prefetch,
    prefetch_to_write,
    shift_pointer,
)
from teir.lower.access import Access
from teir.lower.blocking import full_lanes
from teir.lower.kernels import GemmBlock
from teir.target import LINE_BYTES, Isa

Left = tuple[str, str, str]
"""The steps, batches and outers that are left, the current ones counted."""


def asks_for_b(kernel: GemmBlock, isa: Isa) -> bool:
    """False for a single vector that is not whole.

    Its multiply-adds take half a cycle each, as loads do; requests would take the loads' places.
    """
    return kernel.vectors > 1 or kernel.lanes >= full_lanes(isa, kernel.in_type, kernel.out_type)


def claims_c(kernel: GemmBlock) -> bool:
    """True where the columns of a block are long enough to be claimed one by one."""
    return kernel.vectors > 1 and kernel.c_access is Access.UNIT


def asks_apart(kernel: GemmBlock, isa: Isa) -> bool:
    """True where requests are basic blocks of their own, passed by where nothing is ahead."""
    return claims_c(kernel) or (walks_columns(kernel) and asks_for_b(kernel, isa))


def emit_requests(text: FunctionText, block: Block, b: str, steps: int, left: Left) -> None:
    """The blocks from %ask to %many; column 0 of B lies at ``b``, a pass takes ``steps`` steps."""
    claims = claims_c(block.kernel)
    text.label("ask")
    any_ahead = block.arguments.read(text, "b_ahead")
    if claims:
        c_ahead = block.arguments.read(text, "c_ahead")
        any_ahead = text.value(f"or i64 {any_ahead}, {c_ahead}")
    is_alone = text.value(f"icmp eq i64 {any_ahead}, 0")
    text.effect(f"br i1 {is_alone}, label %many, label %requests")
    text.label("requests")
    passes = ask_for_b(text, block, b, steps, left)
    if claims:
        _claim_c(text, block, passes, left)
    else:
        text.effect("br label %many")


def ask_for_b(text: FunctionText, block: Block, b: str, steps: int, left: Left) -> str:
    """Columns in turn: all have had theirs when the loop has passed a line.

    Returns the passes that are left of the innermost loop.
    """
    kernel = block.kernel
    passes = text.value(f"lshr i64 {left[0]}, {steps.bit_length() - 1}")
    turns = max(1, LINE_BYTES // (steps * kernel.in_type.width))
    columns = -(-kernel.columns // turns)
    b_n, b_ahead = (block.arguments.read(text, name) for name in ("b_n", "b_ahead"))
    turn = text.value(f"and i64 {passes}, {turns - 1}")
    first = text.value(f"mul i64 {text.value(f'mul i64 {turn}, {columns}')}, {b_n}")
    place = shift_pointer(text, shift_pointer(text, b, b_ahead), first)
    for number in range(columns):
        if number:
            place = shift_pointer(text, place, b_n)
        prefetch(text, place, Cache.SECOND)
    return passes


def _claim_c(text: FunctionText, block: Block, passes: str, left: Left) -> None:
    """The column of as many passes and segments as are left, where there is one; to %many."""
    kernel = block.kernel
    segments = text.value(f"add i64 {left[1]}, {left[2]}")
    column = text.value(f"add i64 {text.value(f'add i64 {passes}, {segments}')}, -3")
    is_near_end = text.value(f"icmp ult i64 {column}, {kernel.columns}")
    text.effect(f"br i1 {is_near_end}, label %claim, label %many")
    text.label("claim")
    c_n, c_ahead = (block.arguments.read(text, name) for name in ("c_n", "c_ahead"))
    distance = text.value(f"mul i64 {column}, {c_n}")
    place = shift_pointer(text, shift_pointer(text, block.c_start, c_ahead), distance)
    for line in range(0, kernel.vectors * kernel.lanes * kernel.out_type.width, LINE_BYTES):
        prefetch_to_write(text, shift_pointer(text, place, line))
    text.effect("br label %many")
