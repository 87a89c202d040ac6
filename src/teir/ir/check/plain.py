"""Programs that are plainly right: every rule and proof at once, in one pass, without findings.

Most programs need none of the care that `teir.ir.check` takes: no sparse axis, nothing broken,
parallel iterations that lie apart, scratch that unguarded leaves fill. Their numbers are gathered
once, and the proofs are made from those; the proof of races and that of scratch are asked where
what is found here does not do. Whatever is not plain is left to the rules, which say what is wrong:
this pass may give up, but must never accept what they refuse.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from teir.ir.check.collision import Budget, BudgetSpentError, is_injective
from teir.ir.check.initialised import scratch_written_first
from teir.ir.check.plain_tables import (
    Leaf,
    Schedule,
    Tile,
    Walk,
    flat_leaf,
    flat_schedule,
    flat_walks,
)
from teir.ir.check.races import STEPS, races
from teir.ir.check.regions import Region, is_covered, region
from teir.ir.check.report import Need
from teir.ir.check.resolved import resolve
from teir.ir.nodes import LIMIT, InvocationNode, Policy, Program

_BUDGET = 20_000
"""Steps of work: a program that takes more is not plain."""


def plain_needs(program: Program) -> dict[str, Need] | None:
    """The bytes each tensor needs, None where the program is not plainly right."""
    try:
        return _needs(program)
    except (KeyError, BudgetSpentError):  # a name that leads nowhere; too much to look at
        return None


def _needs(program: Program) -> dict[str, Need] | None:
    schedule = flat_schedule(program)
    if schedule is None:
        return None
    walks = flat_walks(program.axes, schedule.widths)
    if walks is None or len(walks) != len(program.axes):
        return None
    leaves = {one.name: flat_leaf(one, schedule, walks) for one in program.primitives}
    if len(leaves) != len(program.primitives):
        return None
    found = _walked(schedule, walks, leaves)
    if found is None:
        return None
    needs = {}
    for name, (low, high) in found.hull.items():
        if low <= -LIMIT or high >= LIMIT:
            return None
        needs[name] = Need(low, high)
    is_apart = not found.shared or all(one.is_apart() for one in found.shared.values())
    if not (is_apart and found.is_filled) and not _is_proved(program, is_apart, found.is_filled):
        return None
    return needs


def _is_proved(program: Program, is_apart: bool, is_filled: bool) -> bool:
    """What this pass left open, by the proofs that take more care."""
    resolved = resolve(program)
    if not is_apart and races(resolved, Budget(STEPS)):
        return False
    return is_filled or not scratch_written_first(resolved, Budget(STEPS))


class _Found(msgspec.Struct, frozen=True, gc=False):
    """What the walk of a schedule finds: the bytes touched, and accesses that iterations share.

    ``shared`` has an entry per outermost parallel node and written tensor. ``is_filled``: every
    scratch byte read was written before.
    """

    hull: Hull
    shared: dict[tuple[str, str], _Shared]
    is_filled: bool


def _walked(schedule: Schedule, walks: dict[str, Walk], leaves: dict[str, Leaf]) -> _Found | None:
    """What the schedule touches; None where a rule about paths does not hold."""
    owners, widths, budget = schedule.owners, schedule.widths, Budget(_BUDGET)
    written = {leaf.tiles[-1][0] for leaf in leaves.values()}
    hulls: list[Hull] = [{}]
    shared: dict[tuple[str, str], _Shared] = {}
    is_filled = True
    running: dict[str, str] = {}
    path: list[Walk] = []
    parallel: list[int] = []
    guards: list[bool] = []
    levels: list[Level] = [{}]
    for node in schedule.events:
        if node is None:
            name, walk = running.popitem()[1], path.pop()
            guards.pop()
            if parallel and parallel[-1] == len(path):
                parallel.pop()
            _widen(hulls, walk)
            if owners:
                _close(levels, walk, name, owners, budget)
            continue
        for term in node.guard:
            if term.axis not in running:
                return None
        if not isinstance(node, InvocationNode):
            walk = walks[node.axis]
            if node.axis in running:
                return None
            if node.policy is Policy.PARALLEL and walk[0] > 1:
                parallel.append(len(path))
            running[node.axis] = node.name
            path.append(walk)
            hulls.append({})
            guards.append(bool(node.guard))
            if owners:
                levels.append({})
                for scratch in node.scratch:
                    if any(scratch.name in strides for _, strides, _ in path):
                        return None
            continue
        leaf = leaves[node.primitive]
        if not running.keys().isdisjoint(leaf.consumed):
            return None
        budget.spend(len(path))
        tiles, hull = leaf.tiles, hulls[-1]
        for tile in tiles:
            tensor, begin, end, _, is_read = tile
            known = hull.get(tensor)
            if known is None:
                hull[tensor] = begin, end
            else:
                hull[tensor] = min(begin, known[0]), max(end, known[1])
            if tensor in owners:
                owner = owners[tensor]
                if owner is not None and owner not in running.values():
                    return None
                if is_read and is_filled:
                    is_filled = _is_filled(tile, path, levels, widths[tensor], budget)
            if parallel and tensor in written:
                nodes = list(running.values())
                _share(tile, path, parallel, nodes, owners.get(tensor), tile is tiles[-1], shared)
        if tensor in owners and not node.guard and True not in guards:
            levels[-1].setdefault(tensor, []).append(region(tiles[-1][1], tiles[-1][3]))
    return _Found(hulls[0], shared, is_filled)


Hull = dict[str, tuple[int, int]]
"""The lowest byte touched of every tensor, and the one after the highest, in one iteration of the
loops around."""


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


Level = dict[str, list[Region]]
"""What was written since a running loop began its iteration, by scratch tensor."""


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


def _is_filled(
    tile: Tile, path: list[Walk], levels: list[Level], width: int, budget: Budget
) -> bool:
    """True where what was written at one level of the running loops covers the tile."""
    tensor, begin, _, dims, _ = tile
    for depth in range(len(path), -1, -1):
        boxes = levels[depth].get(tensor)
        if boxes and is_covered(region(begin, dims), boxes, width, budget):
            return True
        if depth:
            extent, strides, offsets = path[depth - 1]
            begin += offsets.get(tensor, 0)
            if tensor in strides:
                dims = (*dims, (strides[tensor], extent))
    return False


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


def _share(
    tile: Tile,
    path: list[Walk],
    parallel: list[int],
    nodes: list[str],
    owner: str | None,
    is_written: bool,
    shared: dict[tuple[str, str], _Shared],
) -> None:
    """Note an access below parallel nodes, seen from the outermost that shares the tensor.

    Scratch is private to the iterations of the nodes around its owner.
    """
    tensor, begin, _, terms, _ = tile
    private = -1 if owner is None else nodes.index(owner)
    first = next((depth for depth in parallel if depth > private), None)
    if first is None:
        return
    moving = list(terms)
    is_moved = True
    for depth in range(first, len(path)):
        extent, strides, offsets = path[depth]
        if offsets:
            begin += offsets.get(tensor, 0)
        if tensor in strides:
            if extent > 1:
                moving.append((strides[tensor], extent))
        elif depth in parallel:
            is_moved = False
    moving.sort()
    key = (nodes[first], tensor)
    group = shared.get(key)
    if group is None:
        shared[key] = _Shared(begin, moving, is_moved, is_written)
        return
    group.is_written |= is_written
    group.is_alike &= is_moved and begin == group.begin and moving == group.terms
