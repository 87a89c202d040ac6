"""What of the expressions of a space does not depend on names: their orders and their splits (5.1).

The shapes of a product follow from its output, its inputs and the places where it may be split;
thousands of expressions that the published generator tells apart by names have one shape.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from teir.expr.index_notation import Access
from teir.search.sparse.loop_orders import LoopOrders
from teir.search.sparse.space import BitPairs, Bits, Mask, Step
from teir.search.sparse.statement import Pairs, Statement
from teir.search.sparse.terms import Term, Terms, TermTable


class Shape(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One product: its result's indices and its loops, numbered together, and what can be made."""

    result: int
    orders: tuple[Bits, ...]
    walked: Mask
    strided: Mask
    splits: tuple[Split, ...]


class Split(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A step with the shapes of both halves."""

    step: Step
    producer: Shape
    consumer: Shape


class _Product(msgspec.Struct, frozen=True, gc=False):
    """The numbers of a result and of the terms it is the product of, the loops, their order."""

    out: int
    terms: Terms
    is_output: bool
    """The result is the statement's, not a temporary."""
    loops: Mask
    pairs: BitPairs


class Shapes:
    """The shapes of one statement; temporaries have at most ``largest_rank`` dimensions (5.2).

    Loops keep the order of ``in_turn`` besides that of the tensors' levels.
    """

    def __init__(
        self, statement: Statement, largest_rank: int | None = None, in_turn: Pairs = ()
    ) -> None:
        self.statement = statement
        self.table = TermTable()
        self.orders = LoopOrders()
        indices = statement.indices
        self._largest_rank = len(indices) if largest_rank is None else largest_rank
        self._bit = {index: 1 << number for number, index in enumerate(indices)}
        self._in_turn = self._as_bits(in_turn)
        self._pairs_of: dict[str, BitPairs] = {}
        self._compressed: dict[str, Mask] = {"": 0}
        for name in (access.tensor for access in statement.accesses):
            self._pairs_of[name] = self._as_bits(statement.order_pairs((name,)))
            self._compressed[name] = sum(self._bit[i] for i in statement.compressed_indices(name))
        self._pairs: dict[tuple[tuple[str, ...], Mask], BitPairs] = {}
        self._shapes: dict[tuple[bool, int, Terms, int, int], Shape] = {}
        self._results: dict[tuple[Bits, Mask], int] = {}

    def term(self, access: Access) -> int:
        """The number of an operand of the statement."""
        levels = self.statement.level_indices(access.tensor)
        term: Term = (
            access.tensor if self._compressed[access.tensor] else "",
            tuple(self._bit[index] for index in access.indices),
            self._bit[levels[-1]] if levels else 0,
        )
        return self.table.number(term)

    def shape(
        self, out: int, terms: Terms, loops: Mask, ends: tuple[int, int], *, is_output: bool
    ) -> Shape:
        """The shape of a product of terms; a split has at least ``ends[0]`` + 1 of them on its
        left, and at most ``ends[1]`` - 1."""
        key = (is_output, out, terms, *ends)
        known = self._shapes.get(key)
        if known is not None:
            return known
        tensors = self._stored(terms, is_output=is_output)
        product = _Product(out, terms, is_output, loops, self.pairs(tensors, loops))
        splits: list[Split] = []
        if len(terms) > 2 and loops.bit_count() > 1:
            for position in range(ends[0] + 1, ends[1]):
                for in_left in (True, False):
                    splits += self._splits(product, position, in_left)
        walked = 0
        for tensor in tensors:
            walked |= self._compressed[tensor] & loops
        result = (self.table.terms[out][1], loops)
        found = self._shapes[key] = Shape(
            self._results.setdefault(result, len(self._results)),
            self.orders.valid(loops, product.pairs),
            walked,
            self._strided((out, *terms), walked),
            tuple(splits),
        )
        return found

    def _splits(self, product: _Product, position: int, in_left: bool) -> Iterator[Split]:
        table, loops = self.table, product.loops
        left, right = product.terms[:position], product.terms[position:]
        produced, rest = (left, right) if in_left else (right, left)
        temporary = self.temporary(product.out, left, right, of_left=in_left)
        producer, consumer = table.union(produced), table.union(rest) | sum(temporary)
        for common, sequences in self.orders.common(loops, producer & consumer, product.pairs):
            if common == 0 and len(produced) == 1:
                continue
            if not producer & ~common or not consumer & ~common:
                continue
            inside = tuple([bit for bit in temporary if not bit & common])
            if len(inside) > self._largest_rank:
                continue
            made, left_over = table.dense(inside), table.all_without(rest, common)
            reads = (made, *left_over) if in_left else (*left_over, made)
            yield Split(
                Step(position, in_left, common, sequences, inside),
                self.shape(
                    made,
                    table.all_without(produced, common),
                    producer & ~common,
                    (0, len(produced)),
                    is_output=False,
                ),
                self.shape(
                    table.without(product.out, common),
                    reads,
                    consumer & ~common,
                    (1, len(reads)) if in_left else (0, len(reads) - 1),
                    is_output=product.is_output,
                ),
            )

    def temporary(self, out: int, left: Terms, right: Terms, *, of_left: bool) -> Bits:
        """The indices of one half that the other half or the output needs, in published order."""
        whole = self.table.terms[out][1]
        ours, theirs = self.table.appearing(left), self.table.appearing(right)
        both = [bit for bit in ours if bit in theirs]
        if of_left:
            return tuple(dict.fromkeys([*(bit for bit in whole if bit in ours), *both]))
        return tuple(dict.fromkeys([*both, *(bit for bit in whole if bit in theirs)]))

    def valid_orders(self, terms: Terms, loops: Mask, *, is_output: bool) -> tuple[Bits, ...]:
        """The orders of ``loops`` that the tensors of a product admit."""
        return self.orders.valid(loops, self.pairs(self._stored(terms, is_output=is_output), loops))

    def pairs(self, tensors: tuple[str, ...], loops: Mask) -> BitPairs:
        """The order constraints on an expression's loops, of sparse tensors and ``in_turn``."""
        known = self._pairs.get((tensors, loops))
        if known is None:
            known = self._pairs[tensors, loops] = tuple(
                pair
                for pairs in (*(self._pairs_of[tensor] for tensor in tensors), self._in_turn)
                for pair in pairs
                if pair[0] & loops and pair[1] & loops
            )
        return known

    def _as_bits(self, pairs: Pairs) -> BitPairs:
        return tuple((self._bit[one], self._bit[two]) for one, two in pairs)

    def _stored(self, terms: Terms, *, is_output: bool) -> tuple[str, ...]:
        """The sparse inputs of a product, and the statement's output."""
        names = [name for number in terms if (name := self.table.terms[number][0])]
        return (*names, self.statement.output.tensor) if is_output else tuple(names)

    def _strided(self, terms: Terms, walked: Mask) -> Mask:
        """Loops that are not the adjacent index of an operand that has them, or that walk
        coordinates while an operand is addressed by the coordinate."""
        mask = 0
        for number in terms:
            tensor, _, adjacent = self.table.terms[number]
            gathered = walked & ~self._compressed[tensor]
            mask |= self.table.masks[number] & (~adjacent | gathered)
        return mask
