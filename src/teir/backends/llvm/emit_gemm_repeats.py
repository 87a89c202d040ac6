"""The loop over blocks of columns of one call (`GemmBlock.repeats`).

    block:  B and C of this block, and its first vector of C where that is loaded ahead
            ...
            where the next block begins; [load its first vector of C]; store this block -> block

The vector is loaded before the block is stored where a mask leaves out what follows in its line: a
load waits for an earlier masked store to the same line.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_gemm_block import Block
from teir.backends.llvm.emit_lanes import load
from teir.backends.llvm.emit_text import FunctionText


@dataclass(frozen=True, slots=True)
class Blocks:
    """The loop over blocks of columns: how many are left, and the values of its next pass."""

    left: str
    next_left: str
    next_b: str
    next_c: str
    next_first_of_c: str


def begin_blocks(text: FunctionText, block: Block) -> Blocks:
    """The head of the loop; ends %entry."""
    blocks = Blocks(text.fresh(), text.fresh(), text.fresh(), text.fresh(), text.fresh())
    phis = [
        (block.b_start, "ptr", "%B", blocks.next_b),
        (block.c_start, "ptr", "%C", blocks.next_c),
        (blocks.left, "i64", block.arguments.read(text, "blocks"), blocks.next_left),
    ]
    if block.first_of_c is not None:
        first = load(text, block.c[0], "%C")
        phis.append((block.first_of_c, block.arithmetic.kind, first, blocks.next_first_of_c))
    text.effect("br label %block")
    text.label("block")
    for name, kind, first, following in phis:
        text.define(name, f"phi {kind} [ {first}, %entry ], [ {following}, %next_block ]")
    return blocks


def following_block(text: FunctionText, block: Block, blocks: Blocks) -> str:
    """Where the next block begins, and its first vector; returns whether there is one."""
    text.define(blocks.next_left, f"sub i64 {blocks.left}, 1")
    more = text.value(f"icmp sgt i64 {blocks.next_left}, 0")
    for following, start, stride in (
        (blocks.next_b, block.b_start, "b_n"),
        (blocks.next_c, block.c_start, "c_n"),
    ):
        column = block.arguments.read(text, stride)
        distance = text.value(f"mul i64 {column}, {block.kernel.columns}")
        text.define(following, f"getelementptr i8, ptr {start}, i64 {distance}")
    if block.first_of_c is not None:
        place = text.value(f"select i1 {more}, ptr {blocks.next_c}, ptr {block.c_start}")
        first = load(text, block.c[0], place)
        text.define(blocks.next_first_of_c, f"freeze {block.arithmetic.kind} {first}")
    return more


def end_blocks(text: FunctionText, more: str) -> None:
    """Back to the head of the loop, or on to what follows it."""
    text.effect(f"br i1 {more}, label %next_block, label %exit")
    text.label("next_block")
    text.effect("br label %block")
    text.label("exit")
