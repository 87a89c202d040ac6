"""Choice of register blocks: how an M x N tile is cut into blocks of vectors x columns.

A block of ``vectors`` times ``columns`` accumulators must leave room for the vectors of A and a
broadcast, and should hold at least eight independent chains to hide the latency of the fused
multiply-add. Sizes of neighbouring blocks differ by at most one, so that a tile needs few kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import gcd

import msgspec

from teir.dtypes import DataType
from teir.lower.block_shapes import block_shapes, is_fixed, part_shapes
from teir.lower.contraction_tile import ContractionTile
from teir.lower.panel_lines import PanelWalk
from teir.target import PAGE_BYTES, Isa

_CHAINS = 8
_CALL_COST = 10
"""Cost of one more block call, in fused multiply-adds of one vector."""
_IN_FLIGHT = 12
"""A block's loads and stores of C hide behind the next block's products while they are few.

The cost of ``p`` accumulators was measured as p * p / 12 from 12 to 27 of them: the more there
are, the less of the next block fits into the processor's queues.
"""
_IN_FLIGHT_OF_PAIRS = 36
"""As above of BF16 results that stay in the caches: half as many bytes, and fewer loads beside.
Drawn contractions of less than a millisecond take 0.94 of the time so (Zen 4), those whose results
come from memory 1.03."""
_NEAR_BYTES = 24 << 10
"""Tiles up to this size stay in the first-level cache while their blocks run."""
_RUN_COST = 0.5
_LONG_RUN = 5
_SOME_COLUMNS = 3
"""Where few products make a result, the runs of C that blocks read and write cost: each crosses one
more line. Runs of so many vectors are long enough, and gain nothing where a block has fewer
columns."""
_PAIR_COLUMN = 2.4
"""Multiply-adds in whose time two factors of BF16 meet and are spread (`flushes`)."""
_LOAD_IN_PARTS = 0.2
"""Complex products in whose time a vector of A or a number of B is loaded beside them, measured on
Golden Cove: blocks of 4 x 6 reach 90 % of the peak, 2 x 13 81 %."""
_LINES_PER_SET = 8
_CROWDED_SETS = 2
"""Sets so few that the columns of a register block would not all stay."""
_LINE_AT_TWICE = 3
"""Cost of a line from beyond the first cache where two multiply-adds are done a cycle, in those:
the line takes as long as elsewhere. Tiles of deep sums lose a tenth where it counts for one."""
_SCATTERED = 5
_STREAMS = 3.5
"""Cost of a line of B, which lies in short runs, in lines of A, which are read in order; and where
the factors of every column are a run. Measured on Zen 5, FP64: as cheap as that, three products of
class b took 0.88 to 0.95 of the time of counting five for both; with three, those of section 5.3
1.03."""


_PARTIAL_STORE = 12
"""Multiply-adds in whose time a part of a vector is stored where `BlockedTile.may_overlap`."""
_LOW = 2
"""Vectors of a block that low panels have, and that overlap where higher ones were better.

Blocks of one vector in place of one of three, the last in part, took up to 1.8 times as long."""
NARROW_DEPTH = 64
_NARROW_COLUMNS = 16
"""Products per result, and columns, from which on blocks of their own for a few rows pay."""


class Cut(msgspec.Struct, frozen=True, gc=False):
    """``count`` equal pieces of ``size`` units each, the first starting at unit ``start``."""

    start: int
    size: int
    count: int


class Blocking(msgspec.Struct, frozen=True, gc=False):
    """How a tile is cut: lanes of a vector, pieces of M in vectors, pieces of N in columns.

    ``last_lanes`` is the number of lanes of the last vector that exist. ``overlaps``: the last
    block is whole and begins earlier, rows of the one before it are formed once more.
    """

    lanes: int
    rows: tuple[Cut, ...]
    columns: tuple[Cut, ...]
    last_lanes: int
    overlaps: bool = False

    @property
    def total_rows(self) -> int:
        last = self.rows[-1]
        return (last.start + last.count * last.size - 1) * self.lanes + self.last_lanes


def full_lanes(isa: Isa, in_type: DataType, out_type: DataType) -> int:
    """Elements of one full vector of accumulators."""
    width = max(in_type.accumulator.width, out_type.accumulator.width)
    return max(1, isa.vector_bytes // width)


def most_columns(column_stride_bytes: int) -> int | None:
    """Columns of B a block may read side by side; None for as many as it likes.

    Columns whole or half pages apart share one or two sets of the first-level cache, which hold
    eight lines each; two are left to A and C.
    """
    if column_stride_bytes == 0:
        return None
    sets = PAGE_BYTES // gcd(column_stride_bytes, PAGE_BYTES)
    return sets * (_LINES_PER_SET - 2) if sets <= _CROWDED_SETS else None


class BlockedTile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A ``rows`` x ``columns`` tile reduced over ``depth`` products, which is to be cut in blocks.

    No block has more than ``most_columns``; with ``parts`` as `GemmBlock` blocks have pairs of
    vectors, but for a vector left over. ``a_step_bytes``: from one step of the sum to the next in
    rows of A that are adjacent, else 0. ``results_far``: they are written to memory.
    ``b_goes_on``: the factors of a column are adjacent along the sum. ``may_overlap``: rows may be
    formed and written twice.
    """

    rows: int
    columns: int
    depth: int
    in_type: DataType
    out_type: DataType
    most_columns: int | None = None
    flushes: bool = False
    parts: bool = False
    a_step_bytes: int = 0
    results_far: bool = True
    b_goes_on: bool = False
    may_overlap: bool = False

    @property
    def depth_bytes(self) -> int:
        return self.depth * self.in_type.width


class _Steps(msgspec.Struct, frozen=True, gc=False):
    """The steps of a block: how many, and what their parts cost.

    ``column_cost`` is what a column takes per step before its factor is in a register.
    ``loads_show``: loads of A and B take their time beside the multiply-adds. Measured on Golden
    Cove with every block of 100 tiles: blocks of 10 to 12 accumulators lose a tenth to a fifth.
    ``in_flight``: see `_IN_FLIGHT`. ``parts`` as in `BlockedTile`.
    """

    depth: int
    column_cost: float
    loads_show: bool
    parts: bool
    in_flight: int

    def cost(self, height: int, width: int) -> float:
        products = height * width
        if self.parts:
            loads = _LOAD_IN_PARTS * (height + 2 * width)
            return self.depth * max(products + loads, _CHAINS)
        if self.loads_show:
            return self.depth * max(products + height + width, _CHAINS)
        return self.depth * max(products, height + width, _CHAINS, self.column_cost * width)


@cache
def choose_blocking(tile: BlockedTile, isa: Isa) -> Blocking:
    """The cheapest blocking of ``tile``.

    The cost of a block per reduction step is the largest of its multiply-adds, its loads and the
    latency bound; each call adds what starts and ends it. Where loads are no faster than
    multiply-adds, they do not hide: a step costs both.
    """
    lanes = _lanes_for(tile.rows, full_lanes(isa, tile.in_type, tile.out_type))
    vectors = -(-tile.rows // lanes)
    is_partial, cost = tile.rows % lanes > 0, _BlockingCost(tile, lanes, vectors, _steps(tile, isa))
    height, width = min(_shapes(tile, isa, vectors, masked=is_partial), key=cost.of)
    overlaps = False
    if tile.may_overlap and is_partial and tile.rows // lanes >= min(height, _LOW):
        others = _overlapping(tile, isa, min(height, _LOW), tile.rows // lanes)
        best = min(others, key=cost.of)
        overlaps = cost.of(best) <= cost.of((height, width)) + _PARTIAL_STORE * tile.columns
        height, width = best if overlaps else (height, width)
    return Blocking(
        lanes,
        tuple(_cuts_in_pairs(vectors, height) if tile.parts else _even_cuts(vectors, height)),
        tuple(_even_cuts(tile.columns, width)),
        tile.rows - (vectors - 1) * lanes,
        overlaps,
    )


def may_overlap(tile: ContractionTile, isa: Isa) -> bool:
    """True for plain sums where storing a part of a vector takes long.

    Zen 3 takes a dozen cycles for every such store: 33 by 33 by 33 in FP32 0.73 of the time.
    """
    is_plain = tile.in_type is tile.out_type and tile.in_type in (DataType.FP32, DataType.FP64)
    return isa.has_masks_among_vectors and is_plain and not tile.flushes


def narrow_rest(tile: BlockedTile, isa: Isa) -> int:
    """The rows that fill at most half of the last vector where vectors as narrow as they are take
    less time: two of those are multiplied while one whole vector is. 0 elsewhere.

    Measured on Zen 4, 102 columns: 49 rows in 0.92 of the time, sums of 640 products.
    """
    lanes = full_lanes(isa, tile.in_type, tile.out_type)
    rest = tile.rows % lanes
    is_long = tile.depth >= NARROW_DEPTH and tile.columns >= _NARROW_COLUMNS
    is_narrow = isa.multiplies_narrow_sooner and rest < tile.rows and 2 * rest <= lanes
    return rest if is_narrow and is_long else 0


def _steps(tile: BlockedTile, isa: Isa) -> _Steps:
    is_twice = isa.multiplies_twice_a_cycle and tile.in_type in (DataType.FP32, DataType.FP64)
    in_flight = _IN_FLIGHT_OF_PAIRS if tile.flushes and not tile.results_far else _IN_FLIGHT
    column_cost = _PAIR_COLUMN if tile.flushes else 1.0
    return _Steps(tile.depth, column_cost, is_twice, tile.parts, in_flight)


def _shapes(tile: BlockedTile, isa: Isa, vectors: int, masked: bool) -> Iterator[tuple[int, int]]:
    """Blocks, in vectors and columns, that the tile has room for."""
    types = (tile.in_type, tile.out_type)
    widest = min(tile.columns, tile.columns if tile.most_columns is None else tile.most_columns)
    shapes = part_shapes(isa) if tile.parts else block_shapes(isa, *types, tile.flushes, masked)
    for height, width in shapes:
        if height <= vectors and width <= widest:
            yield height, width


def _overlapping(
    tile: BlockedTile, isa: Isa, lowest: int, highest: int
) -> Iterator[tuple[int, int]]:
    """Blocks of whole vectors alone; high ones as where there is a mask."""
    masked = block_shapes(isa, tile.in_type, tile.out_type, masked=True)
    for height, width in _shapes(tile, isa, highest, masked=False):
        if height >= lowest and (height <= _LOW or (height, width) in masked):
            yield height, width


class _BlockingCost(msgspec.Struct, frozen=True, gc=False):
    """What a tile costs in blocks of one shape, in multiply-adds of one vector."""

    tile: BlockedTile
    lanes: int
    vectors: int
    steps: _Steps

    def of(self, shape: tuple[int, int]) -> float:
        tile, (height, width) = self.tile, shape
        formed = self.vectors - (self.vectors % 2 if tile.parts else 0)
        cost = _cost(formed, tile.columns, height, width, self.steps)
        if (tile.rows + tile.columns) * tile.depth_bytes > _NEAR_BYTES:
            cost += self._reading(height, width)
        if is_fixed(tile.depth):
            run = min(height, _LONG_RUN if width >= _SOME_COLUMNS else 1)
            cost += _RUN_COST * tile.columns * -(-self.vectors // run)
        return cost

    def _reading(self, height: int, width: int) -> float:
        """What lines from beyond the first cache cost."""
        tile = self.tile
        if self.steps.loads_show and tile.a_step_bytes > 0:
            walk = PanelWalk(tile.depth, tile.a_step_bytes, tile.in_type.width)
            return walk.cost(_pieces(self.vectors, height), _pieces(tile.columns, width))
        line = _LINE_AT_TWICE if self.steps.loads_show else 1
        return line * _traffic(tile, height * self.lanes, width)


def _traffic(tile: BlockedTile, block_rows: int, block_columns: int) -> float:
    """What reading A once per column of blocks, and B once per row of blocks, costs beyond L1."""
    passes_a = -(-tile.columns // block_columns)
    passes_b = -(-tile.rows // block_rows)
    lines = tile.depth_bytes / 64
    line_of_b = _STREAMS if tile.b_goes_on else _SCATTERED
    return lines * (tile.rows * passes_a + line_of_b * tile.columns * passes_b)


def _lanes_for(rows: int, full: int) -> int:
    lanes = full
    while lanes > 1 and lanes // 2 >= rows:
        lanes //= 2
    return lanes


def _cost(vectors: int, columns: int, height: int, width: int, steps: _Steps) -> float:
    total = 0.0
    for tall in _even_cuts(vectors, height):
        for wide in _even_cuts(columns, width):
            products = tall.size * wide.size
            ends = _CALL_COST + products * products / steps.in_flight
            total += tall.count * wide.count * (steps.cost(tall.size, wide.size) + ends)
    return total


def _pieces(length: int, largest: int) -> list[tuple[int, int]]:
    return [(cut.size, cut.count) for cut in _even_cuts(length, largest)]


def _cuts_in_pairs(vectors: int, height: int) -> Iterator[Cut]:
    for cut in _even_cuts(vectors // 2, height // 2):
        yield Cut(2 * cut.start, 2 * cut.size, cut.count)
    if vectors % 2:
        yield Cut(vectors - 1, 1, 1)


def _even_cuts(length: int, largest: int) -> Iterator[Cut]:
    pieces = -(-length // largest)
    size, longer = divmod(length, pieces)
    if longer:
        yield Cut(0, size + 1, longer)
    yield Cut(longer * (size + 1), size, pieces - longer)
