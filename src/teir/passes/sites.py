"""Sites: adjacent elements that a small matrix takes to others, as many as a vector holds.

    psi[c, b, d]    sites (b, d) along c
    out[c, a, d]    sites (a, d) along c

By numbers alone, for the search and the lowering. What of the matrix does not fit a vector lies
outside of the site: in other vectors of the input, in other vectors of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import msgspec

from teir.dtypes import DataType
from teir.passes.extents import largest_divisor

SITE_TYPES = (DataType.FP32, DataType.FP64, DataType.C64, DataType.C128)
"""Of the factors and the results alike."""
PAIR_TYPE = DataType.BF16
"""The same where subnormal numbers count as zero and two products are formed at once."""
MOST_FACTORS = 32
"""Factors of the matrix that vectors hold: in registers, or in the first cache."""
MOST_OUTER, _MOST_COLUMNS = 2, 8
"""Axes of columns, and of products, outside of a site; and sums that are formed at once."""
_MOST_PRODUCTS = 4
"""Products of a sum where a site has no rows of its own. Measured on Golden Cove: 0.4 to 1.1 of the
time of register blocks, which turn such rows; longer sums took up to 3.9 times as long."""
_MOST_OF_PAIRS = 24
"""Products of a sum of pairs. Measured on Zen 4, 20000 rows of 2 to 24 products in 2 to 32
columns: 0.07 to 0.99 of the time of register blocks, 0.45 in the mean; of 32 products in 10 to 32
columns up to 1.07."""
_FILLED_OF_PAIRS = 16
"""A vector of pairs has so many times as many lanes as results, or fewer."""
_FEWEST_OF_SOME_VECTORS = 8
"""Results of pairs that are worth more than one vector of the input."""
_FEWEST_LANES = 4
"""Of a vector: sites of two lanes took as long as register blocks, and up to 1.6 times."""
_FEWEST_VECTORS, _FEWEST_OF_A_COLUMN = 4, 4
"""Vectors of a product, and rows for every column: else the matrix might pass for the rows."""
_LONG_RUN = 32
"""Multiply-adds of a run of rows from which on it is worth a call of a register block, where
nothing of the matrix lies inside a site."""


class Walk(msgspec.Struct, frozen=True, gc=False):
    """An axis by its extent and its strides in bytes on the input in sites and on the output."""

    extent: int
    a_bytes: int
    c_bytes: int


class Part(msgspec.Struct, frozen=True, gc=False):
    """An axis by its number, or a part of it: ``extent`` indices, each ``times`` of the axis'."""

    number: int
    extent: int
    times: int = 1


class Sites(msgspec.Struct, frozen=True, gc=False):
    """The axes of a product by what they are to a site.

    ``row`` is the axis from site to site. A vector holds ``count`` sites: more than one follow one
    another without gaps, one alone lies anywhere. ``rows``, ``columns`` and ``sums`` lie inside a
    site of ``a_elements`` of the input and ``c_elements`` of the output, the others outside.
    """

    row: int
    count: int
    rows: tuple[int, ...]
    columns: tuple[Part, ...]
    sums: tuple[Part, ...]
    outer_rows: tuple[int, ...]
    outer_columns: tuple[Part, ...]
    outer_sums: tuple[Part, ...]
    a_elements: int
    c_elements: int

    @property
    def keeps_order(self) -> bool:
        """True where the sums outside of a site come first, as they are added."""
        outer = [part.number for part in self.outer_sums]
        return not outer or all(part.number >= outer[-1] for part in self.sums)


class _Side(msgspec.Struct, frozen=True, gc=False):
    """What a site takes of one tensor: parts of axes that only this one has, the elements of all,
    and whether only a part of an axis was taken, so that nothing follows without a gap."""

    parts: tuple[Part, ...] = ()
    elements: int = 1
    is_cut: bool = False

    def having(self, axes: Sequence[tuple[int, int]], width: int, lanes: int) -> _Side:
        """The same with the axes (extent, stride in bytes) that follow without a gap, as many of
        them, and as much of the last, as a vector holds."""
        parts, elements, is_cut = self.parts, self.elements, self.is_cut
        while not is_cut:
            number = _next(axes, elements * width)
            if number is None:
                break
            extent = axes[number][0]
            fits = largest_divisor(extent, lanes // elements)
            is_cut = fits < extent
            elements *= fits
            parts += (Part(number, fits),) if fits > 1 else ()
        return _Side(parts, elements, is_cut)

    def around(self, extent: int) -> _Side:
        """The same with an axis that both tensors have."""
        return _Side(self.parts, self.elements * extent, self.is_cut)


def _next(axes: Sequence[tuple[int, int]], stride: int) -> int | None:
    """The number of the axis of this stride."""
    return next((number for number, axis in enumerate(axes) if axis[1] == stride), None)


def may_have_sites(rows: int, columns: int, sums: int, lanes: int) -> bool:
    """False where `sites_of` finds none, however so many rows, columns and products of a sum lie:
    a vector holds no more columns than it has lanes, and what lies outside of a site is small."""
    if lanes < _FEWEST_LANES or rows < _FEWEST_OF_A_COLUMN * columns:
        return False
    return columns <= _MOST_COLUMNS * lanes and columns * sums <= MOST_FACTORS * lanes


def sites_of(
    rows: Sequence[Walk], columns: Sequence[Walk], sums: Sequence[Walk], width: int, lanes: int
) -> Sites | None:
    """The sites of elements of ``width`` bytes that vectors of ``lanes`` hold; None where there are
    none, or too few, or too much of the matrix lies outside of one."""
    if lanes < _FEWEST_LANES:
        return None
    in_a = [(axis.extent, axis.a_bytes) for axis in sums]
    in_c = [(axis.extent, axis.c_bytes) for axis in columns]
    inside: list[int] = []
    a, c = _Side().having(in_a, width, lanes), _Side().having(in_c, width, lanes)
    while True:
        following = None if a.is_cut or c.is_cut else _row_at(rows, a, c, width)
        if following is None:
            break
        extent = rows[following].extent
        if max(a.elements, c.elements) * extent > lanes:
            break
        inside.append(following)
        a = a.around(extent).having(in_a, width, lanes)
        c = c.around(extent).having(in_c, width, lanes)
    outside = [number for number in range(len(rows)) if number not in inside]
    count = 1 if following is None else lanes // max(a.elements, c.elements)
    if not outside or not _fill(count * a.elements, count * c.elements, width, lanes):
        return None
    nearest = min(outside, key=lambda number: rows[number].c_bytes)
    row = nearest if following is None else following
    outside.remove(row)
    found = Sites(
        row,
        count,
        tuple(inside),
        c.parts,
        a.parts,
        tuple(outside),
        _rest(columns, c.parts),
        _rest(sums, a.parts),
        a.elements,
        c.elements,
    )
    pays = _pay_in_pairs if width == PAIR_TYPE.width else _pays
    return found if pays(found, rows, columns, sums) else None


def _fill(taken: int, made: int, width: int, lanes: int) -> bool:
    """True where so many elements of the input and the output are enough in a vector of each."""
    if width == PAIR_TYPE.width:
        return _FILLED_OF_PAIRS * made >= lanes
    return 2 * min(taken, made) >= lanes


def _row_at(rows: Sequence[Walk], a: _Side, c: _Side, width: int) -> int | None:
    """The row that follows in both tensors."""
    ends = a.elements * width, c.elements * width
    places = enumerate((axis.a_bytes, axis.c_bytes) for axis in rows)
    return next((number for number, place in places if place == ends), None)


def _rest(axes: Sequence[Walk], inside: Sequence[Part]) -> tuple[Part, ...]:
    """What of the axes is not inside."""
    taken = {part.number: part.extent for part in inside}
    parts = (
        Part(number, axis.extent // taken.get(number, 1), taken.get(number, 1))
        for number, axis in enumerate(axes)
    )
    return tuple(part for part in parts if part.extent > 1)


def _pays(
    sites: Sites, rows: Sequence[Walk], columns: Sequence[Walk], sums: Sequence[Walk]
) -> bool:
    """True where vectors of factors are near, sites fill some vectors, and register blocks are not
    as good."""
    formed, products = prod(part.extent for part in sites.outer_columns), _points(sums)
    if formed * products > MOST_FACTORS or not _are_many(sites, rows, columns):
        return False
    if sites.columns or sites.sums:
        return bool(sites.rows) or (sites.count > 1 and products <= _MOST_PRODUCTS)
    vectors = -(-rows[sites.row].extent // sites.count)
    run = vectors if sites.count > 1 else 1
    is_scattered = len(sites.outer_columns) + len(sites.outer_sums) > MOST_OUTER
    all_vectors = vectors * prod(rows[number].extent for number in sites.outer_rows)
    return is_scattered and run * formed * products < _LONG_RUN and all_vectors > run


def _pay_in_pairs(
    sites: Sites, rows: Sequence[Walk], columns: Sequence[Walk], sums: Sequence[Walk]
) -> bool:
    """As `_pays` of sums of pairs, beside blocks whose lanes are rows or columns."""
    formed, products = prod(part.extent for part in sites.outer_columns), _points(sums)
    if products > _MOST_OF_PAIRS or formed * products > MOST_FACTORS:
        return False
    if not sites.columns or not (sites.rows or sites.sums):
        return False
    is_filled = sites.count * sites.c_elements >= _FEWEST_OF_SOME_VECTORS
    return (is_filled or not sites.outer_sums) and _are_many(sites, rows, columns)


def _are_many(sites: Sites, rows: Sequence[Walk], columns: Sequence[Walk]) -> bool:
    """True where few axes lie outside of a site but rows, of which there are some vectors."""
    if len(sites.outer_columns) > MOST_OUTER or len(sites.outer_sums) > MOST_OUTER:
        return False
    if prod(part.extent for part in sites.outer_columns) > _MOST_COLUMNS:
        return False
    vectors = -(-rows[sites.row].extent // sites.count)
    all_vectors = vectors * prod(rows[number].extent for number in sites.outer_rows)
    return all_vectors >= _FEWEST_VECTORS and _points(rows) >= _FEWEST_OF_A_COLUMN * _points(
        columns
    )


def _points(axes: Sequence[Walk]) -> int:
    return prod(axis.extent for axis in axes)
