"""Rows of a large result that are asked for one row before they are written.

A row that is written past the second cache waits for its lines, and the store buffer with it: short
sums of long rows are over before. Measured on a Golden Cove core, rows of 4 to 7 elements times 64
and 128 columns: 0.85 to 0.95 of the time, fibres of 46 elements 1.04 and results that stay near up
to 1.12. So kernels ask for nothing but rows of short fibres, of large results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from teir.lower.kernel_program import Call, Grid, KernelNode
from teir.lower.walked_kernels import Follows, WalkedRows, WalkedSum
from teir.target import Isa

_FAR_RESULT_BYTES = 6 << 20
"""Three times the second cache of the processors that gain by it."""
_LEAST_ROW_BYTES = 512


def with_asked_rows(nodes: tuple[KernelNode, ...], whole: Grid, isa: Isa) -> tuple[KernelNode, ...]:
    """``nodes`` do all of ``whole``; the same where the processor or the result gains nothing."""
    if not isa.asks_nearest:
        return nodes
    bytes_of = {
        step.slot: axis.extent * step.stride_bytes for axis in whole.axes for step in axis.steps
    }
    return tuple(_asked(node, bytes_of) for node in nodes)


def _asked(node: KernelNode, bytes_of: Mapping[int, int]) -> KernelNode:
    match node:
        case Grid():
            return structs.replace(node, body=tuple(_asked(one, bytes_of) for one in node.body))
        case Call(kernel=WalkedSum(rows=WalkedRows() as rows, chains=None, outer=None) as kernel):
            row_bytes = kernel.vectors * kernel.lanes * kernel.out_type.width
            is_far = bytes_of.get(node.operands[-1].slot, 0) >= _FAR_RESULT_BYTES
            if rows.output is not Follows.POSITION or row_bytes < _LEAST_ROW_BYTES or not is_far:
                return node
            asked = replace(kernel, rows=replace(rows, asks=True))
            return structs.replace(node, kernel=asked)
        case _:
            return node
