"""Lowering of small matrices along sites: gates on qubits of a state, points that a matrix turns.

    psi[c, b, d]   b0d0 b0d1 b1d0 b1d1 | b0d0 b0d1 b1d0 b1d1 | ...   two sites in a vector of eight
    out[c, a, d]   a0d0 a0d1 a1d0 a1d1 | a0d0 a0d1 a1d0 a1d1 | ...   a sum of permuted vectors

Register blocks would fill two rows (d) of every vector, and be called for every site.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from teir.dtypes import DataType
from teir.lower.axes import STILL, TileAxis, wrap_in_loops
from teir.lower.blocking import full_lanes
from teir.lower.contraction_tile import ContractionTile
from teir.lower.kernel_program import Call, KernelNode
from teir.lower.site_kernels import BLOCK_LOOPS, SiteAxis, SiteProduct
from teir.passes.sites import MOST_FACTORS, Part, Sites, Walk, sites_of
from teir.target import Isa

_TYPES = (DataType.FP32, DataType.FP64, DataType.C64, DataType.C128)


@dataclass(frozen=True, slots=True)
class TileSites:
    """The axes of a tile, strides of the operand in sites first, and what they are to a site;
    ``wide`` is the number of that operand."""

    wide: int
    rows: tuple[TileAxis, ...]
    columns: tuple[TileAxis, ...]
    sums: tuple[TileAxis, ...]
    sites: Sites


def tile_sites(tile: ContractionTile, isa: Isa) -> TileSites | None:
    """The sites of a tile, of either input; None where another kernel serves."""
    if len(tile.operands) != 3 or tile.in_type not in _TYPES or tile.out_type is not tile.in_type:
        return None
    if prod(axis.extent for axis in tile.reductions) > MOST_FACTORS:
        return None
    lanes = full_lanes(isa, tile.in_type, tile.out_type)
    for wide in (0, 1):
        free = [_from(axis, wide) for axis in tile.free]
        rows = tuple(axis for axis in free if axis.strides[0])
        columns = tuple(axis for axis in free if not axis.strides[0])
        sums = tuple(_from(axis, wide) for axis in tile.reductions)
        if any(axis.strides[1] for axis in rows):
            return None
        walks = (_walks(rows), _walks(columns), _walks(sums))
        sites = sites_of(*walks, tile.in_type.width, lanes)
        if sites is not None and _keeps_order(sites):
            return TileSites(wide, rows, columns, sums, sites)
    return None


def _keeps_order(sites: Sites) -> bool:
    """True where the sums outside of a site come first, as the kernel adds them."""
    outer = [part.number for part in sites.outer_sums]
    return not outer or all(part.number >= outer[-1] for part in sites.sums)


def _from(axis: TileAxis, wide: int) -> TileAxis:
    """The axis with the strides of the operand in sites first."""
    first, second, out = axis.strides
    return TileAxis(axis.extent, (second, first, out)) if wide else axis


def _walks(axes: Iterable[TileAxis]) -> list[Walk]:
    return [Walk(axis.extent, axis.strides[0], axis.strides[2]) for axis in axes]


def lower_sites(tile: ContractionTile, found: TileSites, isa: Isa) -> tuple[KernelNode, ...]:
    """Loops around one `SiteProduct` call."""
    sites, width = found.sites, tile.in_type.width
    row = found.rows[sites.row]
    columns, sums = _parts(found.columns, sites.columns), _parts(found.sums, sites.sums)
    outer_columns = _parts(found.columns, sites.outer_columns)
    outer_sums = _parts(found.sums, sites.outer_sums)
    outer_rows = [found.rows[number] for number in sites.outer_rows]
    outer_rows.sort(key=lambda axis: axis.strides[2])
    blocks = (outer_rows + [STILL] * BLOCK_LOOPS)[:BLOCK_LOOPS]
    kernel = SiteProduct(
        data_type=tile.in_type,
        lanes=full_lanes(isa, tile.in_type, tile.out_type),
        sites=sites.count,
        rows=_inside([found.rows[number] for number in sites.rows], width),
        columns=_inside(columns, width),
        sums=_inside(sums, width),
        outer_columns=tuple(axis.extent for axis in outer_columns),
        outer_sums=tuple(axis.extent for axis in outer_sums),
    )
    arguments = (
        row.extent,
        row.strides[0] * sites.count,
        row.strides[2] * sites.count,
        *(word for axis in blocks for word in (axis.extent, axis.strides[0], axis.strides[2])),
        int(not tile.from_zero),
        *(stride for axis in outer_sums for stride in axis.strides[:2]),
        *(stride for axis in outer_columns for stride in axis.strides[1:]),
        *(axis.strides[1] for axis in (*columns, *sums)),
    )
    a, b, c = tile.operands
    operands = (b, a, c) if found.wide else (a, b, c)
    call = Call(kernel=kernel, operands=operands, arguments=arguments)
    return wrap_in_loops(outer_rows[: BLOCK_LOOPS - 1 : -1], operands, (call,))


def _parts(axes: Sequence[TileAxis], parts: Iterable[Part]) -> list[TileAxis]:
    """The parts as axes of their own, the outermost of the tile first."""
    return [
        TileAxis(part.extent, tuple(stride * part.times for stride in axes[part.number].strides))
        for part in sorted(parts, key=lambda part: part.number)
    ]


def _inside(axes: Iterable[TileAxis], width: int) -> tuple[SiteAxis, ...]:
    return tuple(
        SiteAxis(axis.extent, axis.strides[0] // width, axis.strides[2] // width) for axis in axes
    )
