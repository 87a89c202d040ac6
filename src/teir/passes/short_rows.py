"""A program as it is written, but for operands in short pieces, which are copied.

    sequential m over m                    sequential m over m
      sequential n over n                    scratch in0_packed: FP64
        gemm: gemm_tile              ->      do_copy: copy
                                             sequential n over n
                                               gemm: gemm_tile_1           (reads in0_packed)

What runs without a word from the user. Arrays seldom begin with a line of memory, so every vector
of A lies in two; scratch does. The rule is the one of *pack operands* for machines whose third
cache is far, on FP32 and FP64 alone: loops, tiles and the order of every sum stay, and so do all
bits. Measured on Golden Cove, the three blocked products of section 5.3: 2 to 4 % less time in
FP32, 5 to 7 % in FP64.

Where columns lie in short pieces, too, rows stay near and few columns at a time meet them
(`teir.passes.near_rows`): the tiles of the result come in another order, the sums of each in their
own. Beside rows alone, measured as above: 5 to 6 % less time in FP32, 9 to 11 % in FP64.
"""

from __future__ import annotations

from dataclasses import replace

from teir.ir.nodes import Program
from teir.passes.facts import Facts
from teir.passes.near_rows import keep_rows_near
from teir.passes.pack_operands import pack_operands


def with_short_rows_packed(program: Program, facts: Facts) -> Program:
    """The program for a machine; the same object where nothing pays. It must be well formed."""
    if not facts.has_far_third_cache:
        return program
    return pack_operands(keep_rows_near(program, facts), replace(facts, only_short_rows=True))
