"""Lowering of BF16 products to one call that forms a whole tile with tile registers.

Taken where rows are adjacent in C, rows and columns are adjacent themselves or have adjacent steps,
and all reductions run inside the call. The order of sums is that of `TileProduct`.
"""

from __future__ import annotations

from math import ceil, prod

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.lower.axes import STILL, TileAxis
from teir.lower.contraction_tile import ContractionTile
from teir.lower.gemm_axes import GemmAxes
from teir.lower.kernel_program import Address, Call
from teir.lower.tile_kernels import TileProduct, TileRows
from teir.lower.tile_room import GROUP_STEPS, TILE_BYTES, TILE_SIDE, most_packed, room_bytes
from teir.target import Isa

_LEAST_PRODUCTS = 8192
"""Below, configuring the registers takes longer than the products by vectors."""
_LEAST_OF_A_TURN, _LEAST_OF_ALL_TURNS, _LEAST_STEPS = 1 << 10, 1 << 15, 4
"""The same of a call that takes all turns of a loop: products of a turn and of all, steps of a sum.
1.3 to 6 times as fast as vectors on Golden Cove from here on, 0.6 to 0.8 of it where none is taken.
"""
_LEAST_COLUMNS = 4
_LEAST_TURNED = 16
"""Adjacent steps of rows that are worth turning, 32 at a time."""
_MOST_ROOM_BYTES = 5 << 18
_LOOPS = 3
_STILL = (1, 0, 0)
_NEAR_BYTES = 1 << 18
_NEAR_GROUPS, _FEW_NEAR_TILES = 4, 8
"""Columns that meet all rows before the next ones do, where sums are short or rows few: they and
their results stay in the second cache until then. 0.6 to 0.95 of the time on Golden Cove."""
_COLUMNS_PER_ROW = 8
"""Tiles of columns for each of rows, so that interleaving the rows again does not show."""
_KEPT_BYTES = 1 << 19
"""Rows that stay interleaved in the second cache while columns pass by: results are written as they
follow one another, 0.3 to 1.0 of the time where they leave the caches."""
_COLUMNS_OF_KEPT_ROWS_BYTES = 1 << 17
"""Columns that are copied together then."""
_FAR_ROWS_BYTES = 1 << 25
"""Rows that are interleaved once for all columns, which come in parts that stay near."""
_STRIP_TILES = 64
"""Tiles of rows that are interleaved together: of A 2 KiB of a step are read along, which memory
brings ahead by itself. Strips of 16 that asked for their lines took 1.1 to 1.25 of the time."""
_STRIP_BYTES = 1 << 20
"""The same, of rows that pass by once, for they stay in the second cache until then."""
_LEAST_OF_STRIP = 256
"""Steps of a run from which strips are interleaved, else two tiles step by step, which goes round
fewer loops; near rows that meet one tile of columns are as well, for a strip would leave the first
cache: 0.7 to 0.8 of the time (from memory strips take 0.4 to 0.5)."""
_WIDE_ROWS = 32
"""Tiles of rows from which strips of shorter runs are interleaved too: lines that lie side by side
are read along, 0.4 to 0.8 of the time from memory, 0.9 to 1.0 from near."""
_LEAST_GROUPS_TO_ASK = TILE_SIDE
"""Groups of products in whose time the results of their block arrive, a column in each; where they
are fewer, asking took 1.1 to 1.25 of the time."""
_FEW_TILES = 4
"""Tiles of rows up to which columns whose steps are adjacent are read where they lie: more of them
repay a copy whose columns no line ends in."""
_FAR_BYTES = 2 << 20
_FEW_FAR_TILES = 2
"""The same of columns that the second cache does not hold: a tile register waits for all of its
lines, and what all pairs of rows but the first read comes from far again; 0.7 to 1.0 of the
time."""


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
    if tile.out_type not in (DataType.BF16, DataType.FP32):
        return None
    if not reductions or axes.lanes.strides[2] != tile.out_type.width:
        return None
    a_adjacent = reductions[-1].strides[0] == tile.in_type.width
    if not a_adjacent and axes.lanes.strides[0] != tile.in_type.width:
        return None
    if a_adjacent and reductions[-1].extent < _LEAST_TURNED:
        return None
    loops, piece, a_piece = _joined(reductions)
    k = loops[-1]
    if len(loops) > _LOOPS or (a_adjacent and piece != k.extent):
        return None
    is_adjacent = k.strides[1] == tile.in_type.width
    if not is_adjacent and axes.columns.strides[1] != tile.in_type.width:
        return None
    rows, columns = axes.lanes.extent, axes.columns.extent
    segments = prod(axis.extent for axis in loops[:-1])
    steps = segments * k.extent
    if columns < _LEAST_COLUMNS or not _are_many(rows * columns * steps, steps, tile, axes):
        return None
    if most_packed(segments, k.extent, _MOST_ROOM_BYTES) < 2:
        return None
    missing = (STILL,) * (_LOOPS - len(loops))
    strides = [
        value for axis in reversed((*missing, *loops)) for value in (axis.extent, *axis.strides[:2])
    ]
    kernel = TileProduct(
        in_type=tile.in_type,
        out_type=tile.out_type,
        b_adjacent=is_adjacent,
        copies=True,
        a_adjacent=a_adjacent,
    )
    _, b_n, c_n = axes.columns.strides
    arguments = (rows, columns, *strides, b_n, c_n, int(not tile.from_zero), piece, a_piece)
    call = Call(
        kernel=kernel,
        operands=(*operands, room),
        arguments=(*arguments, *_STILL, *_STILL, axes.lanes.strides[0], 0, 0),
    )
    return settled(call)


def _are_many(products: int, steps: int, tile: ContractionTile, axes: GemmAxes) -> bool:
    """True where the registers are worth configuring for the call with the loop that it takes."""
    if products >= _LEAST_PRODUCTS:
        return True
    turns = tile.turns
    if axes.loops:
        a, b, c = axes.loops[-1].strides
        turns = axes.loops[-1].extent if c and bool(a) != bool(b) else 1
    is_enough = products >= _LEAST_OF_A_TURN and products * turns >= _LEAST_OF_ALL_TURNS
    return is_enough and steps >= _LEAST_STEPS


def _joined(reductions: tuple[TileAxis, ...]) -> tuple[tuple[TileAxis, ...], int, int]:
    """The reductions as B has them, the steps of a piece of A, and how far its pieces are apart.

    Where B goes on from one run of k to the next, its steps are not padded: a run of A has pieces.
    """
    *outer, k = reductions
    if not outer or k.extent % 2 or k.extent % GROUP_STEPS == 0:
        return reductions, k.extent, 0
    batch = outer[-1]
    if batch.strides[1] != k.extent * k.strides[1]:
        return reductions, k.extent, 0
    run = TileAxis(batch.extent * k.extent, k.strides)
    if batch.strides[0] == k.extent * k.strides[0]:
        return (*outer[:-1], run), run.extent, 0
    return (*outer[:-1], run), k.extent, batch.strides[0]


def settled(call: Call) -> Call:
    """The call with what follows from its extents: whether columns are copied, and how many."""
    assert isinstance(call.kernel, TileProduct)
    _, n, k, _, _, batch, _, _, outer = call.arguments[:9]
    row_tiles, column_tiles = _row_tiles(call), call.arguments[19] * -(-n // TILE_SIDE)
    groups = batch * outer * ceil(k / GROUP_STEPS)
    is_whole = call.kernel.b_adjacent and k % GROUP_STEPS == 0
    is_far = column_tiles * groups * TILE_BYTES >= _FAR_BYTES
    copies = not is_whole or row_tiles > (_FEW_FAR_TILES if is_far else _FEW_TILES)
    most = most_packed(batch * outer, k, _MOST_ROOM_BYTES) if copies else column_tiles + 1
    if groups <= _NEAR_GROUPS or row_tiles <= _FEW_NEAR_TILES:
        near = max(_COLUMNS_PER_ROW * row_tiles, _NEAR_BYTES // (groups * TILE_BYTES))
        most = min(most, max(2, near))
    is_wide = k >= GROUP_STEPS and row_tiles >= _WIDE_ROWS
    is_long = (k >= _LEAST_OF_STRIP or is_wide) and call.arguments[14] == k
    if column_tiles == 1 and groups * row_tiles * TILE_BYTES <= _FAR_BYTES:
        is_long = False
    rows = _rows(row_tiles, column_tiles, groups, most if is_long else 0)
    if rows is TileRows.NEAR:
        most = min(most, max(2, _COLUMNS_OF_KEPT_ROWS_BYTES // (groups * TILE_BYTES)))
    chunks = ceil(column_tiles / (most // 2 * 2))
    packed = 2 * ceil(column_tiles / (2 * chunks))
    packs_pairs = not call.kernel.a_adjacent and not is_long
    asks = copies and groups >= _LEAST_GROUPS_TO_ASK
    kernel = replace(call.kernel, copies=copies, rows=rows, packs_pairs=packs_pairs, asks=asks)
    strip = _strip(kernel, groups)
    return replace(call, kernel=kernel, arguments=(*call.arguments[:-2], strip, packed))


def _rows(row_tiles: int, column_tiles: int, groups: int, most: int) -> TileRows:
    """How rows and columns of so many tiles meet, ``most`` of columns being copied together.

    0 of them: rows are not worth keeping for the next ones.
    """
    rows_bytes = groups * row_tiles * TILE_BYTES
    if min(row_tiles, column_tiles) > 2 and rows_bytes <= _KEPT_BYTES:
        return TileRows.NEAR
    is_met_again = 0 < most < column_tiles
    return TileRows.FAR if is_met_again and rows_bytes <= _FAR_ROWS_BYTES else TileRows.PASSING


def _strip(kernel: TileProduct, groups: int) -> int:
    """Tiles of rows that are interleaved together."""
    if kernel.a_adjacent or kernel.packs_pairs:
        return 2
    if kernel.keeps_rows:
        return _STRIP_TILES
    return 2 * max(1, min(_STRIP_TILES, _STRIP_BYTES // (groups * TILE_BYTES)) // 2)


def tile_product_room(call: Call) -> int:
    """Bytes of the room of a call of a `TileProduct`."""
    assert isinstance(call.kernel, TileProduct)
    k, batch, outer = call.arguments[2:9:3]
    tiles = _row_tiles(call) if call.kernel.keeps_rows else call.arguments[-2]
    packed = call.arguments[-1] if call.kernel.copies else 0
    return room_bytes(batch * outer, k, packed, -(-tiles // 2))


def _row_tiles(call: Call) -> int:
    return call.arguments[16] * -(-call.arguments[0] // TILE_SIDE)
