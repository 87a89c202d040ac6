"""Lowering of GEMM-shaped tiles to `PanelBlock` calls: exact last vectors, runs, memory hints.

Taken where a `GemmBlock` would mask half a vector, where short rows of C are adjacent in a packed
A (24 rows are one and a half vectors, two times 24 are three), and where the program gives advice
about memory. One reduction loop, FP32 and FP64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from math import gcd
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.lower.asked_in_passing import Share, asking_blocks, asking_columns, shares
from teir.lower.axes import STILL, TileAxis, blocks_of, wrap_in_loops
from teir.lower.block_shapes import is_fixed
from teir.lower.blocking import full_lanes
from teir.lower.columns_in_a_row import STAGGERED, follow_in_a_row
from teir.lower.contraction_tile import ContractionTile
from teir.lower.dot_rows import STREAMED_BYTES
from teir.lower.gemm_axes import GemmAxes
from teir.lower.kernel_program import LONGEST_CALL, Address, Call, KernelNode, Loop
from teir.lower.kernels import PanelBlock
from teir.lower.near_panels import Panel, near_parts
from teir.lower.panel_cuts import TALLEST, PanelCut, block_rows, column_cuts, one_by_one, row_cuts
from teir.lower.turned_runs import Turned, TurnedRuns
from teir.target import ARRAY_START_BYTES, MANY_REGISTERS, Isa

_TYPES = (DataType.FP32, DataType.FP64)
_WHOLE_ROWS = range(5, 9)
"""Vectors of rows of one column that `GemmBlock` takes whole, as they lie in a large matrix: half
the time of panels one after the other on Zen 4. Near ones took 0.76 to 1.3."""
_NARROWEST_BYTES = 16
"""The shortest last vector."""
_HIGHEST_ASKING = 4
"""Vectors of a block up to which registers are left for what it asks for in passing."""
_MOST_OF_SHORT_SUMS = 4
_FEW_PRODUCTS = 2
"""Vectors of rows, and products of sums from zero, up to which this kernel is as good where sums
are short. Measured on Zen 4: rows of more take 0.78 to 0.97 of the time in `GemmBlock`, sums of one
to six products (FP64; FP32 0.85 to 1.0)."""
_SLOT = attrgetter("slot")
_MOVE = attrgetter("slot", "stride_bytes")


class PanelAxes(msgspec.Struct, frozen=True, gc=False):
    """The axes of a tile of panels: rows of C in ``runs`` runs, then as in `GemmAxes`.

    ``rows`` is adjacent in A; ``run`` is the axis of the runs inside a block, extent 1 for none;
    ``panels`` the loop over the blocks that such runs make. ``in_a_row`` as `follow_in_a_row` says.
    """

    rows: TileAxis
    run: TileAxis
    panels: TileAxis
    columns: TileAxis
    k: TileAxis
    loops: tuple[TileAxis, ...]
    swapped: bool
    in_a_row: bool = False


def panel_axes(tile: ContractionTile, axes: GemmAxes, isa: Isa) -> PanelAxes | None:
    """The axes `PanelBlock` takes; None where `GemmBlock` does as well or must do."""
    is_plain = tile.in_type is tile.out_type and tile.in_type in _TYPES and isa.has_fma
    if not is_plain or len(tile.reductions) > 1:
        return None
    width = tile.in_type.width
    lanes = full_lanes(isa, tile.in_type, tile.out_type)
    rows = axes.lanes
    if rows.strides[0] != width or rows.strides[2] != width or rows.extent * width < 32:
        return None
    k = _reduction(tile, axes.swapped)
    if axes.columns.extent == 1 and _are_read_whole(tile, axes, k.extent, lanes):
        return None
    left, in_a_row = rows.extent % lanes, follow_in_a_row(tile, axes, isa)
    if left:
        run = _run_axis(axes, rows, lanes, isa)
        if run is not None:
            inside, panels = run
            others = tuple(axis for axis in axes.loops if axis.strides[0] != inside.strides[0])
            return PanelAxes(rows, inside, panels, axes.columns, k, others, axes.swapped)
        if rows.extent < lanes or left & (left - 1) or left * width < _NARROWEST_BYTES:
            return None
        if rows.extent > _MOST_OF_SHORT_SUMS * lanes and _are_short_sums(tile, k, isa):
            return None
    elif not in_a_row and (not _has_hints(tile) or _asks_for_both(tile, isa)):
        return None
    return PanelAxes(rows, STILL, STILL, axes.columns, k, axes.loops, axes.swapped, in_a_row)


def _has_hints(tile: ContractionTile) -> bool:
    return tile.hints.streams or any(tile.hints.prefetched)


def _are_read_whole(tile: ContractionTile, axes: GemmAxes, k: int, lanes: int) -> bool:
    """True for rows from memory of one block, of which each panel would take a part."""
    rows = axes.lanes.extent
    if axes.swapped or -(-rows // lanes) not in _WHOLE_ROWS:
        return False
    return rows * k * tile.tiles * tile.in_type.width >= STREAMED_BYTES


def _asks_for_both(tile: ContractionTile, isa: Isa) -> bool:
    """True where `GemmBlock` asks for each line of the next tile's inputs once, in passing.

    Here each panel would ask for all columns again: on Zen 4, 168 by 184 in FP64, a third of the
    processes took 1.2 times as long.
    """
    return isa.asks_in_passing and all(tile.hints.prefetched[:-1]) and all(tile.ahead[:-1])


def _are_short_sums(tile: ContractionTile, k: TileAxis, isa: Isa) -> bool:
    """True where blocks without a loop over the sum form the columns of one call one after another,
    which hides the results' way to and from memory better than many sums at once do."""
    is_asked = tile.hints.streams or any(tile.hints.prefetched)
    is_written_alone = tile.from_zero and k.extent <= _FEW_PRODUCTS
    return isa.is_avx512 and is_fixed(k.extent) and not (is_asked or is_written_alone)


def _reduction(tile: ContractionTile, swapped: bool) -> TileAxis:
    if not tile.reductions:
        return STILL
    (axis,) = tile.reductions
    first, second, _ = axis.strides
    return TileAxis(axis.extent, (second, first, 0) if swapped else (first, second, 0))


def _run_axis(
    axes: GemmAxes, rows: TileAxis, lanes: int, isa: Isa
) -> tuple[TileAxis, TileAxis] | None:
    """The axis whose rows follow in A, cut so that some of its runs fill up to four vectors.

    Three in few registers.
    """
    most = (4 if isa.vector_registers >= MANY_REGISTERS else TALLEST) * lanes
    for axis in axes.loops:
        if axis.strides[0] != rows.extent * rows.strides[0] or axis.strides[1]:
            continue
        runs = lanes // gcd(rows.extent, lanes)
        if axis.extent % runs == 0 and runs * rows.extent <= most:
            inside = TileAxis(runs, axis.strides)
            steps = tuple(stride * runs for stride in axis.strides)
            return inside, TileAxis(axis.extent // runs, steps)
    return None


def lower_panels(tile: ContractionTile, axes: PanelAxes, isa: Isa) -> tuple[KernelNode, ...]:
    """Loops around `PanelBlock` calls."""
    first, second, output = tile.operands
    operands = (second, first, output) if axes.swapped else tile.operands
    lanes = full_lanes(isa, tile.in_type, tile.out_type)
    total = axes.rows.extent * axes.run.extent
    is_few = isa.vector_registers < MANY_REGISTERS
    rows = row_cuts(total, lanes, axes.in_a_row if is_few else tile.hints.streams, isa)
    if isa.forgets_requests and _asks_near(tile, axes):
        near = _near_panels(tile, axes, operands, rows, isa)
        return wrap_in_loops(axes.loops, operands, near)
    nodes: list[KernelNode] = []
    for cut, share in _with_shares(tile, axes, rows, lanes, isa):
        block = blocks_of(axes.rows, cut.count, cut.size * lanes)
        columns = _columns_of(tile, axes, operands, cut, share, lanes, isa)
        nodes += _loop(block, operands, columns)
    panels = (axes.panels,) if axes.panels.extent > 1 else ()
    inner = wrap_in_loops(panels, operands, tuple(nodes))
    return wrap_in_loops(axes.loops, operands, inner)


def _asks_near(tile: ContractionTile, axes: PanelAxes) -> bool:
    """True where a panel asks for the next one instead of its own part of the next tile."""
    a_place, _ = _places(axes)
    asks = tile.hints.prefetched[a_place] and tile.ahead[a_place] != 0
    return asks and axes.run.extent == axes.panels.extent == 1


def _near_panels(
    tile: ContractionTile,
    axes: PanelAxes,
    operands: tuple[Address, ...],
    rows: Sequence[PanelCut],
    isa: Isa,
) -> tuple[KernelNode, ...]:
    """The panels one by one, each asking for the one that follows; see `near_parts`."""
    lanes, width = full_lanes(isa, tile.in_type, tile.out_type), tile.in_type.width
    a_place, _ = _places(axes)
    cuts = tuple(chain.from_iterable(map(one_by_one, rows)))
    panels = [Panel(cut.start * lanes * width, block_rows(cut, lanes) * width) for cut in cuts]
    k, k_strides = axes.k.extent, axes.k.strides
    nodes: list[KernelNode] = []
    ahead_bytes, is_whole = tile.ahead[a_place], tile.hints.streams
    for part in near_parts(panels, k, k_strides[0], ahead_bytes, is_whole):
        ahead = list(tile.ahead)
        ahead[a_place] = part.ahead_bytes
        if part.first + part.steps < k:
            ahead[2] = 0
        part_tile = replace(tile, ahead=tuple(ahead), from_zero=tile.from_zero and part.first == 0)
        moved = tuple(
            Address(slot=operand.slot, offset_bytes=operand.offset_bytes + part.first * stride)
            for operand, stride in zip(operands, k_strides, strict=True)
        )
        part_axes = replace(axes, k=TileAxis(part.steps, k_strides))
        cut = cuts[part.number]
        nodes += _columns_of(part_tile, part_axes, moved, cut, None, lanes, isa)
    return tuple(nodes)


def _columns_of(
    tile: ContractionTile,
    axes: PanelAxes,
    operands: tuple[Address, ...],
    rows: PanelCut,
    share: Share | None,
    lanes: int,
    isa: Isa,
) -> tuple[KernelNode, ...]:
    """All columns of the panels that ``rows`` are, with what the first of them ask for ahead."""
    nodes: list[KernelNode] = []
    most = axes.columns.extent
    if share is not None:
        most = asking_columns(rows.size, rows.last_lanes < lanes)
    cuts = column_cuts(axes.columns.extent, rows.size, isa, tile.in_type, most)
    for number, columns in enumerate(cuts):
        step = blocks_of(axes.columns, columns.count, columns.size)
        call = _call(tile, axes, operands, rows, columns, lanes, is_first=number == 0)
        asking = None if share is None else asking_blocks(call, step, share, LONGEST_CALL)
        nodes += _loop(step, operands, (call,)) if asking is None else (asking,)
    return tuple(nodes)


def _with_shares(
    tile: ContractionTile, axes: PanelAxes, rows: Sequence[PanelCut], lanes: int, isa: Isa
) -> Iterable[tuple[PanelCut, Share | None]]:
    """The panels one by one, each with what it asks for of the next tile's A; as they are, with
    nothing, where A is not asked for, and high ones, which have no register to spare."""
    together = zip(rows, repeat(None), strict=False)
    asks = isa.multiplies_twice_a_cycle and tile.hints.prefetched[_places(axes)[0]]
    if not asks or axes.run.extent > 1 or any(cut.size > _HIGHEST_ASKING for cut in rows):
        return together
    alone = tuple(chain.from_iterable(map(one_by_one, rows)))
    width = tile.in_type.width
    starts = [cut.start * lanes * width for cut in alone]
    asked = tuple(shares(axes.k.extent, axes.rows.extent * width, starts))
    return zip(alone, asked, strict=True) if asked else together


def blocks_of_loop(loop: Loop) -> Call | None:
    """The one call that does what a loop around a short block does; None for other loops.

    The processor begins the products of a block while it stores the one before, which no call
    between them holds up.
    """
    if len(loop.body) != 1 or loop.index is not None:
        return None
    (call,) = loop.body
    if not isinstance(call, Call) or not isinstance(call.kernel, PanelBlock):
        return None
    kernel, steps = call.kernel, dict(map(_MOVE, loop.steps))
    a, b, c = map(steps.get, map(_SLOT, call.operands), repeat(0))
    work = loop.extent * kernel.rows * kernel.columns * call.arguments[0]
    if a or not c or kernel.repeats or not kernel.staggers or work > LONGEST_CALL:
        return None
    joins = kernel.streams and kernel.dense_columns and c == kernel.columns * call.arguments[4]
    whole = replace(kernel, repeats=True, joins=joins, claims=kernel.claims and not joins)
    return msgspec.structs.replace(
        call, kernel=whole, arguments=(*call.arguments, loop.extent, b, c)
    )


def _loop(
    axis: TileAxis, operands: tuple[Address, ...], body: tuple[KernelNode, ...]
) -> tuple[KernelNode, ...]:
    if axis.extent == 1:
        return body
    (loop,) = wrap_in_loops((axis,), operands, body)
    assert isinstance(loop, Loop)
    return (blocks_of_loop(loop) or loop,)


def _turned(
    tile: ContractionTile, axes: PanelAxes, a_place: int, height: int, columns: int, lanes: int
) -> Turned | None:
    """Where the rows of a block of all rows lie once more, taken round as it needs."""
    turned, first = tile.turned[a_place], lanes - ARRAY_START_BYTES // tile.in_type.width
    if isinstance(turned, TurnedRuns):
        run_rows, runs = axes.rows.extent, axes.run.extent
        is_pair = runs == turned.runs.extent and 2 * run_rows == 3 * lanes and not columns % 2
        is_dense = axes.columns.strides[2] == run_rows * tile.in_type.width
        is_whole = height == runs * run_rows and axes.panels.extent == 1
        return turned if is_pair and is_dense and is_whole else None
    is_whole = axes.run.extent == 1 and axes.rows.extent == height and height % lanes == 0
    return turned if turned is not None and is_whole and 0 < first == turned.first else None


def _reads_ahead(tile: ContractionTile, axes: PanelAxes, columns: int) -> bool:
    """Of C that is asked for although caches hold it, true where it alone is: then they are far,
    and the columns of B, each a stream of its own along k, are asked for too; or the one stream
    that all ``columns`` of a block make."""
    width = tile.in_type.width
    is_dense = axes.columns.strides[1] == width and axes.k.strides[1] == columns * width
    is_stream = is_dense and columns == axes.columns.extent
    is_adjacent = axes.k.strides[1] == width or is_stream
    return is_adjacent and not any(tile.hints.prefetched[:-1])


def _call(
    tile: ContractionTile,
    axes: PanelAxes,
    operands: tuple[Address, ...],
    rows: PanelCut,
    columns: PanelCut,
    lanes: int,
    is_first: bool,
) -> Call:
    addresses = []
    row, column = rows.start * lanes, columns.start
    for address, m, n in zip(operands, axes.rows.strides, axes.columns.strides, strict=True):
        offset = address.offset_bytes + m * row + n * column
        addresses.append(Address(slot=address.slot, offset_bytes=offset))
    kernel, turned = _kernel(tile, axes, rows, columns, lanes, is_first)
    arguments = _arguments(tile, axes)
    if turned is not None:
        arguments = (*arguments, turned.distance_bytes)
    return Call(kernel=kernel, operands=tuple(addresses), arguments=arguments)


def _kernel(
    tile: ContractionTile,
    axes: PanelAxes,
    rows: PanelCut,
    columns: PanelCut,
    lanes: int,
    is_first: bool,
) -> tuple[PanelBlock, Turned | None]:
    """The kernel of a block, and where its rows lie once more if it takes them from there."""
    width = tile.in_type.width
    a_place, b_place = _places(axes)
    ahead, asked = tile.ahead, tile.hints.prefetched
    streams = tile.hints.streams and tile.from_zero
    claims = asked[2] and ahead[2] != 0 and not axes.in_a_row
    height = block_rows(rows, lanes)
    turned = _turned(tile, axes, a_place, height, columns.size, lanes) if streams else None
    kernel = PanelBlock(
        data_type=tile.in_type,
        lanes=lanes,
        last_lanes=rows.last_lanes,
        vectors=rows.size,
        columns=columns.size,
        runs=axes.run.extent,
        adjacent_columns=columns.size == 1 or axes.columns.strides[1] == width,
        dense_columns=axes.columns.strides[2] == height // axes.run.extent * width,
        streams=streams,
        brings=is_first and asked[a_place] and ahead[a_place] != 0,
        brings_b=asked[b_place] and ahead[b_place] != 0,
        claims=claims,
        staggers=(streams or axes.in_a_row) and not asked[a_place] and axes.k.extent in STAGGERED,
        turns=turned is not None,
        reads_ahead=claims and not tile.hints.streams and _reads_ahead(tile, axes, columns.size),
    )
    return kernel, turned


def _arguments(tile: ContractionTile, axes: PanelAxes) -> tuple[int, ...]:
    """Those that every block of a panel is called with."""
    a_place, b_place = _places(axes)
    return (
        axes.k.extent,
        axes.k.strides[0],
        axes.k.strides[1],
        axes.columns.strides[1],
        axes.columns.strides[2],
        axes.run.strides[2],
        int(not tile.from_zero),
        tile.ahead[a_place],
        tile.ahead[b_place],
        tile.ahead[2],
    )


def _places(axes: PanelAxes) -> tuple[int, int]:
    """Which inputs of the tile are A and B."""
    return (1, 0) if axes.swapped else (0, 1)
