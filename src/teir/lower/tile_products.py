"""Lowering of BF16 products to one call that forms a whole tile with tile registers.

Taken where rows are adjacent in A and in C, columns of B have adjacent steps or are adjacent
themselves, and all reductions run inside the call. The order of sums is that of `TileProduct`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teir.dtypes import DataType
from teir.lower.axes import TileAxis
from teir.lower.contraction_tile import ContractionTile
from teir.lower.kernel_program import Address, Call
from teir.lower.kernels import TileProduct
from teir.lower.tile_room import room_bytes
from teir.target import Isa

if TYPE_CHECKING:
    from teir.lower.gemm import GemmAxes

_LEAST_PRODUCTS = 8192
"""Below, configuring the registers takes longer than the products by vectors."""
_LEAST_COLUMNS = 4
_MOST_ROOM_BYTES = 1 << 20
_LOOPS = 3


def tile_product(
    tile: ContractionTile,
    axes: GemmAxes,
    operands: tuple[Address, ...],
    reductions: tuple[TileAxis, ...],
    isa: Isa,
    room: Address | None,
) -> Call | None:
    """The call for the rows and columns of ``axes``; None where it does not suit.

    ``reductions`` run inside it, strides in the order A, B; ``room`` is scratch of kernels.
    """
    if isa is not Isa.AMX or room is None or not tile.flushes or tile.in_type is not DataType.BF16:
        return None
    if not 1 <= len(reductions) <= _LOOPS or not _rows_are_adjacent(tile, axes):
        return None
    k = reductions[-1]
    is_adjacent = k.strides[1] == tile.in_type.width
    if not is_adjacent and axes.columns.strides[1] != tile.in_type.width:
        return None
    rows, columns = axes.lanes.extent, axes.columns.extent
    segments = 1
    for axis in reductions[:-1]:
        segments *= axis.extent
    is_small = rows * columns * segments * k.extent < _LEAST_PRODUCTS
    if is_small or columns < _LEAST_COLUMNS:
        return None
    if room_bytes(segments, k.extent, columns, is_adjacent) > _MOST_ROOM_BYTES:
        return None
    missing = (TileAxis(1, (0, 0, 0)),) * (_LOOPS - len(reductions))
    loops = [
        value
        for axis in reversed((*missing, *reductions))
        for value in (axis.extent, *axis.strides[:2])
    ]
    kernel = TileProduct(in_type=tile.in_type, out_type=tile.out_type, b_adjacent=is_adjacent)
    _, b_n, c_n = axes.columns.strides
    arguments = (rows, columns, *loops, b_n, c_n, int(not tile.from_zero))
    return Call(kernel=kernel, operands=(*operands, room), arguments=arguments)


def tile_product_room(call: Call) -> int:
    """Bytes of the room of a call of a `TileProduct`."""
    assert isinstance(call.kernel, TileProduct)
    _, columns, k, _, _, batch, _, _, outer = call.arguments[:9]
    return room_bytes(batch * outer, k, columns, call.kernel.b_adjacent)


def _rows_are_adjacent(tile: ContractionTile, axes: GemmAxes) -> bool:
    a_m, _, c_m = axes.lanes.strides
    is_known = tile.out_type in (DataType.BF16, DataType.FP32)
    return is_known and a_m == tile.in_type.width and c_m == tile.out_type.width
