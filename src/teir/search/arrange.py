"""The layouts of a tree: the order of every intermediate's axes, and where a permutation pays.

Three transformations, chosen together for the whole tree by dynamic programming over a few orders
of every result:

* the order of an intermediate: as its producer likes it, as its consumer likes it, as written;
* the operand whose lanes the kernel loads: the one that has the innermost index of the result;
* a permutation in front of a step: a Copy of an operand into a better order, or none.

The cost of a choice is the sum of `step_cycles` over the tree. Every intermediate is read once, so
the best choice below a node does not depend on what happens above it, given its order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

import msgspec

from teir.ir.nodes import Tensor
from teir.search.contraction import Contraction, dense_strides
from teir.search.machine import Machine
from teir.search.meetings import Given, Meeting, Part, meetings_below
from teir.search.step import Span, Step
from teir.search.step_cost import least_cycles, small_cycles, step_cycles

_ORDERS = 4
"""Orders tried for one result, its usual one apart."""
_LARGEST = 100
"""Meetings of a tree beyond which its layouts are the usual ones."""
_WORTH = 1 << 20
"""Products below which a tree runs in less time than choosing its layouts takes."""

_SMALL = 1 << 12
"""Products of a meeting that takes as long in any layout. Networks of 30 to 100 tensors are planned
in half the time, and run in 0.7 to 1.0 of it, as the model is not made for so few products."""
_GAIN = 0.03
"""The share of the cycles another layout must save: the model is no more exact than that."""

Order = tuple[str, ...]


class Arranged(msgspec.Struct, frozen=True, gc=False):
    """A meeting, and the order of its result's indices, outermost first."""

    parts: tuple[Given | Arranged, ...]
    order: Order


class Arrangement(msgspec.Struct, frozen=True, gc=False):
    """A tree with its layouts.

    ``cycles`` is what the model gives them on one core, ``written_cycles`` what it gives the
    layouts of `as_written`; None where there was nothing to choose.
    """

    root: Arranged
    cycles: float | None = None
    written_cycles: float | None = None


def as_written(root: Meeting) -> Arrangement:
    """Every result in the order the tree gave it, in its usual order where there is none."""
    made: dict[int, Arranged] = {}
    for meeting in meetings_below(root):
        parts = tuple(part if isinstance(part, Given) else made[id(part)] for part in meeting.parts)
        order = meeting.order if meeting.written is None or meeting is root else meeting.written
        made[id(meeting)] = Arranged(parts, order)
    return Arrangement(made[id(root)])


def arrange(root: Meeting, contraction: Contraction, machine: Machine) -> Arrangement:
    """The layouts of least cost among those tried; never dearer than those of `as_written`."""
    meetings = meetings_below(root)
    work = sum(_products(meeting, contraction.extents) for meeting in meetings)
    written = as_written(root)
    if not 1 < len(meetings) <= _LARGEST or work < _WORTH:
        return written
    layouts = _Layouts(contraction, machine)
    before = layouts.cycles(written.root)
    (best,) = layouts.choices(root, (), is_root=True)
    if best.cycles > (1 - _GAIN) * before:
        return Arrangement(written.root, before, before)
    assert isinstance(best.part, Arranged)
    return Arrangement(best.part, best.cycles, before)


def _products(meeting: Meeting, extents: Mapping[str, int]) -> int:
    return prod(extents[index] for index in {i for part in meeting.parts for i in part.order})


@dataclass(frozen=True, slots=True)
class _Choice:
    """A part in one layout, and the cycles spent until it is there."""

    cycles: float
    part: Given | Arranged
    strides: Mapping[str, int]

    @property
    def order(self) -> Order:
        return self.part.order


@dataclass(frozen=True, slots=True)
class _Layouts:
    """``known`` are the cycles of every step looked at, without those of its parts."""

    contraction: Contraction
    machine: Machine
    known: dict[tuple[object, ...], float] = field(default_factory=dict)

    def given(self, part: Given) -> _Choice:
        return _Choice(0.0, part, part.factor.strides)

    def cycles(self, root: Arranged) -> float:
        """What the model gives a tree of these layouts."""

        def walk(part: Given | Arranged) -> _Choice:
            if isinstance(part, Given):
                return self.given(part)
            return self.met(tuple(map(walk, part.parts)), part.order, is_root=part is root)

        return walk(root).cycles

    def met(self, parts: tuple[_Choice, ...], order: Order, is_root: bool) -> _Choice:
        """The parts met into a result of this order; the root's is the output's own layout."""
        if is_root:
            strides = self.contraction.output.strides
        else:
            width = self.contraction.compute.width
            strides, _ = dense_strides(order, self.contraction.extents, width)
        walks = tuple(id(p.part) if isinstance(p.part, Given) else p.order for p in parts)
        key = (walks, order, is_root)
        own = self.known.get(key)
        if own is None:
            own = self._cycles(parts, strides)
            self.known[key] = own
        cycles = sum(part.cycles for part in parts) + own
        return _Choice(cycles, Arranged(tuple(part.part for part in parts), order), strides)

    def _cycles(self, parts: tuple[_Choice, ...], strides: Mapping[str, int]) -> float:
        """Of the meeting alone; the model is not asked of one so small that any layout will do."""
        extents = self.contraction.extents
        products = prod(extents[index] for index in {i for part in parts for i in part.order})
        if products <= _SMALL:
            return small_cycles(products)
        return step_cycles(_step(parts, strides, self.contraction), self.machine)

    def cheapest(
        self, pairs: Iterable[tuple[_Choice, _Choice]], order: Order, is_root: bool
    ) -> _Choice:
        """The first cheapest of the pairs met; pairs that cannot be cheaper are not looked at."""
        best: _Choice | None = None
        least = 0.0
        for one, two in pairs:
            if best is None:
                indices = {*one.order, *two.order}
                products = prod(self.contraction.extents[index] for index in indices)
                least = least_cycles(products, self.contraction.compute, self.machine)
            elif one.cycles + two.cycles + least >= best.cycles:
                continue
            met = self.met(_lanes_first(one, two, order), order, is_root)
            if best is None or met.cycles < best.cycles:
                best = met
        assert best is not None
        return best

    def choices(self, part: Part, wanted: Iterable[Order], is_root: bool) -> list[_Choice]:
        """``part`` in its usual layout and in the wanted ones, each as cheap as can be."""
        match part:
            case Given():
                here = self.given(part)
                return [here, *(self.moved(here, o) for o in wanted if o != part.order)]
            case Meeting() if is_root:
                return [self.output(part)]
            case Meeting():
                written = () if part.written is None else (part.written,)
                orders = list(dict.fromkeys((part.order, *written, *wanted)))[: _ORDERS + 1]
                direct = self.direct(part, orders, is_root=False)
                best = min(direct, key=_cycles)
                moved = [self.moved(best, o) if o != best.order else best for o in orders]
                return [min(pair, key=_cycles) for pair in zip(direct, moved, strict=True)]

    def output(self, root: Meeting) -> _Choice:
        """The output written at once, or a product with long rows that is then permuted."""
        tried = self.direct(root, [root.order], is_root=True)
        if len(root.parts) == 2:
            grouped = [o for o in _grouped(root.order, *root.parts) if o != root.order]
            if grouped:
                through = self.direct(root, grouped, is_root=False)
                tried += [self.met((one,), root.order, is_root=True) for one in through]
        return min(tried, key=_cycles)

    def moved(self, choice: _Choice, order: Order) -> _Choice:
        """The same values copied into another order."""
        return self.met((choice,), order, is_root=False)

    def direct(self, part: Meeting, orders: Sequence[Order], is_root: bool) -> list[_Choice]:
        """The cheapest way to each order that writes it at once."""
        if len(part.parts) == 1:
            (only,) = part.parts
            below = self.choices(only, [_extended(order, only.order) for order in orders], False)
            return [
                min((self.met((one,), order, is_root) for one in below), key=_cycles)
                for order in orders
            ]
        one, two = part.parts
        likes = [_liked(order, one, two) for order in orders]
        ones = self.choices(one, _distinct(like[0] for like in likes), False)
        twos = self.choices(two, _distinct(like[1] for like in likes), False)
        return [
            self.cheapest(
                product(_relevant(ones, like[0]), _relevant(twos, like[1])), order, is_root
            )
            for order, like in zip(orders, likes, strict=True)
        ]


def _lanes_first(left: _Choice, right: _Choice, order: Order) -> tuple[_Choice, _Choice]:
    """The operand that has the innermost index of the result alone comes first."""
    if order and order[-1] in right.order and order[-1] not in left.order:
        return right, left
    return left, right


def _cycles(choice: _Choice) -> float:
    return choice.cycles


def _distinct(orders: Iterable[tuple[Order, ...]]) -> list[Order]:
    return list(dict.fromkeys(order for group in orders for order in group))


def _relevant(choices: Sequence[_Choice], liked: tuple[Order, ...]) -> list[_Choice]:
    """The usual layout, and those this result likes."""
    return [choices[0], *(choice for choice in choices[1:] if choice.order in liked)]


def _extended(order: Order, inside: Order) -> Order:
    """The order of the source of a sum or copy: what is summed comes last."""
    return (*order, *(index for index in inside if index not in order))


def _liked(order: Order, one: Part, two: Part) -> tuple[tuple[Order, ...], tuple[Order, ...]]:
    """Orders of both parts that a product into ``order`` reads without packing.

    The part whose free indices are the lanes is read along them, the other along the reduction;
    outermost come the indices of both.
    """
    both = tuple(index for index in order if index in one.order and index in two.order)
    guide = one if isinstance(one, Given) or not isinstance(two, Given) else two
    summed = tuple(i for i in guide.order if i in one.order and i in two.order and i not in order)
    liked = []
    for part in (one, two):
        free = tuple(index for index in order if index in part.order and index not in both)
        alone = tuple(i for i in part.order if i not in (*both, *free, *summed))
        packed = (*both, *alone, *summed, *free)
        if order and order[-1] in free:
            lanes = _last_run(order, free)
            liked.append(
                ((*both, *free[: len(free) - lanes], *alone, *summed, *free[-lanes:]), packed)
            )
        else:
            liked.append(((*both, *free, *alone, *summed), packed))
    return liked[0], liked[1]


def _grouped(order: Order, one: Part, two: Part) -> tuple[Order, Order]:
    """The order with the free indices of each part together, either part's last."""
    both = tuple(index for index in order if index in one.order and index in two.order)
    first = tuple(index for index in order if index in one.order and index not in both)
    second = tuple(index for index in order if index in two.order and index not in both)
    return (*both, *first, *second), (*both, *second, *first)


def _last_run(order: Order, free: Order) -> int:
    """How many of the last indices of ``order`` are free indices of one part."""
    run = 0
    while run < len(free) and order[-1 - run] in free:
        run += 1
    return run


def _step(parts: tuple[_Choice, ...], out: Mapping[str, int], contraction: Contraction) -> Step:
    extents, compute = contraction.extents, contraction.compute
    walks = [(f"part{place}", part.strides) for place, part in enumerate(parts)]
    walks.append(("out", out))
    strides: dict[str, dict[str, int]] = {index: {} for index in out}
    for name, walk in walks:
        for index, stride in walk.items():
            own = strides.setdefault(index, {})
            if stride:
                own[name] = stride
    axes = tuple([Span(index, extents[index], own, {}) for index, own in strides.items()])
    tensors = tuple([Tensor(name=name, data_type=compute) for name, _ in walks])
    return Step(tensors[:-1], tensors[-1], axes)
