"""Sums of complex numbers that are made in one block, so that far results are written only once.

A block of the sum brings all results and writes them back. Where the third cache is far that costs
more than a larger block of both factors does: 0.91 to 0.99 of the time with one block for two of
products of C128, sums of 400 to 700 products, results of 1.2 to 3.7 sizes of the second cache
(Golden Cove, one thread). Not where columns are adjacent in B: packed in longer blocks they took a
quarter longer. Sums that stay cut took as long or longer, as did C64.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.search.machine import Machine
from teir.search.reductions import reductions_of
from teir.search.shape import ProductShape, extent_of

_BLOCK_BYTES = 8192
"""Bytes of a column of a reduction block, at most half more."""


def one_block_depth(shape: ProductShape, machine: Machine) -> int:
    """Products of a block that holds a whole sum; 0 where sums are cut as elsewhere."""
    out = shape.out.data_type
    if not machine.has_far_third_cache or machine.threads > 1 or out is not DataType.C128:
        return 0
    if shape.n is None or shape.n.stride(shape.b.name) == shape.b.data_type.width:
        return 0
    if shape.rows * shape.columns * extent_of(shape.c) * out.width < machine.l2_bytes:
        return 0
    depth = _BLOCK_BYTES // out.width
    return depth if reductions_of(shape, depth).is_one_block else 0
