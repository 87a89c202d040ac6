"""The passes that a program of a sparse product goes through, in their order.

turned rows       tensors whose rows lie apart are turned once
row blocks        rows of a temporary that a product reads, several at a time
gathered lines    rows that fibres gather often, copied to where lines begin
gathered parts    those of deeper fibres some after the others, so many as stay in the second cache
shared roots      the threads share what one would do alone
block caches      large dense products are cut for the caches
pack operands     their operands are copied into the order kernels read

Blocks and packed operands are those of dense programs: transposed operands of the dense products in
a pipeline took up to three times as long without. Gathered parts add what they sum part by part; no
other sum changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from teir.ir.nodes import Program
from teir.passes.block_caches import cut_for_caches
from teir.passes.facts import Facts
from teir.passes.gathered_lines import with_gathered_lines
from teir.passes.gathered_parts import with_gathered_parts
from teir.passes.pack_operands import pack_operands
from teir.passes.row_blocks import with_row_blocks
from teir.passes.shared_roots import with_shared_roots
from teir.passes.turned_rows import with_turned_rows


def with_walking_passes(program: Program, stored: Mapping[str, int], facts: Facts) -> Program:
    """The program for a machine and its threads; the same object where nothing pays.

    ``stored``: the elements of index arrays of coordinates by the name of their tensor.
    """
    program = with_turned_rows(program, stored)
    program = with_row_blocks(program, facts.threads)
    program = with_gathered_lines(program, stored, facts)
    program = with_gathered_parts(program, stored, facts)
    program = with_shared_roots(program, facts.threads)
    return pack_operands(cut_for_caches(program, facts), facts)
