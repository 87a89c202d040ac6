"""A program with its names looked up: what every rule and proof reads.

The schedule is walked once. Each node in its place becomes an `Iteration` or an `Invocation` that
knows its parent, its axis or primitive and the ancestors its guard refers to. A name that leads
nowhere becomes None; the rules about names report it and every other rule steps over it.
"""

from __future__ import annotations

import msgspec

from teir.dtypes import DataType
from teir.ir.check.tiles import Tile
from teir.ir.limits import ENTRIES, SCHEDULE_DEPTH
from teir.ir.nodes import (
    Axis,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Policy,
    Primitive,
    Program,
    Tensor,
)


class Iteration(msgspec.Struct, eq=False):
    """An iteration node in its place. ``depth`` counts the ancestors."""

    node: IterationNode
    parent: Iteration | None
    depth: int
    axis: Axis | None
    same_axis: Iteration | None
    """The ancestor that iterates the same axis already."""
    guard: tuple[ResolvedTerm, ...]

    @property
    def is_parallel(self) -> bool:
        return self.node.policy is Policy.PARALLEL


class Invocation(msgspec.Struct, eq=False):
    """An invocation node in its place."""

    node: InvocationNode
    parent: Iteration | None
    primitive: Primitive | None
    guard: tuple[ResolvedTerm, ...]


class ResolvedTerm(msgspec.Struct, eq=False):
    """A guard term and the ancestor that iterates its axis, None where there is none."""

    term: GuardTerm
    iteration: Iteration | None

    @property
    def is_first(self) -> bool:
        return self.term.kind is GuardKind.FIRST


Event = Iteration | Invocation | None
"""A step of the walk: enter an iteration node, meet an invocation node, or (None) leave the
innermost iteration node."""


class Resolved(msgspec.Struct, eq=False):
    """A program, its tables by name, and its schedule as a sequence of events."""

    program: Program
    tensors: dict[str, Tensor]
    axes: dict[str, Axis]
    primitives: dict[str, Primitive]
    scratch: dict[str, Iteration | None]
    """Scratch tensors with their owners; None owns for the whole run."""
    steps: list[tuple[Axis, str, str, int]]
    """Every stride and offset: its axis, the word "stride" or "offset", the tensor, the value."""
    sparse: tuple[Axis, ...]
    """The axes with segments."""
    guarded: list[Iteration | Invocation]
    """The places with guards, iterations first."""
    tiles: dict[tuple[str, str], Tile]
    """By primitive and tensor, what an invocation touches; filled by `teir.ir.check.tiles`."""
    iterations: list[Iteration]
    invocations: list[Invocation]
    events: list[Event]
    has_too_many_nodes: bool
    too_deep: Node | None

    @property
    def is_within_limits(self) -> bool:
        return not self.has_too_many_nodes and self.too_deep is None

    def width(self, tensor: str) -> int:
        return WIDTHS[self.tensors[tensor].data_type]


WIDTHS = {data_type: data_type.width for data_type in DataType}


def path_of(place: Iteration | Invocation) -> list[Iteration]:
    """The ancestors of a node, innermost first."""
    path = []
    above = place.parent
    while above is not None:
        path.append(above)
        above = above.parent
    return path


def resolve(program: Program) -> Resolved:
    """Look up every name of ``program`` and walk its schedule once.

    The walk stops at the limits of schedules, so that shared subtrees cannot make it endless.
    """
    tensors = {tensor.name: tensor for tensor in program.tensors}
    scratch: dict[str, Iteration | None] = {}
    for tensor in program.scratch:
        tensors[tensor.name] = tensor
        scratch[tensor.name] = None
    resolved = Resolved(
        program,
        tensors,
        {axis.name: axis for axis in program.axes},
        {primitive.name: primitive for primitive in program.primitives},
        scratch,
        [
            (axis, kind, tensor, value)
            for axis in program.axes
            for kind, values in (("stride", axis.strides), ("offset", axis.offsets))
            for tensor, value in values.items()
        ],
        tuple([axis for axis in program.axes if axis.segments]),
        [],
        {},
        [],
        [],
        [],
        False,
        None,
    )
    _walk(resolved)
    resolved.guarded += [step for step in resolved.iterations if step.guard]
    resolved.guarded += [leaf for leaf in resolved.invocations if leaf.guard]
    return resolved


def _walk(resolved: Resolved) -> None:
    axes, primitives = resolved.axes, resolved.primitives
    iterations, invocations, events = resolved.iterations, resolved.invocations, resolved.events
    active: dict[str, Iteration] = {}
    parent: Iteration | None = None
    stack: list[Node | None] = [*reversed(resolved.program.roots)]
    while stack:
        node = stack.pop()
        if node is None:
            assert parent is not None
            if parent.same_axis is None:
                del active[parent.node.axis]
            parent = parent.parent
            events.append(None)
            continue
        if len(iterations) + len(invocations) >= ENTRIES.largest:
            resolved.has_too_many_nodes = True
            return
        guard = _resolve_guard(node.guard, active) if node.guard else ()
        if isinstance(node, InvocationNode):
            invocation = Invocation(node, parent, primitives.get(node.primitive), guard)
            invocations.append(invocation)
            events.append(invocation)
            continue
        depth = 0 if parent is None else parent.depth + 1
        if depth >= SCHEDULE_DEPTH.largest:
            resolved.too_deep = resolved.too_deep or node
            continue
        name = node.axis
        same_axis = active.get(name)
        parent = Iteration(node, parent, depth, axes.get(name), same_axis, guard)
        if same_axis is None:
            active[name] = parent
        iterations.append(parent)
        events.append(parent)
        for tensor in node.scratch:
            resolved.tensors[tensor.name] = tensor
            resolved.scratch[tensor.name] = parent
        stack.append(None)
        stack.extend(reversed(node.children))


def _resolve_guard(
    guard: tuple[GuardTerm, ...], active: dict[str, Iteration]
) -> tuple[ResolvedTerm, ...]:
    return tuple(ResolvedTerm(term, active.get(term.axis)) for term in guard)
