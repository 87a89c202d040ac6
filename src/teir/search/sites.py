"""Small matrices along sites of adjacent elements: all rows in one invocation.

    [parallel] rows of sites, or parts of one {
        zero; Contraction M=[rows, sites, rows in a site] N=[columns] K=[sums] }

A gate on one of the last qubits of a state, points of three coordinates that a matrix turns. Blocks
of rows would fill a few lanes of every vector and need a call for every site.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import Operation, Tensor
from teir.passes.extents import even_block
from teir.passes.parallelise import CHUNKS
from teir.passes.sites import MOST_FACTORS, PAIR_TYPE, SITE_TYPES, Walk, may_have_sites, sites_of
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import Piece, all_follow, cut
from teir.search.shape import ProductShape, extent_of, outermost_first, some
from teir.search.sharing import is_worth_sharing
from teir.search.step import Span
from teir.target import LINE_BYTES


class SiteStep(msgspec.Struct, frozen=True, gc=False):
    """A product along sites: the operand in sites, the matrix, and the axes, outermost first;
    ``rows`` are the axis from site to site and those inside one, ``outer`` the others."""

    wide: Tensor
    matrix: Tensor
    out: Tensor
    outer: tuple[Span, ...]
    row: Span
    rows: tuple[Span, ...]
    columns: tuple[Span, ...]
    sums: tuple[Span, ...]


def sites_along(shape: ProductShape, machine: Machine) -> SiteStep | None:
    """The product along sites of one operand; None for all others."""
    kind = shape.out.data_type
    if shape.c or not has_sites(kind, machine):
        return None
    if not shape.a.data_type is shape.b.data_type is kind:
        return None
    products = extent_of(shape.k)
    if products > MOST_FACTORS:
        return None
    lanes, counts = machine.lanes(kind.width), (shape.rows, shape.columns)
    # The matrix is small beside the rows: one operand may be it at most.
    if not may_have_sites(max(counts), min(counts), products, lanes):
        return None
    rows, columns = (*shape.m_outer, *some(shape.m)), (*shape.n_outer, *some(shape.n))
    if counts[0] >= counts[1]:
        return _of(shape, shape.a, shape.b, rows, columns, lanes)
    return _of(shape, shape.b, shape.a, columns, rows, lanes)


def has_sites(kind: DataType, machine: Machine) -> bool:
    """True for types of products that kernels of sites form on this machine."""
    if kind is PAIR_TYPE:
        return machine.vector_bytes >= LINE_BYTES and not machine.multiplies_twice
    return kind in SITE_TYPES


def _of(
    shape: ProductShape,
    wide: Tensor,
    matrix: Tensor,
    rows: Sequence[Span],
    columns: Sequence[Span],
    lanes: int,
) -> SiteStep | None:
    out, width = shape.out, shape.out.data_type.width
    # As wherever sums that follow each other in the large operand are made one.
    in_wide = outermost_first(shape.k, wide)
    k = in_wide if all_follow(in_wide, wide.name) else shape.k
    along_rows, along_columns, along_sums = (_walks(axes, wide, out) for axes in (rows, columns, k))
    sites = sites_of(along_rows, along_columns, along_sums, width, lanes)
    if sites is None or not sites.keeps_order:
        return None
    outer = [rows[number] for number in sites.outer_rows]
    inner = [rows[number] for number in sites.rows]
    return SiteStep(
        wide,
        matrix,
        out,
        outermost_first(outer, out),
        rows[sites.row],
        outermost_first(inner, out),
        outermost_first(columns, out),
        k,
    )


def _walks(axes: Sequence[Span], wide: Tensor, out: Tensor) -> list[Walk]:
    return [Walk(axis.extent, axis.stride(wide.name), axis.stride(out.name)) for axis in axes]


def emit_sites(emission: Emission, found: SiteStep, shape: ProductShape, machine: Machine) -> Body:
    """The nodes of a product that `sites_along` recognised."""
    if not is_worth_sharing(shape, machine):
        return _leaf(emission, found, (*found.outer, found.row))
    shared, *others = sorted((*found.outer, found.row), key=lambda axis: -axis.extent)
    part = even_block(shared.extent, -(-shared.extent // (CHUNKS * machine.threads)), 1)

    def part_of(piece: Piece) -> Body:
        assert piece.tile is not None
        axes = outermost_first([piece.tile, *others], found.out)
        return emission.loops(piece.loops, partial(_leaf, emission, found, axes), parallel=True)

    return sum(map(part_of, cut(shared, part)), Body())


def _leaf(emission: Emission, found: SiteStep, outer: Sequence[Span]) -> Body:
    rows = (*outer, *found.rows)
    zero = emission.leaf(Operation.ZERO, (), found.out.name, Roles(m=rows, n=found.columns))
    return zero + emission.leaf(
        Operation.CONTRACTION,
        (found.wide.name, found.matrix.name),
        found.out.name,
        Roles(m=rows, n=found.columns, k=found.sums),
        data_type=found.out.data_type,
        flushes=found.out.data_type is PAIR_TYPE,
    )
