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
from teir.lower.block_shapes import block_shapes, holds_depth, part_shapes
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
"""Cost of a line of B, which lies in short runs, in lines of A, which are read in order."""


class Cut(msgspec.Struct, frozen=True, gc=False):
    """``count`` equal pieces of ``size`` units each, the first starting at unit ``start``."""

    start: int
    size: int
    count: int


class Blocking(msgspec.Struct, frozen=True, gc=False):
    """How a tile is cut: lanes of a vector, pieces of M in vectors, pieces of N in columns.

    ``last_lanes`` is the number of lanes of the last vector that exist.
    """

    lanes: int
    rows: tuple[Cut, ...]
    columns: tuple[Cut, ...]
    last_lanes: int


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


@cache
def choose_blocking(
    rows: int,
    columns: int,
    depth: int,
    isa: Isa,
    in_type: DataType,
    out_type: DataType,
    most: int | None = None,
    flushes: bool = False,
    parts: bool = False,
    a_step_bytes: int = 0,
) -> Blocking:
    """The cheapest blocking of a ``rows`` x ``columns`` tile reduced over ``depth`` products.

    No block has more than ``most`` columns; with ``parts`` as `GemmBlock` blocks have pairs of
    vectors, but for a vector left over. ``a_step_bytes``: from one step of the sum to the next in
    rows of A that are adjacent, else 0. The cost of a block per reduction step is the largest
    of its multiply-adds, its loads and the latency bound; each call adds what starts and ends it.
    Where loads are no faster than multiply-adds, they do not hide: a step costs both.
    """
    lanes = _lanes_for(rows, full_lanes(isa, in_type, out_type))
    vectors = -(-rows // lanes)
    tile = _TileBytes(rows, columns, depth * in_type.width)
    streams = (rows + columns) * tile.depth_bytes > _NEAR_BYTES
    steps = _Steps(
        depth,
        _PAIR_COLUMN if flushes else 1.0,
        isa.multiplies_twice_a_cycle and in_type in (DataType.FP32, DataType.FP64),
        parts,
    )
    walk = PanelWalk(depth, a_step_bytes, in_type.width) if a_step_bytes > 0 else None
    best: tuple[float, int, int] | None = None
    masked = rows % lanes > 0
    shapes = part_shapes(isa) if parts else block_shapes(isa, in_type, out_type, flushes, masked)
    for height, width in shapes:
        if height > vectors or width > columns or (most is not None and width > most):
            continue
        cost = _cost(vectors - (vectors % 2 if parts else 0), columns, height, width, steps)
        if streams and steps.loads_show and walk is not None:
            cost += walk.cost(_pieces(vectors, height), _pieces(columns, width))
        elif streams:
            line = _LINE_AT_TWICE if steps.loads_show else 1
            cost += line * _traffic(tile, height * lanes, width)
        if holds_depth(1, 1, depth):
            run = min(height, _LONG_RUN if width >= _SOME_COLUMNS else 1)
            cost += _RUN_COST * columns * -(-vectors // run)
        if best is None or cost < best[0]:
            best = (cost, height, width)
    assert best is not None
    _, height, width = best
    return Blocking(
        lanes,
        tuple(_cuts_in_pairs(vectors, height) if parts else _even_cuts(vectors, height)),
        tuple(_even_cuts(columns, width)),
        rows - (vectors - 1) * lanes,
    )


class _TileBytes(msgspec.Struct, frozen=True, gc=False):
    rows: int
    columns: int
    depth_bytes: int


def _traffic(tile: _TileBytes, block_rows: int, block_columns: int) -> float:
    """What reading A once per column of blocks, and B once per row of blocks, costs beyond L1."""
    passes_a = -(-tile.columns // block_columns)
    passes_b = -(-tile.rows // block_rows)
    lines = tile.depth_bytes / 64
    return lines * (tile.rows * passes_a + _SCATTERED * tile.columns * passes_b)


def _lanes_for(rows: int, full: int) -> int:
    lanes = full
    while lanes > 1 and lanes // 2 >= rows:
        lanes //= 2
    return lanes


class _Steps(msgspec.Struct, frozen=True, gc=False):
    """The steps of a block: how many, and what their parts cost.

    ``column_cost`` is what a column takes per step before its factor is in a register.
    ``loads_show``: loads of A and B take their time beside the multiply-adds. Measured on Golden
    Cove with every block of 100 tiles: blocks of 10 to 12 accumulators lose a tenth to a fifth.
    ``parts`` as in `choose_blocking`.
    """

    depth: int
    column_cost: float
    loads_show: bool
    parts: bool

    def cost(self, height: int, width: int) -> float:
        products = height * width
        if self.parts:
            loads = _LOAD_IN_PARTS * (height + 2 * width)
            return self.depth * max(products + loads, _CHAINS)
        if self.loads_show:
            return self.depth * max(products + height + width, _CHAINS)
        return self.depth * max(products, height + width, _CHAINS, self.column_cost * width)


def _cost(vectors: int, columns: int, height: int, width: int, steps: _Steps) -> float:
    total = 0.0
    for tall in _even_cuts(vectors, height):
        for wide in _even_cuts(columns, width):
            products = tall.size * wide.size
            ends = _CALL_COST + products * products / _IN_FLIGHT
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
