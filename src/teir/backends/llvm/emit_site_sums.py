"""The sums of small matrices along sites: a multiply-add of a permuted vector for every product.

The product of complex numbers is one of (re, im) and one of (im, re), with signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_loops import Values
from teir.backends.llvm.emit_numbers import numbers_per_element
from teir.backends.llvm.emit_products import Arithmetic, multiply_add
from teir.backends.llvm.emit_site_numbers import lanes_of_sites, offsets
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, shuffle, vector
from teir.lower.site_kernels import SiteProduct
from teir.target import Isa


@dataclass(frozen=True, slots=True)
class FullSums:
    """Sums in the type that is stored, one vector for each of C (see `SiteSums`)."""

    text: FunctionText
    arithmetic: Arithmetic
    terms: tuple[_Term, ...]
    vectors: int = 1

    @property
    def kind(self) -> str:
        return self.arithmetic.kind

    @property
    def loaded_kind(self) -> str:
        return self.arithmetic.kind

    def opened(self, stored: str) -> Values:
        return [stored]

    def added(self, loaded: Values, sums: Values) -> Values:
        text, kind, found = self.text, self.arithmetic, list(sums)
        for number, numbers in enumerate(loaded):
            for term in self.terms:
                taken = shuffle(text, kind.element, kind.count, numbers, "poison", term.taken)
                for column, factors in enumerate(term.factors):
                    found[column] = multiply_add(text, kind, taken, factors[number], found[column])
        return found

    def rounded(self, sums: Values) -> str:
        (total,) = sums
        return total


def full_sums(text: FunctionText, kernel: SiteProduct, isa: Isa) -> FullSums:
    """The sums of a kernel of this type, its factors loaded."""
    numbers = kernel.lanes * numbers_per_element(kernel.data_type)
    kind = Arithmetic(isa, kernel.data_type, numbers)
    return FullSums(text, kind, _terms(text, kernel, kind))


@dataclass(frozen=True, slots=True)
class _Term:
    """One product of every lane: the numbers of A's vector it takes, and, by outer column and
    outer sum, what it multiplies them by."""

    taken: tuple[int, ...]
    factors: tuple[tuple[str, ...], ...]


def _terms(text: FunctionText, kernel: SiteProduct, kind: Arithmetic) -> tuple[_Term, ...]:
    """The products of a sum in order; two for each of complex numbers."""
    parts = numbers_per_element(kernel.data_type)
    columns_at = offsets(text, [axis.extent for axis in kernel.columns], "%b_column")
    sums_at = offsets(text, [axis.extent for axis in kernel.sums], "%b_sum")
    outer_columns = offsets(text, kernel.outer_columns, "%b_outer_column")
    outer_sums = offsets(text, kernel.outer_sums, "%b_outer_sum")
    lanes = lanes_of_sites(kernel)
    terms = []
    for along_sum, behind in zip(sums_at, kernel.products(), strict=True):
        starts = [
            [shift_pointer(text, shift_pointer(text, along, column), total) for total in outer_sums]
            for along in (shift_pointer(text, "%B", along_sum),)
            for column in outer_columns
        ]
        for part in range(parts):
            taken = tuple(
                (place + behind) * parts + (number ^ part)
                for place, _ in lanes
                for number in range(parts)
            )
            places = [column for _, column in lanes]
            factors = tuple(
                tuple(_factors(text, kind, start, columns_at, places, part) for start in row)
                for row in starts
            )
            terms.append(_Term(taken, factors))
    return tuple(terms)


def _factors(
    text: FunctionText,
    kind: Arithmetic,
    start: str,
    columns_at: Sequence[str | int],
    lanes: Sequence[int],
    part: int,
) -> str:
    """The numbers of the columns at ``start`` in the lanes that want them: of complex ones the real
    parts, or the imaginary parts with their signs."""
    element, width = kind.element, 8 if kind.element == "double" else 4
    singles = []
    for offset in columns_at:
        place = shift_pointer(text, shift_pointer(text, start, offset), part * width)
        singles.append(text.value(f"load {element}, ptr {place}, align 1"))
    if part:
        singles = [text.value(f"fneg {element} {one}") for one in singles] + singles
    count = len(singles)
    known = "poison"
    for number, one in enumerate(singles):
        known = text.value(
            f"insertelement {vector(element, count)} {known}, {element} {one}, i64 {number}"
        )
    parts = numbers_per_element(kind.data_type)
    signed = len(columns_at) if part else 0
    picked = [column + number * signed for column in lanes for number in range(parts)]
    return shuffle(text, element, count, known, "poison", picked)
