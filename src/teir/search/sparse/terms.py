"""The inputs and results of expressions, numbered, so that equal ones are found by one number."""

from __future__ import annotations

from teir.search.sparse.space import Bits, Mask

Term = tuple[str, Bits, int]
"""The name of a sparse tensor, or "", the indices that no loop above has taken, and the index whose
neighbours are adjacent in memory (0 for a scalar)."""
Terms = tuple[int, ...]
"""Numbers of terms."""


class TermTable:
    """The terms of one space: a number is a place in ``terms`` and ``masks``."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self.masks: list[Mask] = []
        """The indices of a term, as one set."""
        self._numbers: dict[Term, int] = {}
        self._without: dict[tuple[int, Mask], int] = {}
        self._all_without: dict[tuple[Terms, Mask], Terms] = {}

    def number(self, term: Term) -> int:
        """The number of a term."""
        number = self._numbers.setdefault(term, len(self.terms))
        if number == len(self.terms):
            self.terms.append(term)
            self.masks.append(sum(term[1]))
        return number

    def dense(self, bits: Bits) -> int:
        """A temporary with its indices in this order."""
        return self.number(("", bits, bits[-1] if bits else 0))

    def union(self, terms: Terms) -> Mask:
        """The indices of any of the terms."""
        mask = 0
        for number in terms:
            mask |= self.masks[number]
        return mask

    def appearing(self, terms: Terms) -> Bits:
        """The indices of the terms in the order in which they first appear."""
        return tuple(dict.fromkeys([bit for number in terms for bit in self.terms[number][1]]))

    def without(self, number: int, mask: Mask) -> int:
        """The term inside loops over the indices of ``mask``."""
        known = self._without.get((number, mask))
        if known is None:
            tensor, bits, adjacent = self.terms[number]
            left = tuple(bit for bit in bits if not bit & mask)
            known = self._without[number, mask] = self.number((tensor, left, adjacent))
        return known

    def all_without(self, terms: Terms, mask: Mask) -> Terms:
        """Every one of the terms inside loops over the indices of ``mask``."""
        known = self._all_without.get((terms, mask))
        if known is None:
            known = tuple([self.without(number, mask) for number in terms])
            self._all_without[terms, mask] = known
        return known
