"""Lowering of tiles of short BF16 sums to `PairBlock` calls; the rows left over are `GemmBlock`s.

96 rows and 12 columns -> one call: three blocks of 96 x 4, the same rows
24 rows in runs, four follow one another in A -> the same, rows of C in four runs
104 rows -> 64 of them so, the last 40 as other tiles: eight alone would take as long as 16
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.lower.axes import STILL, TileAxis, blocks_of, wrap_in_loops
from teir.lower.contraction_tile import ContractionTile
from teir.lower.gemm_axes import GemmAxes, in_order
from teir.lower.kernel_program import LONGEST_CALL, Address, Call, KernelNode
from teir.lower.kernels import PairBlock
from teir.passes.pair_rows import TWO_VECTORS, rows_left_over
from teir.target import Isa

_WIDTH = DataType.BF16.width
_HIGHEST = 3
"""Pairs of vectors of the highest block."""
_COLUMNS = {1: 12, 2: 6, 3: 4}
"""Columns of a block by its pairs of vectors: 24 sums."""
_ROW, _COLUMN = 0.6, 0.8
"""What interleaving a vector of A, and bringing the factors of a column, take beside products."""
_RUN_ROWS = 4
"""Rows of a run are stored so many at a time."""
_NEAR_BYTES = 24 << 10
"""A block's rows for all products of a sum, which stay in the first cache while columns meet them:
so few columns read them at a time that from the second cache they would not come fast enough."""
_FEWEST_COLUMNS = 4
"""Fewer that meet rows from memory take longer for every cut of the rows, which come in order."""
_MOST_REDUCTIONS = 2


class PairAxes(msgspec.Struct, frozen=True, gc=False):
    """The axes of a tile of pairs: ``rows`` in ``run.extent`` runs of C, which follow in A.

    ``rest``: rows left over, the last ones; none where there are runs.
    """

    rows: TileAxis
    run: TileAxis
    columns: TileAxis
    k: TileAxis
    batch: TileAxis
    loops: tuple[TileAxis, ...]
    swapped: bool
    rest: int

    @property
    def whole_rows(self) -> int:
        """Rows that fill pairs of vectors."""
        return self.rows.extent * self.run.extent - self.rest


def pair_axes(tile: ContractionTile, axes: GemmAxes, isa: Isa) -> PairAxes | None:
    """The axes `PairBlock` takes; None where `GemmBlock` does as well or must do."""
    is_pairs = tile.flushes and tile.in_type is tile.out_type is DataType.BF16
    if not is_pairs or isa is Isa.AMX or not isa.is_avx512:
        return None
    rows = axes.lanes
    if rows.strides[0] != _WIDTH or rows.strides[2] != _WIDTH:
        return None
    if axes.columns.extent < _FEWEST_COLUMNS or not 1 <= len(tile.reductions) <= _MOST_REDUCTIONS:
        return None
    *outer, k = [in_order(axis, axes.swapped) for axis in tile.reductions]
    run, loops = _runs(axes) if tile.from_zero else (STILL, axes.loops)
    rest = rows_left_over(rows.extent * run.extent)
    batch = outer[0] if outer else STILL
    found = PairAxes(rows, run, axes.columns, k, batch, loops, axes.swapped, rest)
    height = min(found.whole_rows, _HIGHEST * TWO_VECTORS)
    is_near = height * k.extent * batch.extent * _WIDTH <= _NEAR_BYTES
    return found if found.whole_rows and is_near else None


def _runs(axes: GemmAxes) -> tuple[TileAxis, tuple[TileAxis, ...]]:
    """The axis whose rows follow in A and fill pairs of vectors, and the loops around."""
    rows = axes.lanes
    count = TWO_VECTORS // gcd(rows.extent, TWO_VECTORS)
    if rows.extent % _RUN_ROWS or count == 1 or count * rows.extent > _HIGHEST * TWO_VECTORS:
        return STILL, axes.loops
    for axis in axes.loops:
        follows = axis.strides[0] == rows.extent * _WIDTH and not axis.strides[1]
        if follows and axis.extent % count == 0:
            others = tuple(one for one in axes.loops if one is not axis)
            panels = blocks_of(axis, axis.extent // count, count)
            around = (panels,) if panels.extent > 1 else ()
            return TileAxis(count, axis.strides), (*others, *around)
    return STILL, axes.loops


def lower_pair_blocks(tile: ContractionTile, axes: PairAxes) -> tuple[KernelNode, ...]:
    """Loops around `PairBlock` calls for the whole rows; those left over are `rest_of_rows`."""
    operands = _in_roles(tile, axes.swapped)
    pairs = axes.whole_rows // TWO_VECTORS
    highest = pairs if axes.run.extent > 1 else _height(pairs, axes.columns.extent)
    nodes: list[KernelNode] = []
    for start, size, count in _cuts(pairs, highest):
        body: list[KernelNode] = []
        for columns in _cuts(axes.columns.extent, _COLUMNS[size]):
            body += _calls(tile, axes, operands, (start * TWO_VECTORS, size), columns)
        panel = blocks_of(axes.rows, count, size * TWO_VECTORS)
        nodes += wrap_in_loops((panel,) if count > 1 else (), operands, tuple(body))
    return wrap_in_loops(axes.loops, operands, tuple(nodes))


def rest_of_rows(
    tile: ContractionTile, axes: PairAxes, chosen: GemmAxes
) -> tuple[ContractionTile, GemmAxes] | None:
    """The tile of the rows that fill no pair of vectors, and its axes; None without such rows."""
    if not axes.rest:
        return None
    strides = chosen.lanes.strides
    in_tile = (strides[1], strides[0], strides[2]) if axes.swapped else strides
    operands = tuple(
        Address(slot=one.slot, offset_bytes=one.offset_bytes + axes.whole_rows * stride)
        for one, stride in zip(tile.operands, in_tile, strict=True)
    )
    return replace(tile, operands=operands), replace(chosen, lanes=TileAxis(axes.rest, strides))


def _height(pairs: int, columns: int) -> int:
    """The pairs of vectors of the blocks that take the least time; high ones where several do."""

    def cost(highest: int) -> float:
        return sum(
            tall * wide * _step_cost(2 * height, width)
            for _, height, tall in _cuts(pairs, highest)
            for _, width, wide in _cuts(columns, _COLUMNS[height])
        )

    return min(range(min(_HIGHEST, pairs), 0, -1), key=cost)


def _step_cost(vectors: int, columns: int) -> float:
    """The time of two steps of a block, in products of a vector."""
    return vectors * columns + _ROW * vectors + _COLUMN * columns


def _in_roles(tile: ContractionTile, swapped: bool) -> tuple[Address, ...]:
    first, second, output = tile.operands
    return (second, first, output) if swapped else tile.operands


def _cuts(length: int, largest: int) -> Iterator[tuple[int, int, int]]:
    """Start, size and number of pieces, sizes that differ by one at most, the larger ones first."""
    pieces = -(-length // largest)
    size, longer = divmod(length, pieces)
    if longer:
        yield 0, size + 1, longer
    yield longer * (size + 1), size, pieces - longer


def _calls(
    tile: ContractionTile,
    axes: PairAxes,
    operands: tuple[Address, ...],
    rows: tuple[int, int],
    columns: tuple[int, int, int],
) -> tuple[KernelNode, ...]:
    """The blocks of some columns: one call, or where that would take long one for each."""
    (row, pairs), (column, width, blocks) = rows, columns
    places = tuple(
        Address(slot=one.slot, offset_bytes=one.offset_bytes + m * row + n * column)
        for one, m, n in zip(operands, axes.rows.strides, axes.columns.strides, strict=True)
    )
    _, b_n, c_n = axes.columns.strides
    (a_k, b_k, _), (a_batch, b_batch, _) = axes.k.strides, axes.batch.strides
    kernel = PairBlock(
        vectors=2 * pairs,
        columns=width,
        runs=axes.run.extent,
        b_adjacent=b_k == _WIDTH,
        claims=tile.hints.prefetched[2] and tile.ahead[2] != 0,
        accumulates=not tile.from_zero,
    )
    depth = (axes.k.extent, axes.batch.extent)
    is_long = prod((blocks, kernel.rows, width, *depth)) > LONGEST_CALL
    sums = (axes.k.extent, a_k, b_k, axes.batch.extent, a_batch, b_batch)
    results = (b_n, c_n, axes.run.strides[2], tile.ahead[2])
    walk = (1 if is_long else blocks, width * b_n, width * c_n)
    call = Call(kernel=kernel, operands=places, arguments=(*sums, *results, *walk))
    each = blocks_of(axes.columns, blocks, width)
    return wrap_in_loops((each,) if is_long else (), operands, (call,))
