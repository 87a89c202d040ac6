"""What a register block asks for while it works: B and C of the next tile, a few lines at a time.

The processor waits where it is asked for more lines at once than can be on their way, and takes a
few after so many multiply-adds in passing. So every pass through the loop asks for some columns of
B, each once while the loop passes a line; the first ones claim a line of C each, or, where the
passes are fewer than the lines, all lines of a column. Which columns of B follows from how much is
left to do; the lines of C are counted in memory, since no register is to spare.

    passes left    16    15    14    13    12    11    10    9     8     7     6     5     4
    asks for B     0 1   6 7   4 5   2 3   0 1   6 7   4 5   2 3   0 1   6 7   4 5   2 3   0 1
    claims of C    0     1     2     3     4     5     6     7     8     9     10    11

where a line of B lasts four passes, and six columns of C have two lines each.

The requests are basic blocks of their own, before those of the multiply-adds: in one block with
them LLVM would schedule the multiply-adds behind the addresses, and keep sums on the stack.
Lines go to the second cache: the first is full of this tile.
"""

from __future__ import annotations

from teir.backends.llvm.emit_begin_asking import ask_for_lines
from teir.backends.llvm.emit_gemm_block import Block, claims_c
from teir.backends.llvm.emit_gemm_columns import walks_columns
from teir.backends.llvm.emit_text import (
    FunctionText,
    cache_of_next,
    prefetch,
    prefetch_to_write,
    shift_pointer,
)
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


def asks_apart(kernel: GemmBlock, isa: Isa) -> bool:
    """True where requests are basic blocks of their own, passed by where nothing is ahead."""
    return claims_c(kernel) or (walks_columns(kernel) and asks_for_b(kernel, isa))


def start_claims(text: FunctionText, block: Block) -> None:
    """Begin with the first line of C, or behind the last where none is claimed."""
    if block.claimed is None:
        return
    b_ahead, ahead = (block.arguments.read(text, name) for name in ("b_ahead", "c_ahead"))
    any_ahead = text.value(f"or i64 {b_ahead}, {ahead}")
    text.effect(f"store volatile i64 {any_ahead}, ptr {block.any_ahead}, align 8")
    has_none = text.value(f"icmp eq i64 {ahead}, 0")
    first = text.value(f"select i1 {has_none}, i64 {_lines_of_block(block.kernel)}, i64 0")
    text.effect(f"store volatile i64 {first}, ptr {block.claimed}, align 8")


def emit_requests(text: FunctionText, block: Block, b: str, steps: int, left: Left) -> None:
    """The blocks from %ask to %many; column 0 of B lies at ``b``, a pass takes ``steps`` steps."""
    claims = claims_c(block.kernel)
    after = "claim" if claims else "many"
    text.label("ask")
    if block.kernel.asks:
        ask_for_lines(text, "%D", block.kernel.asks, "ask_others")
        text.label("ask_others")
    if claims:
        any_ahead = text.value(f"load volatile i64, ptr {block.any_ahead}, align 8")
        _skip_zero(text, any_ahead, "many", "ahead")
    _skip_zero(text, block.arguments.read(text, "b_ahead"), after, "requests")
    ask_for_b(text, block, b, steps, left)
    text.effect(f"br label %{after}")
    if claims:
        _claim_c(text, block, steps)


def _skip_zero(text: FunctionText, distance: str, label: str, following: str) -> None:
    """To %label where nothing lies ahead, else on in the block %following."""
    is_zero = text.value(f"icmp eq i64 {distance}, 0")
    text.effect(f"br i1 {is_zero}, label %{label}, label %{following}")
    text.label(following)


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
        prefetch(text, place, cache_of_next(block.isa))
    return passes


def _claim_c(text: FunctionText, block: Block, steps: int) -> None:
    """The lines of C whose turn it is, where some are left; to %many."""
    kernel, read = block.kernel, block.arguments.read
    lines = _lines_of_column(kernel)
    text.label("claim")
    first = text.value(f"load volatile i64, ptr {block.claimed}, align 8")
    is_left = text.value(f"icmp ult i64 {first}, {_lines_of_block(kernel)}")
    text.effect(f"br i1 {is_left}, label %claim_some, label %many")
    text.label("claim_some")
    end = text.value(f"add i64 {first}, {_lines_of_pass(text, block, steps)}")
    text.effect(f"store volatile i64 {end}, ptr {block.claimed}, align 8")
    ahead = shift_pointer(text, block.c_start, read(text, "c_ahead"))
    number, following = text.fresh(), text.fresh()
    text.effect("br label %claim_line")
    text.label("claim_line")
    text.define(number, f"phi i64 [ {first}, %claim_some ], [ {following}, %claim_line ]")
    column = text.value(f"udiv i64 {number}, {lines}")
    line = text.value(f"urem i64 {number}, {lines}")
    distance = text.value(f"mul i64 {column}, {read(text, 'c_n')}")
    inside = text.value(f"mul i64 {line}, {LINE_BYTES}")
    place = shift_pointer(text, ahead, distance)
    prefetch_to_write(text, shift_pointer(text, place, inside))
    text.define(following, f"add i64 {number}, 1")
    is_more = text.value(f"icmp ult i64 {following}, {end}")
    text.effect(f"br i1 {is_more}, label %claim_line, label %many")


def _lines_of_pass(text: FunctionText, block: Block, steps: int) -> str:
    """One, or those of a column where there are too few passes for that."""
    read = block.arguments.read
    passes = text.value(f"lshr i64 {read(text, 'k')}, {steps.bit_length() - 1}")
    for name in ("batch", "outer"):
        passes = text.value(f"mul i64 {passes}, {read(text, name)}")
    has_many = text.value(f"icmp uge i64 {passes}, {_lines_of_block(block.kernel)}")
    return text.value(f"select i1 {has_many}, i64 1, i64 {_lines_of_column(block.kernel)}")


def _lines_of_block(kernel: GemmBlock) -> int:
    return kernel.columns * _lines_of_column(kernel)


def _lines_of_column(kernel: GemmBlock) -> int:
    return -(-kernel.vectors * kernel.lanes * kernel.out_type.width // LINE_BYTES)
