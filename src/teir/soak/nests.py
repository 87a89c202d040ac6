"""Random loop nests around one statement, right by construction.

A statement is one primitive operation over a set of logical axes. Its nest iterates some of the
axes, whole or split into tiles with a remainder branch, and leaves the others to the primitive.
What initialises and what finishes the output (a Zero, a ReLU) is placed apart by the caller, beside
the loop of the first reduced axis, or at the leaves under guards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from teir.dtypes import DataType
from teir.ir.lanes import LANES
from teir.ir.nodes import (
    Axis,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
)
from teir.soak.draws import DrawInt, chance, choose, shuffled, subset
from teir.soak.layouts import split

INVOCATIONS = 300
"""A nest iterates at most about so many points; more is left to the primitives."""


class Placement(Enum):
    """Where the initialisation or the finish of an output stands."""

    NONE = "none"
    BESIDE = "beside the loop of the first reduced axis"
    GUARDED = "at the leaves, guarded by first or last of the reduced axes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One operation over logical axes; an axis with stride 0 on the output is reduced."""

    operation: Operation
    inputs: tuple[str, ...]
    output: str
    axes: tuple[Axis, ...]
    data_type: DataType | None = None
    zero: Placement = Placement.NONE
    relu: Placement = Placement.NONE
    complete: bool = True
    """Every element must be computed: no guard may skip work (the output is scratch)."""
    metadata: tuple[tuple[str, str], ...] = ()
    """Entries of the primitive; lanes only where it consumes a reduced axis."""

    def reduces(self, axis: Axis) -> bool:
        return axis.strides[self.output] == 0


class Sheet:
    """The axes and primitives of a program under construction, and its unused names."""

    def __init__(self) -> None:
        self.axes: dict[str, Axis] = {}
        self.primitives: dict[Primitive, str] = {}
        self._names = 0

    def name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def primitive(self, primitive: Primitive, axes: Iterable[Axis]) -> str:
        """The name of a primitive equal to ``primitive``, whose own name is left out."""
        self.axes.update((axis.name, axis) for axis in axes)
        if primitive not in self.primitives:
            self.primitives[primitive] = self.name(f"{primitive.operation.value.lower()}_")
        return self.primitives[primitive]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the writing of a nest stands.

    ``first`` (``last``) are the guard terms that hold at the first (last) access of an output
    element; None where this branch never is the first (last).
    """

    left: tuple[Axis, ...]
    path: tuple[Axis, ...] = ()
    first: tuple[GuardTerm, ...] | None = ()
    last: tuple[GuardTerm, ...] | None = ()
    zero: Placement
    relu: Placement

    def entered(self, axis: Axis, reduced: bool) -> Place:
        """Below the loop over ``axis``, which is no longer left."""
        inside = replace(self, path=(*self.path, axis))
        if not reduced:
            return inside
        return replace(
            inside,
            first=_and(self.first, GuardTerm(kind=GuardKind.FIRST, axis=axis.name)),
            last=_and(self.last, GuardTerm(kind=GuardKind.LAST, axis=axis.name)),
        )


def write_nest(
    draw: DrawInt, sheet: Sheet, statement: Statement, shared: tuple[Axis, ...] = ()
) -> tuple[Node, ...]:
    """The nodes of ``statement`` below loops over the ``shared`` axes, which the caller writes."""
    place = Place(left=statement.axes, zero=statement.zero, relu=statement.relu)
    for axis in shared:
        place = place.entered(axis, statement.reduces(axis))
    return _Nest(draw, sheet, statement).nodes(place)


class _Nest:
    def __init__(self, draw: DrawInt, sheet: Sheet, statement: Statement) -> None:
        self._draw = draw
        self._sheet = sheet
        self._statement = statement

    def nodes(self, place: Place) -> tuple[Node, ...]:
        points = 1
        for axis in place.path:
            points *= axis.extent
        loops = [axis for axis in place.left if points * axis.extent <= INVOCATIONS]
        if not loops or chance(self._draw, 35):
            return self._leaf(place)
        axis = choose(self._draw, loops)
        if not self._statement.reduces(axis):
            return self._loop(axis, place)
        before = self._fill(place) if place.zero is Placement.BESIDE else ()
        after = self._clip(place) if place.relu is Placement.BESIDE else ()
        inside = replace(
            place,
            zero=Placement.NONE if before else place.zero,
            relu=Placement.NONE if after else place.relu,
        )
        return (*before, *self._loop(axis, inside), *after)

    def _loop(self, axis: Axis, place: Place) -> tuple[Node, ...]:
        left = tuple(other for other in place.left if other.name != axis.name)
        reduced = self._statement.reduces(axis)
        if axis.extent == 1 or not chance(self._draw, 40):
            return (self._iterate(axis, replace(place, left=left).entered(axis, reduced)),)
        tile = self._draw(1, axis.extent)
        stem = self._sheet.name(f"{axis.name}_")
        outer, inner, rest = split(axis, tile, (f"{stem}o", f"{stem}i", f"{stem}r"))
        tiles = replace(place, left=(*left, inner)).entered(outer, reduced)
        if rest is None:
            return (self._iterate(outer, tiles),)
        behind = replace(place, left=(*left, rest))
        if reduced:
            tiles, behind = replace(tiles, last=None), replace(behind, first=None)
        branches = ((self._iterate(outer, tiles),), self.nodes(behind))
        one, other = branches if reduced else shuffled(self._draw, branches)
        return (*one, *other)

    def _iterate(self, axis: Axis, place: Place) -> Node:
        self._sheet.axes[axis.name] = axis
        parallel = not self._statement.reduces(axis) and chance(self._draw, 35)
        return IterationNode(
            name=self._sheet.name("n"),
            axis=axis.name,
            policy=Policy.PARALLEL if parallel else Policy.SEQUENTIAL,
            children=self.nodes(place),
            guard=self._some_guard(place.path[:-1]),
        )

    def _leaf(self, place: Place) -> tuple[Node, ...]:
        statement = self._statement
        before: tuple[Node, ...] = ()
        after: tuple[Node, ...] = ()
        if place.zero is Placement.BESIDE:
            before = self._fill(place)
        elif place.zero is Placement.GUARDED and place.first is not None:
            before = (self._tile(Operation.ZERO, place, place.first),)
        if place.relu is Placement.BESIDE:
            after = self._clip(place)
        elif place.relu is Placement.GUARDED and place.last is not None:
            after = (self._tile(Operation.RELU, place, place.last),)
        main = self._invoke(
            _with_roles(self._draw, statement, place.left),
            place.left,
            self._some_guard(place.path),
        )
        return (*before, main, *after)

    def _fill(self, place: Place) -> tuple[Node, ...]:
        """Zero over the free axes that are left, with loops of its own."""
        zero = Statement(
            operation=Operation.ZERO,
            inputs=(),
            output=self._statement.output,
            axes=tuple(axis for axis in place.left if not self._statement.reduces(axis)),
        )
        return _Nest(self._draw, self._sheet, zero).nodes(
            replace(place, left=zero.axes, zero=Placement.NONE, relu=Placement.NONE)
        )

    def _clip(self, place: Place) -> tuple[Node, ...]:
        return (self._tile(Operation.RELU, place, ()),)

    def _tile(self, operation: Operation, place: Place, guard: tuple[GuardTerm, ...]) -> Node:
        """One invocation over the free axes that are left: a Zero, or a ReLU in place."""
        output = self._statement.output
        axes = tuple(axis for axis in place.left if not self._statement.reduces(axis))
        statement = Statement(
            operation=operation,
            inputs=(output,) if operation is Operation.RELU else (),
            output=output,
            axes=axes,
            data_type=None,
        )
        return self._invoke(_with_roles(self._draw, statement, axes), axes, guard)

    def _invoke(
        self, primitive: Primitive, axes: tuple[Axis, ...], guard: tuple[GuardTerm, ...]
    ) -> Node:
        return InvocationNode(
            name=self._sheet.name("n"),
            primitive=self._sheet.primitive(primitive, axes),
            guard=guard,
        )

    def _some_guard(self, path: tuple[Axis, ...]) -> tuple[GuardTerm, ...]:
        """A guard that skips work, where work may be skipped."""
        if self._statement.complete or not chance(self._draw, 8):
            return ()
        kinds = (GuardKind.FIRST, GuardKind.LAST)
        return tuple(
            GuardTerm(kind=choose(self._draw, kinds), axis=axis.name)
            for axis in subset(self._draw, path, 40)
        )


def _with_roles(draw: DrawInt, statement: Statement, axes: tuple[Axis, ...]) -> Primitive:
    """The primitive that consumes ``axes``, each in a role its strides suggest."""
    lists: dict[str, list[str]] = {"c": [], "m": [], "n": [], "k": []}
    for axis in shuffled(draw, axes):
        lists[_role(draw, statement, axis)].append(axis.name)
    return Primitive(
        name="",
        operation=statement.operation,
        inputs=statement.inputs,
        output=statement.output,
        c=tuple(lists["c"]),
        m=tuple(lists["m"]),
        n=tuple(lists["n"]),
        k=tuple(lists["k"]),
        data_type=statement.data_type,
        metadata=tuple(one for one in statement.metadata if lists["k"] or one[0] != LANES),
    )


def _role(draw: DrawInt, statement: Statement, axis: Axis) -> str:
    if statement.operation is not Operation.CONTRACTION:
        return choose(draw, ("m", "n"))
    if statement.reduces(axis):
        return "k"
    on_inputs = [axis.strides[tensor] != 0 for tensor in statement.inputs]
    if all(on_inputs) and chance(draw, 50):
        return "c"
    if len(on_inputs) != 2:
        return "m"
    return choose(draw, ("m", "n")) if chance(draw, 10) else "m" if on_inputs[0] else "n"


def _and(terms: tuple[GuardTerm, ...] | None, term: GuardTerm) -> tuple[GuardTerm, ...] | None:
    return None if terms is None else (*terms, term)
