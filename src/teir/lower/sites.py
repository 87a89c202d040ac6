"""Lowering of small matrices along sites: gates on qubits of a state, points that a matrix turns.

    psi[c, b, d]   b0d0 b0d1 b1d0 b1d1 | b0d0 b0d1 b1d0 b1d1 | ...   two sites in a vector of eight
    out[c, a, d]   a0d0 a0d1 a1d0 a1d1 | a0d0 a0d1 a1d0 a1d1 | ...   a sum of permuted vectors

Register blocks would fill two rows (d) of every vector, and be called for every site.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from teir.lower.axes import STILL, TileAxis, blocks_of, wrap_in_loops
from teir.lower.contraction_tile import ContractionTile
from teir.lower.kernel_program import LONGEST_CALL, Address, Call, KernelNode
from teir.lower.site_kernels import BLOCK_LOOPS, SiteAxis, SiteProduct
from teir.passes.sites import (
    MOST_FACTORS,
    MOST_OUTER,
    PAIR_TYPE,
    SITE_TYPES,
    Part,
    Sites,
    Walk,
    may_have_sites,
    sites_of,
)
from teir.target import Isa


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
    products = tile.products
    if not _has_kernels(tile, isa) or products > MOST_FACTORS:
        return None
    lanes = _lanes(tile, isa)
    for wide in (0, 1):
        if not may_have_sites(*_sides(tile, wide), products, lanes):
            continue
        if not tile.flushes and _is_one_run(tile, wide, lanes):
            return None
        free = [_from(axis, wide) for axis in tile.free]
        rows = tuple(axis for axis in free if axis.strides[0])
        columns = tuple(axis for axis in free if not axis.strides[0])
        sums = tuple(_from(axis, wide) for axis in tile.reductions)
        if any(axis.strides[1] for axis in rows):
            return None
        walks = (_walks(rows), _walks(columns), _walks(sums))
        sites = sites_of(*walks, tile.in_type.width, lanes)
        if sites is not None and sites.keeps_order:
            return TileSites(wide, rows, columns, sums, sites)
    return None


def _has_kernels(tile: ContractionTile, isa: Isa) -> bool:
    """True for types that there are kernels for; not known is how those of pairs do on processors
    that multiply twice a cycle, whose blocks have lanes to spare."""
    if len(tile.operands) != 3 or tile.out_type is not tile.in_type:
        return False
    if tile.flushes:
        is_fit = isa.is_avx512 and not isa.multiplies_twice_a_cycle
        return is_fit and tile.in_type is PAIR_TYPE
    return tile.in_type in SITE_TYPES


def _lanes(tile: ContractionTile, isa: Isa) -> int:
    """Elements of a vector as it is loaded."""
    return max(1, isa.vector_bytes // tile.in_type.width)


def _sides(tile: ContractionTile, wide: int) -> tuple[int, int]:
    """The rows, along which this input moves, and the columns."""
    rows = columns = 1
    for axis in tile.free:
        if axis.strides[wide]:
            rows *= axis.extent
        else:
            columns *= axis.extent
    return rows, columns


def _is_one_run(tile: ContractionTile, wide: int, lanes: int) -> bool:
    """True where a run of more rows than a vector holds is all that is adjacent, so that nothing of
    the matrix lies inside a site, and few axes outside."""
    width, run, outside = tile.in_type.width, None, 0
    for axis in (*tile.free, *tile.reductions):
        source, target = axis.strides[wide], axis.strides[2]
        outside += not (source and target)
        if source == width or target == width:
            if run is not None:
                return False
            run = axis
    if run is None or run.extent <= lanes or outside > MOST_OUTER:
        return False
    return run.strides[wide] == run.strides[2]


def _from(axis: TileAxis, wide: int) -> TileAxis:
    """The axis with the strides of the operand in sites first."""
    first, second, out = axis.strides
    return TileAxis(axis.extent, (second, first, out)) if wide else axis


def _walks(axes: Iterable[TileAxis]) -> list[Walk]:
    return [Walk(axis.extent, axis.strides[0], axis.strides[2]) for axis in axes]


class _Matrix(NamedTuple):
    """The axes of the small matrix, inside of a site and outside."""

    columns: list[TileAxis]
    sums: list[TileAxis]
    outer_columns: list[TileAxis]
    outer_sums: list[TileAxis]

    def words(self, from_zero: bool) -> tuple[int, ...]:
        """The arguments of a `SiteProduct` behind those of rows."""
        return (
            int(not from_zero),
            *(stride for axis in self.outer_sums for stride in axis.strides[:2]),
            *(stride for axis in self.outer_columns for stride in axis.strides[1:]),
            *(axis.strides[1] for axis in (*self.columns, *self.sums)),
        )


def lower_sites(tile: ContractionTile, found: TileSites, isa: Isa) -> tuple[KernelNode, ...]:
    """Loops around `SiteProduct` calls, as few as end before long."""
    sites = found.sites
    matrix = _Matrix(
        _parts(found.columns, sites.columns),
        _parts(found.sums, sites.sums),
        _parts(found.columns, sites.outer_columns),
        _parts(found.sums, sites.outer_sums),
    )
    kernel = _kernel(tile, found, matrix, isa)
    outer_rows = [found.rows[number] for number in sites.outer_rows]
    outer_rows.sort(key=lambda axis: axis.strides[2])
    a, b, c = tile.operands
    operands = (b, a, c) if found.wide else (a, b, c)
    words = matrix.words(tile.from_zero)
    walked, most = _walked_at_once([found.rows[sites.row], *outer_rows], kernel)
    *inner, last = walked
    whole, left = divmod(last.extent, most)
    nodes: tuple[KernelNode, ...] = (_call(kernel, [*inner, _of(last, most)], words, operands),)
    if whole > 1:
        nodes = wrap_in_loops((blocks_of(last, whole, most),), operands, nodes)
    if left:
        starts = [stride * most * whole for stride in last.strides]
        rest = tuple(
            Address(slot=address.slot, offset_bytes=address.offset_bytes + start)
            for address, start in zip(operands, starts, strict=True)
        )
        nodes += (_call(kernel, [*inner, _of(last, left)], words, rest),)
    return wrap_in_loops(outer_rows[len(walked) - 1 :][::-1], operands, nodes)


def _kernel(tile: ContractionTile, found: TileSites, matrix: _Matrix, isa: Isa) -> SiteProduct:
    width = tile.in_type.width
    return SiteProduct(
        data_type=tile.in_type,
        lanes=_lanes(tile, isa),
        sites=found.sites.count,
        rows=_inside([found.rows[number] for number in found.sites.rows], width),
        columns=_inside(matrix.columns, width),
        sums=_inside(matrix.sums, width),
        outer_columns=tuple(axis.extent for axis in matrix.outer_columns),
        outer_sums=tuple(axis.extent for axis in matrix.outer_sums),
    )


def _call(
    kernel: SiteProduct,
    walked: Sequence[TileAxis],
    words: tuple[int, ...],
    operands: tuple[Address, ...],
) -> Call:
    """Of the row and the blocks ``walked``."""
    row, *blocks = (*walked, *[STILL] * BLOCK_LOOPS)[: 1 + BLOCK_LOOPS]
    arguments = (
        row.extent,
        row.strides[0] * kernel.sites,
        row.strides[2] * kernel.sites,
        *(word for axis in blocks for word in (axis.extent, axis.strides[0], axis.strides[2])),
        *words,
    )
    return Call(kernel=kernel, operands=operands, arguments=arguments)


def _walked_at_once(
    rows: Sequence[TileAxis], kernel: SiteProduct
) -> tuple[Sequence[TileAxis], int]:
    """The axes that one call walks, and how many indices of the last of them."""
    results = kernel.c_elements * prod(kernel.outer_columns)
    room = LONGEST_CALL // (results * len(kernel.products()) * prod(kernel.outer_sums))
    for number, axis in enumerate(rows[: 1 + BLOCK_LOOPS]):
        if axis.extent > room:
            step = 1 if number else kernel.sites
            return rows[: number + 1], min(axis.extent, max(step, room // step * step))
        room //= axis.extent
    walked = rows[: 1 + BLOCK_LOOPS]
    return walked, walked[-1].extent


def _of(axis: TileAxis, extent: int) -> TileAxis:
    return TileAxis(extent, axis.strides)


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
