"""Panels of packed rows: how high they are, and when short rows are worth putting side by side."""

from __future__ import annotations

import msgspec

from teir.dtypes import DataType
from teir.search.machine import Machine
from teir.search.packing import following
from teir.search.pair_panels import PAIR_PANEL, are_short_pairs, pair_panel, pair_runs
from teir.search.shape import ProductShape, extent_of
from teir.search.tile_registers import are_tiles, tile_panel, tile_rows
from teir.target import LEAST_COLUMNS_IN_PARTS

_LONGEST_PANEL = 24
"""Vectors of a panel of rows that follow one another: a step along it stays within a page."""
_RUN_COST = 3.0
_MOVE_COST = 0.7
"""What packing a run of a row, and an element of it, takes, in multiply-adds of a vector."""
_FAR = 4
"""Sizes of the second cache from which an output leaves the caches before it is read."""
_SHORT_RUN_BYTES = 128
_RUN_OF_OUTPUT = 56.0
"""Multiply-adds of a vector in whose time a run of such an output more is written."""
_MOST_DEPTH = 128
_LOW_VECTORS = 2
_SAVED_BY_HEIGHT = 0.08
"""The part of their products that rows of so few vectors lose when they are read where they lie."""
_PAIR_COLUMN = 2.4
"""Multiply-adds of BF16 pairs in whose time two factors of B meet and are spread."""
_LOW_PAIR = 0.07
_PLAIN = (DataType.FP32, DataType.FP64)
_COLUMNS_OF_THREE = range(7, 10)
"""Columns, an outer axis of more beside them, for which panels of three vectors take 0.94 of the
time of those of four (Golden Cove, a product of 128 rows and 416 columns)."""
_TALL_IN_FEW_REGISTERS = {DataType.FP32: 1.2, DataType.FP64: 1.3}
_TALL_SIZES, _TALL_COLUMN_BYTES = 4, 4096
"""What panels of several register blocks take where there are few registers, in the time of panels
of one, if they fill the first cache so many times: a block reads parts of lines, far from each
other. And bytes of a column of their reduction blocks, at most. Zen 3, class b."""
_ODD_VECTOR = 0.25
_THREE_VECTORS = 0.5
"""What complex panels of two vectors, of a vector left over and of three take beyond their vectors
where rows are copied in parts (`teir.lower.parts`), in vectors of high panels."""


def panel_of(shape: ProductShape, machine: Machine) -> int:
    """Rows of a packed panel: three or four vectors, whichever cuts the rows with less waste; two
    or three where there are few registers.

    Where both do as well, the one that leaves a higher last panel. Of BF16 fewer panels,
    in each of which every column waits for its factors; one lower than a vector waits longest.
    Four vectors where rows are copied in parts, pair by pair.
    """
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    rows = 1 if shape.m is None else shape.m.extent
    if shape.m is not None:
        run, count = _rows_of_panel(shape, machine)
        if count > 1:
            return count * run.rows
    if are_tiles(shape, machine) and machine.threads == 1:
        return tile_panel(rows)
    if are_short_pairs(shape, machine) and rows >= PAIR_PANEL:
        return pair_panel(rows)
    if rows <= machine.highest_block * lanes:
        return rows
    if _are_parts(shape, machine):
        return 4 * lanes

    if suit_three_vectors(shape, machine):
        return 3 * lanes
    is_pairs = shape.a.data_type is DataType.BF16

    def cost(panel: int) -> tuple[int, int, int]:
        """What waiting takes, what is wasted, then how low the last panel is."""
        is_low = 0 < rows % panel < lanes
        waits = -(-rows // panel) + 2 * is_low if is_pairs else 0
        return waits, -rows % panel, -(rows % panel)

    return min((vectors * lanes for vectors in machine.panel_heights), key=cost)


def suit_three_vectors(shape: ProductShape, machine: Machine) -> bool:
    """True for columns that one register block of three vectors takes, and two of four."""
    if shape.n is None or not shape.n_outer or machine.has_few_registers:
        return False
    return (
        shape.a.data_type in _PLAIN
        and shape.n.extent in _COLUMNS_OF_THREE
        and extent_of(shape.k) > _MOST_DEPTH
    )


class _Run(msgspec.Struct, frozen=True, gc=False):
    """``outer`` times ``rows`` that follow one another in the output, ``around`` times."""

    rows: int
    outer: int
    around: int


def _runs(shape: ProductShape, most: int) -> list[_Run]:
    """What panels are cut from, each axis of outer rows whole in the next; ``most`` rows fit one.

    The first is the innermost axis, whatever fits.
    """
    assert shape.m is not None
    around = extent_of(shape.m_outer)
    runs: list[_Run] = []
    for axis, inside in following(shape.m_outer, shape.m, shape.out.name):
        if runs and 2 * inside > most:
            break
        around //= axis.extent
        runs.append(_Run(inside, axis.extent, around))
    return runs


def _rows_of_panel(shape: ProductShape, machine: Machine) -> tuple[_Run, int]:
    """What a panel is cut from, and how many of its outer rows make one with the fewest vectors; 1
    for none."""
    assert shape.m is not None
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    longest = _LONGEST_PANEL * lanes
    runs = _runs(shape, longest)
    if not runs:
        return _Run(shape.m.extent, 1, 1), 1
    first = runs[0]
    if are_tiles(shape, machine) and machine.threads == 1:
        return first, tile_rows(first.rows, first.outer)
    if are_short_pairs(shape, machine) and pair_runs(first.rows, first.outer) > 1:
        return first, pair_runs(first.rows, first.outer)
    are_parts = _are_parts(shape, machine)
    tallest, tall_takes = _tall_panels(shape, machine) or (longest, 1.0)

    def worth(panel: tuple[_Run, int]) -> tuple[float, bool, int]:
        run, count = panel
        vectors = run.around * _vectors(run.outer, run.rows, count, lanes, are_parts)
        if count > 1 and count * run.rows > tallest:
            vectors *= tall_takes
        return vectors, count * run.rows < 3 * lanes, count * run.rows

    panels = [
        (run, count)
        for run in runs
        for count in range(1, min(run.outer, max(1, longest // run.rows)) + 1)
    ]
    return min(panels, key=worth)


def _tall_panels(shape: ProductShape, machine: Machine) -> tuple[int, float] | None:
    """The most rows of a panel that the first caches hold at this depth, and what higher ones take;
    None where that does not matter."""
    kind = shape.a.data_type
    takes = _TALL_IN_FEW_REGISTERS.get(kind)
    if takes is None or not machine.has_few_registers:
        return None
    column_bytes = min(extent_of(shape.k) * kind.width, _TALL_COLUMN_BYTES)
    return _TALL_SIZES * machine.l1_bytes // column_bytes, takes


def _are_parts(shape: ProductShape, machine: Machine) -> bool:
    """True where register blocks read rows in parts, as far as types and extents say."""
    is_complex = shape.a.data_type.is_complex and shape.out.data_type.is_complex
    columns = 1 if shape.n is None else shape.n.extent
    return machine.multiplies_twice and is_complex and columns >= LEAST_COLUMNS_IN_PARTS


def _vectors(outer: int, rows: int, count: int, lanes: int, are_parts: bool) -> float:
    """Vectors of ``outer`` rows of ``rows``, ``count`` of which lie side by side."""
    whole, left = divmod(outer, count)
    high, low = -(-count * rows // lanes), -(-left * rows // lanes)
    if not are_parts:
        return whole * high + low
    return whole * _height_in_parts(high) + _height_in_parts(low)


def _height_in_parts(vectors: int) -> float:
    """The time of a panel in vectors of high panels."""
    if vectors == 3:
        return vectors + _THREE_VECTORS
    is_low = vectors % 4 // 2
    return vectors + _LOW_PAIR * is_low + _ODD_VECTOR * (vectors % 2)


def gains_by_following(shape: ProductShape, machine: Machine) -> bool:
    """True where full vectors, and higher panels, save more than packing costs.

    Low panels of BF16 wait for the factors of B, which cost a column the same at any height.
    """
    assert shape.m is not None
    run, count = _rows_of_panel(shape, machine)
    if count == 1:
        return False
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    rows = shape.m.extent
    outer = run.outer * run.rows // rows
    are_parts = _are_parts(shape, machine)
    before = _vectors(outer, rows, 1, lanes, are_parts)
    after = _vectors(run.outer, run.rows, count, lanes, are_parts)
    cost = outer * (_RUN_COST + _MOVE_COST * rows)
    if shape.a.data_type is not DataType.BF16:
        products: float = (before - after) * shape.columns
        if rows <= _LOW_VECTORS * lanes:
            products += _SAVED_BY_HEIGHT * before * shape.columns
        runs_less = outer - -(-run.outer // count)
        return products + _saved_by_long_runs(shape, machine, runs_less) > cost
    saved = before * _pair_cost(rows, lanes) - after * _pair_cost(count * run.rows, lanes)
    return saved * shape.columns > 2 * cost


def _saved_by_long_runs(shape: ProductShape, machine: Machine, runs_less: int) -> float:
    """What a product saves per step of the sum where so many runs of the output less are written.

    Only of outputs that leave the caches, and of runs of a few lines.
    """
    assert shape.m is not None
    rows = shape.m.extent
    width = shape.out.data_type.width
    depth = extent_of(shape.k)
    is_far = shape.rows * shape.columns * extent_of(shape.c) * width >= _FAR * machine.l2_bytes
    if not is_far or rows * width > _SHORT_RUN_BYTES or depth > _MOST_DEPTH:
        return 0.0
    return runs_less * shape.columns * _RUN_OF_OUTPUT / depth


def _pair_cost(rows: int, lanes: int) -> float:
    """The time of one vector of a panel of ``rows``, two steps at once, in multiply-adds."""
    return max(1.0, _PAIR_COLUMN * lanes / rows)
