"""Lowering of sums in chains over short rows that lie one behind the other.

Vectors then run across the ends of rows, as if all of them were one:

    in0 [k, 3]   a0 b0 c0 a1 | b1 c1 a2 b2 | c2 a3 b3 c3      three vectors of four: four rows
    in1 [k]      w0 w0 w0 w1 | w1 w1 w2 w2 | w2 w3 w3 w3      one vector of four, spread
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.dtypes import DataType
from teir.ir.lanes import JOINED_BYTES
from teir.lower.axes import TileAxis, adjacent, wrap_in_loops
from teir.lower.blocking import full_lanes
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.kernels import JoinedDots
from teir.target import Isa

_MOST_INPUTS = 2


def lower_joined_dots(
    free: Sequence[TileAxis],
    reductions: Sequence[TileAxis],
    operands: tuple[Address, ...],
    types: tuple[DataType, DataType],
    chains: int,
    from_zero: bool,
    isa: Isa,
) -> tuple[KernelNode, ...] | None:
    """Loops around one `JoinedDots` call; None where rows are long, or do not join."""
    in_type, out_type = types
    if in_type not in (DataType.FP32, DataType.FP64) or out_type is not in_type:
        return None
    if len(operands) - 1 > _MOST_INPUTS or len(reductions) != 1:
        return None
    (k,), width = reductions, in_type.width
    columns = adjacent(free, -1, width)
    if columns is None or columns.extent * chains * width > JOINED_BYTES:
        return None
    spread = []
    for along_row, along_k in zip(columns.strides[:-1], k.strides[:-1], strict=True):
        if (along_row, along_k) not in ((width, columns.extent * width), (0, width)):
            return None
        spread.append(not along_row)
    if all(spread):
        return None
    kernel = JoinedDots(
        data_type=in_type,
        columns=columns.extent,
        chains=chains,
        lanes=min(chains, full_lanes(isa, *types)),
        spread=tuple(spread),
    )
    call = Call(kernel=kernel, operands=operands, arguments=(k.extent, int(not from_zero)))
    loops = [axis for axis in free if axis is not columns]
    return wrap_in_loops(loops, operands, (call,))
