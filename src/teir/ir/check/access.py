"""The addresses one invocation touches of one tensor, seen from an iteration node above it."""

from __future__ import annotations

from typing import NamedTuple

from teir.ir.check.collision import Term
from teir.ir.check.resolved import Invocation, Iteration, Resolved
from teir.ir.check.tiles import Tile
from teir.ir.nodes import Axis

_ONE_ELEMENT = Tile(0, (), 0)


class PositionTerm(NamedTuple):
    """A sparse axis that moves the address by its position instead of its coordinate.

    Iterations of one axis at one position have read the same bounds: segments are disjoint, so
    ``pos``, the access to the bounds, meets itself too.
    """

    stride: int
    pos_tensor: str
    axis: str
    segment: int
    pos: Access


class Access(NamedTuple):
    """The addresses begin + sum of stride * index, index below extent, plus position terms.

    Two equal accesses touch the same bytes. ``first`` and ``last`` bound the index of the node
    the access is seen from; ``above`` holds the guard terms on the ancestors of that node.
    """

    begin: int
    terms: tuple[tuple[int, int], ...]
    positions: tuple[PositionTerm, ...]
    first: int
    last: int
    above: frozenset[tuple[Iteration, bool]]

    @property
    def end(self) -> int:
        """The highest address of a first byte; position terms not counted."""
        end = self.begin
        for stride, extent in self.terms:
            end += stride * (extent - 1)
        return end


def guarded_indices(leaf: Invocation, path: list[Iteration]) -> dict[Iteration, bool] | None:
    """Per iteration node: True where guards ask for its first iteration, False for its last.

    None where the guards contradict each other and the leaf is never reached. An axis of extent 1
    is always at its first and its last iteration, and asks nothing.
    """
    asked: dict[Iteration, bool] = {}
    places: tuple[Invocation | Iteration, ...] = (leaf, *path)
    for place in places:
        if not place.guard:
            continue
        for resolved_term in place.guard:
            step = resolved_term.iteration
            assert step is not None
            assert step.axis is not None
            if step.axis.extent == 1:
                continue
            known = asked.setdefault(step, resolved_term.is_first)
            if known is not resolved_term.is_first and not step.axis.segments:
                return None
    return asked


def access_from(
    resolved: Resolved,
    tensor: str,
    path: list[Iteration],
    tile: Tile,
    asked: dict[Iteration, bool],
    seen_from: Iteration | None,
) -> Access:
    """The access to ``tensor`` below ``path`` (innermost first), seen from a node of the path.

    With ``seen_from`` None it is seen from outside the schedule, every axis varying.
    """
    begin = tile.begin
    terms = [*tile.terms]
    positions = []
    is_below = True
    first, last = 0, 0
    above = []
    for number, step in enumerate(path):
        assert step.axis is not None
        axis = step.axis
        stride = axis.strides[tensor]
        begin += axis.offsets[tensor]
        at_first = None if axis.segments else asked.get(step)
        if not is_below:
            if step in asked:
                above.append((step, asked[step]))
            continue
        if step is seen_from:
            is_below = False
            first = axis.extent - 1 if at_first is False else 0
            last = 0 if at_first is True else axis.extent - 1
            continue
        segment = position_segment(axis, tensor)
        if segment is not None:
            outer = path[number + 1 :]
            name = axis.segments[segment].pos
            pos = access_from(resolved, name, outer, _ONE_ELEMENT, asked, seen_from)
            positions.append(PositionTerm(stride, name, axis.name, segment, pos))
        elif at_first is None:
            if stride and axis.extent > 1:
                terms.append((stride, axis.extent))
        elif at_first is False:
            begin += stride * (axis.extent - 1)
    terms.sort(reverse=True)
    return Access(begin, tuple(terms), tuple(positions), first, last, frozenset(above))


def position_segment(axis: Axis, tensor: str) -> int | None:
    """The number of the segment whose position addresses ``tensor``, None for the coordinate."""
    for number, segment in enumerate(axis.segments):
        if tensor == segment.crd or tensor in segment.by_position:
            return number
    return None


def differences(write: Access, other: Access) -> list[Term]:
    """Per stride the range of (index in the write) - (index in the other access)."""
    if write.terms == other.terms:
        return [(stride, 1 - extent, extent - 1) for stride, extent in write.terms]
    ranges: dict[int, tuple[int, int]] = {}
    for stride, extent in write.terms:
        low, high = ranges.get(stride, (0, 0))
        ranges[stride] = (low, high + extent - 1)
    for stride, extent in other.terms:
        low, high = ranges.get(stride, (0, 0))
        ranges[stride] = (low - (extent - 1), high)
    return [(stride, low, high) for stride, (low, high) in ranges.items()]
