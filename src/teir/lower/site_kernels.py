"""The kernel of small matrices along sites, as a value (see `kernels`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import msgspec

from teir.dtypes import DataType

BLOCK_LOOPS = 2
"""Axes of rows outside of a site, but for the one from site to site, inside a kernel."""


class SiteAxis(msgspec.Struct, frozen=True, gc=False):
    """An axis inside a site: its extent, and the elements from one index to the next in A and C,
    0 where it does not move one."""

    extent: int
    a_step: int
    c_step: int


class SitePlace(msgspec.Struct, frozen=True, gc=False):
    """One result of a site: its place in C, where its factors begin in A, and its column."""

    c_place: int
    a_place: int
    column: int


class SiteProduct(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """C[blocks, site, n, m] += sum over (outer k, k) of A[blocks, site, k, m] * B[n, k].

    The elements (k, m) of a site are adjacent in A, those (n, m) in C, each in any order. A vector
    holds ``sites`` of them, its ``lanes`` or fewer, which follow one another in both, and a product
    takes the elements of A that it meets from one vector of A.

    ``rows``, ``columns`` and ``sums`` are the axes m, n and k inside a site. ``outer_columns`` are
    the extents of more of them, whose results lie in other vectors of C, and ``outer_sums`` those
    of sums over other vectors of A, outermost first. The type is FP32, FP64, C64 or C128, or BF16,
    whose subnormal numbers count as zero; A is the left factor.

    Operands: A, B, C. Arguments, in order: sites of a row, a_site and c_site (from one vector to
    the next); twice blocks, a_block, c_block: rows of sites, and blocks of those; accumulate (1:
    start from C, 0: from zero); then the strides on A and on B of every outer sum, on B and on C of
    every outer column, and on B of every axis of ``columns`` and of ``sums``.
    """

    data_type: DataType
    lanes: int
    sites: int
    rows: tuple[SiteAxis, ...]
    columns: tuple[SiteAxis, ...]
    sums: tuple[SiteAxis, ...]
    outer_columns: tuple[int, ...]
    outer_sums: tuple[int, ...]

    @property
    def a_elements(self) -> int:
        """Elements of a site in A."""
        return prod(axis.extent for axis in (*self.rows, *self.sums))

    @property
    def c_elements(self) -> int:
        """Elements of a site in C."""
        return prod(axis.extent for axis in (*self.rows, *self.columns))

    @property
    def c_lanes(self) -> int:
        """Elements of a vector of C: of BF16 the half of one, a vector of sums, where they fit."""
        half = self.lanes // 2
        fits = self.data_type is DataType.BF16 and self.c_elements * self.sites <= half
        return half if fits else self.lanes

    @property
    def is_whole(self) -> bool:
        """True where sites leave no lane of a vector empty, in A and in C."""
        taken, made = self.a_elements * self.sites, self.c_elements * self.sites
        return (taken, made) == (self.lanes, self.c_lanes)

    def results(self) -> Iterator[SitePlace]:
        """Every result of a site."""
        for row in indices([axis.extent for axis in self.rows]):
            for number, column in enumerate(indices([axis.extent for axis in self.columns])):
                yield SitePlace(
                    sum(axis.c_step * at for axis, at in zip(self.rows, row, strict=True))
                    + sum(axis.c_step * at for axis, at in zip(self.columns, column, strict=True)),
                    sum(axis.a_step * at for axis, at in zip(self.rows, row, strict=True)),
                    number,
                )

    def products(self) -> tuple[int, ...]:
        """How far the factor of every product inside a site lies behind the first in A."""
        return tuple(
            sum(axis.a_step * at for axis, at in zip(self.sums, index, strict=True))
            for index in indices([axis.extent for axis in self.sums])
        )


def indices(extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All indices of axes, the last one fastest."""
    return product(*map(range, extents))
