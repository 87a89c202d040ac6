"""The space of a statement, generated: each different expression once (5.1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations

import msgspec

from teir.expr.index_notation import Access
from teir.search.sparse.space import (
    BitPairs,
    Bits,
    Expression,
    Fusion,
    Identity,
    Mask,
    Ordered,
    Space,
    Step,
    Term,
    Unfused,
)
from teir.search.sparse.statement import Statement


class _Shape(msgspec.Struct, frozen=True, gc=False):
    """What of an expression does not depend on names."""

    orders: tuple[Bits, ...]
    walked: Mask
    strided: Mask
    steps: tuple[Step, ...]


def space_of(statement: Statement, identity: Identity, largest_rank: int | None = None) -> Space:
    """The space of ``statement``: the given order of the inputs, then every other one that is not
    the reverse of one before. ``largest_rank`` bounds the dimensions of temporaries (5.2)."""
    return _Generator(statement, identity, largest_rank).space()


class _Generator:
    """The tables of one generation; dropped with it."""

    def __init__(self, statement: Statement, identity: Identity, largest_rank: int | None) -> None:
        self._statement = statement
        self._identity = identity
        self._largest_rank = len(statement.indices) if largest_rank is None else largest_rank
        self._names = statement.indices
        self._bit = {index: 1 << number for number, index in enumerate(self._names)}
        self._pairs = {
            access.tensor: self._bits_of_pairs(access.tensor) for access in statement.accesses
        }
        self._compressed = {
            access.tensor: sum(
                self._bit[index] for index in statement.compressed_indices(access.tensor)
            )
            for access in statement.accesses
        }
        self._known: dict[tuple[object, ...], Expression] = {}
        self._unique: dict[tuple[int, ...], Expression] = {}
        self._shapes: dict[tuple[object, ...], _Shape] = {}
        self._orders: dict[tuple[Mask, BitPairs], tuple[Bits, ...]] = {}
        self._prefixes: dict[
            tuple[Mask, Mask, BitPairs], tuple[tuple[Mask, tuple[Bits, ...]], ...]
        ] = {}

    def _bits_of_pairs(self, tensor: str) -> BitPairs:
        pairs = self._statement.order_pairs((tensor,))
        return tuple((self._bit[before], self._bit[after]) for before, after in pairs)

    def _term(self, access: Access) -> Term:
        levels = self._statement.level_indices(access.tensor)
        return (
            access.tensor if self._compressed[access.tensor] else "",
            tuple(self._bit[index] for index in access.indices),
            self._bit[levels[-1]] if levels else 0,
        )

    def space(self) -> Space:
        statement = self._statement
        name = statement.output.tensor
        out = self._term(statement.output)
        loops = (1 << len(self._names)) - 1
        orders: list[Ordered] = []
        for order in _input_orders(len(statement.inputs)):
            inputs = tuple(statement.inputs[number] for number in order)
            tensors = tuple(access.tensor for access in inputs)
            terms = tuple(map(self._term, inputs))
            if self._identity is Identity.NAMES:
                self._known = {}
            expression = self._expression(name, tensors, out, terms, loops, 0, len(terms), 1)
            pipelines = () if orders else self._pipelines(name, tensors, out, terms, 1)
            orders.append(Ordered(order, expression, pipelines))
        return Space(statement=statement, names=self._names, orders=tuple(orders))

    def _expression(
        self,
        name: str,
        tensors: tuple[str, ...],
        out: Term,
        terms: tuple[Term, ...],
        loops: Mask,
        first: int,
        last: int,
        depth: int,
    ) -> Expression:
        is_output = name == self._statement.output.tensor
        shape_key = (is_output, out, terms, first, last)
        by_names = self._identity is Identity.NAMES
        key = (name, out[1], loops, tensors) if by_names else shape_key
        known = self._known.get(key)
        if known is not None:
            return known
        shape = self._shapes.get(shape_key)
        if shape is None:
            shape = self._shapes[shape_key] = self._shape(is_output, out, terms, loops, first, last)
        inner = "_" * depth + name
        below: list[Expression] = []
        for step in shape.steps:
            left, right = tensors[: step.position], tensors[step.position :]
            made, rest = (left, right) if step.producer_in_left else (right, left)
            reads = (inner, *rest) if step.producer_in_left else (*rest, inner)
            width = len(made)
            below.append(
                self._expression(
                    *(inner, made, step.temporary, step.producer, step.producer_loops),
                    *(0, width, depth + 1),
                )
            )
            below.append(
                self._expression(
                    *(name, reads, step.output, step.consumer, step.consumer_loops),
                    *(step.first, step.last, depth + 1),
                )
            )
        self._known[key] = found = self._shared(shape, below)
        return found

    def _shared(self, shape: _Shape, below: list[Expression]) -> Expression:
        """One object for all expressions with the same schedules."""
        key = (id(shape), *map(id, below))
        if key not in self._unique:
            halves = zip(shape.steps, below[::2], below[1::2], strict=True)
            fusions = tuple(Fusion(*fusion) for fusion in halves)
            self._unique[key] = Expression(
                shape.orders,
                shape.walked,
                shape.strided,
                fusions,
                len(shape.orders) + sum(fusion.count for fusion in fusions),
            )
        return self._unique[key]

    def _shape(
        self,
        is_output: bool,
        out: Term,
        terms: tuple[Term, ...],
        loops: Mask,
        first: int,
        last: int,
    ) -> _Shape:
        pairs = self._pairs_of(is_output, terms, loops)
        steps: list[Step] = []
        if len(terms) > 2 and loops.bit_count() > 1:
            for position in range(first + 1, last):
                for in_left in (True, False):
                    steps += self._steps(out, terms, position, in_left, loops, pairs)
        walked = self._walked(is_output, terms) & loops
        strided = self._strided((out, *terms), walked)
        return _Shape(self._valid_orders(loops, pairs), walked, strided, tuple(steps))

    def _steps(
        self,
        out: Term,
        terms: tuple[Term, ...],
        position: int,
        in_left: bool,
        loops: Mask,
        pairs: BitPairs,
    ) -> Iterator[Step]:
        left, right = terms[:position], terms[position:]
        produced, rest = (left, right) if in_left else (right, left)
        temporary = _temporary(out[1], left, right, in_left)
        producer, consumer = _union(produced), _union(rest) | sum(temporary)
        for common, sequences in self._common_loops(loops, producer & consumer, pairs):
            if common == 0 and len(produced) == 1:
                continue
            if not producer & ~common or not consumer & ~common:
                continue
            result = _without(temporary, common)
            made = _dense_term(result)
            if len(result) > self._largest_rank:
                continue
            left_over = _terms_without(rest, common)
            reads = (made, *left_over) if in_left else (*left_over, made)
            yield Step(
                position=position,
                producer_in_left=in_left,
                common=common,
                sequences=sequences,
                temporary=made,
                producer=_terms_without(produced, common),
                producer_loops=producer & ~common,
                output=(out[0], _without(out[1], common), out[2]),
                consumer=reads,
                consumer_loops=consumer & ~common,
                first=1 if in_left else 0,
                last=len(reads) if in_left else len(reads) - 1,
            )

    def _pipelines(
        self, name: str, tensors: tuple[str, ...], out: Term, terms: tuple[Term, ...], depth: int
    ) -> tuple[Unfused, ...]:
        if len(terms) <= 2:
            return ()
        is_output = name == self._statement.output.tensor
        made = []
        for position in range(1, len(terms)):
            left, right = terms[:position], terms[position:]
            one = _temporary(out[1], left, right, True)
            other = _temporary(out[1], left, right, False)
            rank = max(len(one), len(other))
            if rank > self._largest_rank:
                continue
            loops = sum(one) | sum(other) | sum(out[1])
            mark = "0" * depth
            halves = (
                (f"{mark}{name}", tensors[:position], _dense_term(one), left),
                (f"{name}{mark}", tensors[position:], _dense_term(other), right),
            )
            first, second = (
                self._expression(*half, _union(half[3]), 0, len(half[3]), depth + 1)
                for half in halves
            )
            made.append(
                Unfused(
                    position,
                    first,
                    second,
                    self._pipelines(*halves[0], depth + 1),
                    self._pipelines(*halves[1], depth + 1),
                    self._valid_orders(loops, self._pairs_of(is_output, terms, loops)),
                    rank,
                )
            )
        return tuple(made)

    def _pairs_of(self, is_output: bool, terms: tuple[Term, ...], loops: Mask) -> BitPairs:
        """The order constraints of the tensors of an expression, on its own loops."""
        tensors = [term[0] for term in terms if term[0]]
        tensors += self._output_names(is_output)
        return tuple(
            pair
            for tensor in tensors
            for pair in self._pairs[tensor]
            if pair[0] & loops and pair[1] & loops
        )

    def _walked(self, is_output: bool, terms: tuple[Term, ...]) -> Mask:
        """The indices of compressed levels of an expression's tensors."""
        mask = 0
        for tensor in (*(term[0] for term in terms), *self._output_names(is_output)):
            mask |= self._compressed.get(tensor, 0)
        return mask

    def _strided(self, terms: tuple[Term, ...], walked: Mask) -> Mask:
        """Loops that are not the adjacent index of an operand that has them, or that walk
        coordinates while an operand is addressed by the coordinate."""
        mask = 0
        for tensor, bits, adjacent in terms:
            stored = self._compressed.get(tensor, 0)
            for bit in bits:
                if bit != adjacent or (bit & walked and not bit & stored):
                    mask |= bit
        return mask

    def _output_names(self, is_output: bool) -> tuple[str, ...]:
        return (self._statement.output.tensor,) if is_output else ()

    def _valid_orders(self, loops: Mask, pairs: BitPairs) -> tuple[Bits, ...]:
        key = (loops, pairs)
        if key not in self._orders:
            self._orders[key] = tuple(_orders(loops, pairs)) if loops else ()
        return self._orders[key]

    def _common_loops(
        self, loops: Mask, shared: Mask, pairs: BitPairs
    ) -> tuple[tuple[Mask, tuple[Bits, ...]], ...]:
        """The longest common prefixes over all valid orders of ``loops``, by their set."""
        key = (loops, shared, pairs)
        if key not in self._prefixes:
            found: dict[Mask, list[Bits]] = {}
            for prefix in _prefixes(loops, shared, pairs, ()):
                found.setdefault(sum(prefix), []).append(prefix)
            self._prefixes[key] = tuple((mask, tuple(found[mask])) for mask in found)
        return self._prefixes[key]


def _input_orders(count: int) -> Iterator[tuple[int, ...]]:
    """The given order, then all others that come before their reverse."""
    return (order for order in permutations(range(count)) if order <= order[::-1])


@lru_cache(maxsize=1 << 14)
def _without(bits: Bits, mask: Mask) -> Bits:
    return tuple(bit for bit in bits if not bit & mask)


def _dense_term(bits: Bits) -> Term:
    """A temporary with its indices in this order."""
    return ("", bits, bits[-1] if bits else 0)


def _terms_without(terms: tuple[Term, ...], mask: Mask) -> tuple[Term, ...]:
    return tuple((tensor, _without(bits, mask), adjacent) for tensor, bits, adjacent in terms)


def _union(terms: tuple[Term, ...]) -> Mask:
    mask = 0
    for _, bits, _ in terms:
        mask |= sum(bits)
    return mask


def _appearing(terms: tuple[Term, ...]) -> Bits:
    return tuple(dict.fromkeys(bit for _, bits, _ in terms for bit in bits))


def _temporary(out: Bits, left: tuple[Term, ...], right: tuple[Term, ...], of_left: bool) -> Bits:
    """The indices of one half that the other half or the output needs, in the published order."""
    ours, theirs = _appearing(left), _appearing(right)
    both = [bit for bit in ours if bit in theirs]
    if of_left:
        return tuple(dict.fromkeys([*(bit for bit in out if bit in ours), *both]))
    return tuple(dict.fromkeys([*both, *(bit for bit in out if bit in theirs)]))


def _free(left: Mask, pairs: BitPairs) -> list[int]:
    """The loops that may come next."""
    blocked = 0
    for before, after in pairs:
        if before & left:
            blocked |= after
    bits = left & ~blocked
    return [1 << place for place in range(bits.bit_length()) if bits >> place & 1]


def _orders(left: Mask, pairs: BitPairs) -> Iterator[Bits]:
    if not left:
        yield ()
    for bit in _free(left, pairs):
        for rest in _orders(left & ~bit, pairs):
            yield (bit, *rest)


def _prefixes(left: Mask, shared: Mask, pairs: BitPairs, prefix: Bits) -> Iterator[Bits]:
    """Sequences of shared loops that some valid order starts with and does not continue."""
    free = _free(left, pairs)
    if not left or any(not bit & shared for bit in free):
        yield prefix
    for bit in free:
        if bit & shared:
            yield from _prefixes(left & ~bit, shared, pairs, (*prefix, bit))
