"""What lies where in the vectors of `SiteProduct`, and how sums of a vector are formed.

Of numbers as they are stored, `emit_site_sums`; of two products at once, `emit_pair_sites`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from teir.backends.llvm.emit_loops import Values
from teir.backends.llvm.emit_text import FunctionText, multiples
from teir.lower.site_kernels import SiteProduct


class SiteSums(Protocol):
    """The sums of a vector of sites: how they begin, grow, and are stored."""

    @property
    def loaded_kind(self) -> str:
        """The LLVM type of a vector as it is loaded."""

    @property
    def kind(self) -> str:
        """The LLVM type of a vector of sums."""

    @property
    def vectors(self) -> int:
        """Vectors of sums for each that is stored."""

    def opened(self, stored: str) -> Values:
        """The sums that a vector of C holds."""

    def added(self, loaded: Values, sums: Values) -> Values:
        """The sums of all outer columns after the products with a vector of A for every outer
        sum."""

    def rounded(self, sums: Values) -> str:
        """A vector of C from its sums."""


def lanes_of_sites(kernel: SiteProduct) -> tuple[tuple[int, int], ...]:
    """Of every lane of C where its factors begin in the vector of A, and its column; lanes without
    a result do as the first one does."""
    lanes = [(0, 0)] * kernel.c_lanes
    for site in range(kernel.sites):
        for one in kernel.results():
            place = site * kernel.a_elements + one.a_place
            lanes[site * kernel.c_elements + one.c_place] = (place, one.column)
    return tuple(lanes)


def offsets(text: FunctionText, extents: Sequence[int], stride: str) -> list[str | int]:
    """How far all indices of axes lie from the first, the last one fastest."""
    offsets: list[str | int] = [0]
    for number, extent in enumerate(extents):
        steps = multiples(text, f"{stride}{number}", extent)
        offsets = [_sum(text, start, step) for start in offsets for step in steps]
    return offsets


def _sum(text: FunctionText, left: str | int, right: str | int) -> str | int:
    if left == 0 or right == 0:
        return right if left == 0 else left
    return text.value(f"add i64 {left}, {right}")
