"""What the schedule of a plain program touches: one walk over its nodes, the numbers at hand.

The bytes of every tensor grow from the leaves outwards, loop by loop. Beside them it is noted what
iterations of parallel nodes share, and what of scratch is written before it is read.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from teir.ir.check.collision import Budget, is_injective
from teir.ir.check.plain_tables import Leaf, Schedule, Tile, Walk
from teir.ir.check.regions import Region, is_covered, region
from teir.ir.nodes import InvocationNode, IterationNode, Policy

Hull = dict[str, tuple[int, int]]
"""The lowest byte touched of every tensor, and the one after the highest, in one iteration of the
loops around."""

Level = dict[str, list[Region]]
"""What was written since a running loop began its iteration, by scratch tensor."""


def walked(
    schedule: Schedule, walks: dict[str, Walk], leaves: dict[str, Leaf], budget: Budget
) -> Walked | None:
    """What the schedule touches; None where a rule about paths does not hold."""
    found = Walked(schedule, walks, leaves, budget)
    running = found.running
    for node in schedule.events:
        if node is None:
            found.leave()
            continue
        for term in node.guard:
            if term.axis not in running:
                return None
        is_plain = found.touch(node) if isinstance(node, InvocationNode) else found.enter(node)
        if not is_plain:
            return None
    return found


class Walked:
    """The running loops, and what was found below them so far.

    ``running`` maps axes to their nodes. ``shared`` has an entry per outermost parallel node and
    written tensor. ``is_filled``: every scratch byte read was written before.
    """

    def __init__(
        self, schedule: Schedule, walks: dict[str, Walk], leaves: dict[str, Leaf], budget: Budget
    ) -> None:
        self._walks, self._leaves, self._budget = walks, leaves, budget
        self._owners, self._widths = schedule.owners, schedule.widths
        self._written: set[str] = set()
        """The tensors that leaves write, once a parallel node was met."""
        self._path: list[Walk] = []
        self._parallel: list[int] = []
        self._guards: list[bool] = []
        self._hulls: list[Hull] = [{}]
        self._levels: list[Level] = [{}]
        self.running: dict[str, str] = {}
        self.shared: dict[tuple[str, str], _Shared] = {}
        self.is_filled = True

    @property
    def hull(self) -> Hull:
        """The bytes touched of every tensor."""
        return self._hulls[0]

    def enter(self, node: IterationNode) -> bool:
        """Begin a loop; False where its axis runs already, or scratch of its own is moved by
        a loop around."""
        walk, path = self._walks[node.axis], self._path
        if node.axis in self.running:
            return False
        if node.policy is Policy.PARALLEL and walk[0] > 1:
            self._parallel.append(len(path))
            self._written = self._written or {leaf.tiles[-1][0] for leaf in self._leaves.values()}
        self.running[node.axis] = node.name
        path.append(walk)
        self._hulls.append({})
        self._guards.append(bool(node.guard))
        if self._owners:
            self._levels.append({})
            for scratch in node.scratch:
                for _, strides, _ in path:
                    if scratch.name in strides:
                        return False
        return True

    def leave(self) -> None:
        """End the innermost loop."""
        name, walk = self.running.popitem()[1], self._path.pop()
        self._guards.pop()
        if self._parallel and self._parallel[-1] == len(self._path):
            self._parallel.pop()
        _widen(self._hulls, walk)
        if self._owners:
            _close(self._levels, walk, name, self._owners, self._budget)

    def touch(self, node: InvocationNode) -> bool:
        """Note what a leaf touches; False where it is not below what it needs around it."""
        leaf, owners = self._leaves[node.primitive], self._owners
        if not self.running.keys().isdisjoint(leaf.consumed):
            return False
        self._budget.spend(len(self._path))
        hull, output = self._hulls[-1], leaf.tiles[-1]
        for tile in leaf.tiles:
            tensor, begin, end, _, is_read = tile
            known = hull.get(tensor)
            if known is None:
                hull[tensor] = begin, end
            else:
                hull[tensor] = min(begin, known[0]), max(end, known[1])
            if tensor in owners:
                owner = owners[tensor]
                if owner is not None and owner not in self.running.values():
                    return False
                if is_read and self.is_filled:
                    self.is_filled = self._is_written(tile)
            if self._parallel and tensor in self._written:
                self._share(tile, tile is output)
        if tensor in owners and not node.guard and True not in self._guards:
            self._levels[-1].setdefault(tensor, []).append(region(output[1], output[3]))
        return True

    def _is_written(self, tile: Tile) -> bool:
        """True where what was written at one level of the running loops covers the tile."""
        tensor, begin, _, dims, _ = tile
        for depth in range(len(self._path), -1, -1):
            boxes = self._levels[depth].get(tensor)
            width = self._widths[tensor]
            if boxes and is_covered(region(begin, dims), boxes, width, self._budget):
                return True
            if depth:
                extent, strides, offsets = self._path[depth - 1]
                begin += offsets.get(tensor, 0)
                if tensor in strides:
                    dims = (*dims, (strides[tensor], extent))
        return False

    def _share(self, tile: Tile, is_output: bool) -> None:
        """Note an access below parallel nodes, seen from the outermost that shares the tensor.

        Scratch is private to the iterations of the nodes around its owner.
        """
        tensor, begin, _, terms, _ = tile
        nodes, owner = list(self.running.values()), self._owners.get(tensor)
        private = -1 if owner is None else nodes.index(owner)
        at = bisect_right(self._parallel, private)
        if at == len(self._parallel):
            return
        first = self._parallel[at]
        moving = list(terms)
        is_moved = True
        for depth in range(first, len(self._path)):
            extent, strides, offsets = self._path[depth]
            if offsets:
                begin += offsets.get(tensor, 0)
            if tensor in strides:
                if extent > 1:
                    moving.append((strides[tensor], extent))
            elif depth in self._parallel:
                is_moved = False
        moving.sort()
        key = (nodes[first], tensor)
        group = self.shared.get(key)
        if group is None:
            self.shared[key] = _Shared(begin, moving, is_moved, is_output)
            return
        group.is_written |= is_output
        group.is_alike &= is_moved and begin == group.begin and moving == group.terms


def _widen(hulls: list[Hull], walk: Walk) -> None:
    """End the innermost loop: what its iterations touch, all together, is touched around it."""
    extent, strides, offsets = walk
    inside = hulls.pop()
    outside = hulls[-1]
    for tensor, (begin, end) in inside.items():
        if tensor in strides:
            end += strides[tensor] * (extent - 1)
        if tensor in offsets:
            begin += offsets[tensor]
            end += offsets[tensor]
        known = outside.get(tensor)
        outside[tensor] = (
            (begin, end) if known is None else (min(begin, known[0]), max(end, known[1]))
        )


def _close(
    levels: list[Level], walk: Walk, name: str, owners: dict[str, str | None], budget: Budget
) -> None:
    """End the innermost loop: what it wrote grows along its axis."""
    extent, strides, offsets = walk
    inside = levels.pop()
    outside = levels[-1]
    for tensor, regions in inside.items():
        if owners[tensor] == name:
            continue
        budget.spend(len(regions))
        stride, offset = strides.get(tensor, 0), offsets.get(tensor, 0)
        kept = outside.setdefault(tensor, [])
        for box in regions:
            dims = region(0, (*box.dims, (stride, extent))).dims if stride else box.dims
            closed = Region(box.begin + offset, dims)
            if not kept or kept[-1] != closed:
                kept.append(closed)


@dataclass(slots=True)
class _Shared:
    """The accesses to a tensor below a parallel node: the first, and whether all others are as it.

    ``is_alike`` is False too where a parallel node below does not move the tensor.
    """

    begin: int
    terms: list[tuple[int, int]]
    is_alike: bool
    is_written: bool

    def is_apart(self) -> bool:
        """True where no iteration meets what another one writes.

        No two points of the loops and of the tile share an address.
        """
        return not self.is_written or (self.is_alike and is_injective(self.terms))
