"""The space of a statement, generated: each different expression once (5.1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from teir.search.sparse.shapes import Shape, Shapes
from teir.search.sparse.space import Expression, Fusion, Identity, Ordered, Space, Step, Unfused
from teir.search.sparse.statement import Pairs, Statement
from teir.search.sparse.terms import Terms


def generated(shapes: Shapes, identity: Identity) -> int:
    """The number of schedules, equal ones of different input orders counted again."""
    return _Generator(shapes, identity, None).space().generated


def space_of(
    statement: Statement, identity: Identity, largest_rank: int, in_turn: Pairs = ()
) -> Space:
    """The space of a statement: the given order of the inputs, then every other one that is not
    the reverse of one before. ``largest_rank`` bounds the dimensions of temporaries (5.2). Of every
    pair of ``in_turn`` the first loop stays outside."""
    return space_within(Shapes(statement, largest_rank, in_turn), identity, largest_rank)


def space_within(shapes: Shapes, identity: Identity, largest_rank: int) -> Space:
    """As `space_of`, of shapes whose temporaries may have more dimensions."""
    return _Generator(shapes, identity, largest_rank).space()


_Split = tuple[Step, Expression, Expression]


class _Generator:
    """The tables of one generation; dropped with it.

    Without a rank expressions are counted, and what they are made of is not kept.
    """

    def __init__(self, shapes: Shapes, identity: Identity, largest_rank: int | None) -> None:
        self._shapes = shapes
        self._by_names = identity is Identity.NAMES
        self._is_counted = largest_rank is None
        self._largest_rank = len(shapes.statement.indices) if largest_rank is None else largest_rank
        self._known: dict[object, Expression] = {}
        self._unique: dict[tuple[int, ...], Expression] = {}

    def space(self) -> Space:
        shapes, statement = self._shapes, self._shapes.statement
        name, out = statement.output.tensor, shapes.term(statement.output)
        loops = (1 << len(statement.indices)) - 1
        orders: list[Ordered] = []
        for order in _input_orders(len(statement.inputs)):
            inputs = tuple(statement.inputs[number] for number in order)
            tensors = tuple(access.tensor for access in inputs)
            terms = tuple(map(shapes.term, inputs))
            if self._by_names:
                self._known = {}
            shape = shapes.shape(out, terms, loops, (0, len(terms)), is_output=True)
            expression = self._expression(shape, name, tensors, 1)
            pipelines = () if orders else self._pipelines(name, tensors, out, terms, 1)
            orders.append(Ordered(order, expression, pipelines))
        return Space(statement=statement, names=statement.indices, orders=tuple(orders))

    def _expression(
        self, shape: Shape, name: str, tensors: tuple[str, ...], depth: int
    ) -> Expression:
        key = (name, shape.result, tensors) if self._by_names else id(shape)
        known = self._known.get(key)
        if known is not None:
            return known
        inner = "_" * depth + name
        splits: list[_Split] = []
        for split in shape.splits:
            step = split.step
            if len(step.temporary) > self._largest_rank:
                continue
            left, right = tensors[: step.position], tensors[step.position :]
            if step.producer_in_left:
                made, reads = left, (inner, *right)
            else:
                made, reads = right, (*left, inner)
            producer = self._expression(split.producer, inner, made, depth + 1)
            consumer = self._expression(split.consumer, name, reads, depth + 1)
            splits.append((step, producer, consumer))
        found = self._known[key] = self._made(shape, splits)
        return found

    def _made(self, shape: Shape, splits: list[_Split]) -> Expression:
        """One object for all expressions with the same schedules."""
        if self._is_counted:
            return _made_of(shape, splits, ())
        key = (id(shape), *[id(half) for _, *halves in splits for half in halves])
        known = self._unique.get(key)
        if known is None:
            fusions = tuple([Fusion(*split) for split in splits])
            known = self._unique[key] = _made_of(shape, splits, fusions)
        return known

    def _pipelines(
        self, name: str, tensors: tuple[str, ...], out: int, terms: Terms, depth: int
    ) -> tuple[Unfused, ...]:
        positions = range(1, len(terms)) if len(terms) > 2 else ()
        made = (self._pipeline(name, tensors, out, terms, depth, place) for place in positions)
        return tuple(pipeline for pipeline in made if pipeline is not None)

    def _pipeline(
        self,
        name: str,
        tensors: tuple[str, ...],
        out: int,
        terms: Terms,
        depth: int,
        position: int,
    ) -> Unfused | None:
        """Both halves of a product stored; None where one of them has too many dimensions."""
        shapes, table = self._shapes, self._shapes.table
        left, right = terms[:position], terms[position:]
        one = shapes.temporary(out, left, right, of_left=True)
        other = shapes.temporary(out, left, right, of_left=False)
        rank = max(len(one), len(other))
        if rank > self._largest_rank:
            return None
        mark = "0" * depth
        halves = (
            (f"{mark}{name}", tensors[:position], table.dense(one), left),
            (f"{name}{mark}", tensors[position:], table.dense(other), right),
        )
        first, second = (self._half(*half, depth + 1) for half in halves)
        loops = sum(one) | sum(other) | table.masks[out]
        is_output = name == shapes.statement.output.tensor
        return Unfused(
            position,
            first,
            second,
            self._pipelines(*halves[0], depth + 1),
            self._pipelines(*halves[1], depth + 1),
            shapes.valid_orders(terms, loops, is_output=is_output),
            rank,
        )

    def _half(
        self, name: str, tensors: tuple[str, ...], out: int, terms: Terms, depth: int
    ) -> Expression:
        loops, ends = self._shapes.table.union(terms), (0, len(terms))
        shape = self._shapes.shape(out, terms, loops, ends, is_output=False)
        return self._expression(shape, name, tensors, depth)


def _made_of(shape: Shape, splits: list[_Split], fusions: tuple[Fusion, ...]) -> Expression:
    count = len(shape.orders)
    for step, producer, consumer in splits:
        count += len(step.sequences) * producer.count * consumer.count
    return Expression(shape.orders, shape.walked, shape.strided, fusions, count)


def _input_orders(count: int) -> Iterator[tuple[int, ...]]:
    """The given order, then all others that come before their reverse."""
    return (order for order in permutations(range(count)) if order <= order[::-1])
