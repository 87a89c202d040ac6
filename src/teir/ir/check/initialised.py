"""Proof (c): no scratch byte is read before this iteration of its owner wrote it (G5).

The schedule is walked in program order with the regions written so far. A region is kept relative
to the loops that are still running: every access below a loop shares what the loop adds to the
address. When a loop ends, its regions grow along its axis; those written at its first or last
iteration only stay where they are; those written below a sparse axis, which may run zero times, are
forgotten. A region written under a guard counts for readers under the same guard, and for all later
readers where the guard asks for the first iteration of a sequential loop that does not move the
tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from teir.errors import Finding, Part, Rule
from teir.ir.check.access import guarded_indices
from teir.ir.check.bounds import written_tensors
from teir.ir.check.collision import Budget, BudgetSpentError
from teir.ir.check.regions import Region, is_covered, region
from teir.ir.check.report import blame
from teir.ir.check.resolved import Invocation, Iteration, Resolved, path_of, resolve
from teir.ir.check.tiles import tile_of
from teir.ir.nodes import Axis, Primitive, Program

WRITTEN_FIRST = Rule(
    code="TEIR406",
    sentence="No scratch byte is read before this iteration of its owner wrote it.",
    source="docs/design.md 3 (c)",
)

INITIALISED_RULES = (WRITTEN_FIRST,)

STEPS = 500_000

Guard = frozenset[tuple[Iteration, bool]]


@dataclass(slots=True, eq=False)
class _Written:
    """A region and the guard terms under which it is written."""

    box: Region
    guard: Guard


Level = dict[str, list[_Written]]
"""What was written since the innermost running loop began its iteration, per tensor."""


@dataclass(slots=True, eq=False)
class EarlyRead:
    """A read that is not shown to be of written bytes."""

    leaf: Invocation
    tensor: str
    box: Region
    is_decided: bool


def scratch_written_first(resolved: Resolved, budget: Budget) -> list[Finding]:
    """Findings of the rule WRITTEN_FIRST, one per scratch tensor at most."""
    if not resolved.scratch:
        return []
    return [
        blame(
            WRITTEN_FIRST,
            Part.NODE,
            read.leaf.node.name,
            f"bytes of {read.tensor} that were written before",
            f"a read of bytes {read.box.begin} to "
            f"{read.box.end + resolved.width(read.tensor) - 1} "
            + ("not all written" if read.is_decided else "not decided within the work budget"),
            "write the whole tile first, by Zero or Copy; writes below a sparse axis never count, "
            "writes under a guard count for readers under the same guard",
        )
        for read in early_reads(resolved, resolved.scratch, budget)
    ]


def accumulation_notes(program: Program) -> tuple[str, ...]:
    """One note per written operand that is read before the program wrote all of it."""
    resolved = resolve(program)
    operands: dict[str, Iteration | None] = {
        name: None for name in written_tensors(resolved) if name not in resolved.scratch
    }
    return tuple(
        f"{read.tensor} arrives with the caller's values: node {read.leaf.node.name} reads it "
        "before the program has written all of it"
        for read in early_reads(resolved, operands, Budget(STEPS))
    )


def early_reads(
    resolved: Resolved, watched: Mapping[str, Iteration | None], budget: Budget
) -> list[EarlyRead]:
    """The first early read of each watched tensor; ``watched`` gives the owners."""
    found: dict[str, EarlyRead] = {}
    running: list[Iteration] = []
    levels: list[Level] = [{}]
    for event in resolved.events:
        if event is None:
            _close(running.pop(), levels, watched, budget)
        elif isinstance(event, Iteration):
            running.append(event)
            levels.append({})
        else:
            _visit(resolved, event, watched, levels, found, budget)
    return list(found.values())


def _visit(
    resolved: Resolved,
    leaf: Invocation,
    watched: Mapping[str, Iteration | None],
    levels: list[Level],
    found: dict[str, EarlyRead],
    budget: Budget,
) -> None:
    primitive = leaf.primitive
    assert primitive is not None
    if watched.keys().isdisjoint(primitive.operands):
        return
    path = path_of(leaf)
    asked = guarded_indices(leaf, path) if resolved.guarded else {}
    if asked is None:
        return
    guard = _guard(leaf, path) if resolved.guarded else frozenset()
    for tensor in dict.fromkeys(primitive.reads):
        if tensor not in watched or tensor in found:
            continue
        tile = _region(resolved, primitive, tensor)
        try:
            is_written = _is_written(resolved, tensor, tile, path, asked, guard, levels, budget)
            is_decided = True
        except BudgetSpentError:
            is_written = is_decided = False
        if not is_written:
            found[tensor] = EarlyRead(leaf, tensor, tile, is_decided)
    output = primitive.output
    if output in watched:
        lasting = _lasting(guard, path, output, watched[output])
        written = _Written(_region(resolved, primitive, output), lasting)
        levels[-1].setdefault(output, []).append(written)


def _guard(leaf: Invocation, path: list[Iteration]) -> Guard:
    terms = []
    places: tuple[Invocation | Iteration, ...] = (leaf, *path)
    for place in places:
        if not place.guard:
            continue
        for resolved_term in place.guard:
            step = resolved_term.iteration
            assert step is not None
            if _axis(step).extent > 1:
                terms.append((step, resolved_term.is_first))
    return frozenset(terms)


def _axis(step: Iteration) -> Axis:
    assert step.axis is not None
    return step.axis


def _region(resolved: Resolved, primitive: Primitive, tensor: str) -> Region:
    tile = tile_of(resolved, primitive, tensor)
    return region(tile.begin, tile.terms)


def _lasting(guard: Guard, path: list[Iteration], tensor: str, owner: Iteration | None) -> Guard:
    """The terms that still matter for later readers.

    What the first iteration of a sequential loop below the owner wrote is there in all later ones,
    at the same place where the loop does not move the tensor, if no sparse loop inside it chose
    what to write.
    """
    if not guard:
        return guard
    outermost = 0 if owner is None else owner.depth + 1
    sparse = max((step.depth for step in path if _axis(step).segments), default=-1)
    return frozenset(
        (step, is_first)
        for step, is_first in guard
        if not is_first
        or step.is_parallel
        or _axis(step).strides[tensor] != 0
        or step.depth < max(outermost, sparse)
    )


def _close(
    step: Iteration, levels: list[Level], watched: Mapping[str, Iteration | None], budget: Budget
) -> None:
    """End a loop; once the budget is spent its regions are forgotten, which is always safe."""
    level = levels.pop()
    axis = _axis(step)
    if axis.segments:
        return
    for tensor, regions in level.items():
        if watched[tensor] is step:
            continue
        budget.steps -= len(regions)
        if budget.steps < 0:
            return
        stride, offset = axis.strides[tensor], axis.offsets[tensor]
        kept = levels[-1].setdefault(tensor, [])
        for written in regions:
            terms = [is_first for place, is_first in written.guard if place is step]
            guard = written.guard
            begin, dims = written.box.begin + offset, written.box.dims
            if terms:
                guard = frozenset(term for term in guard if term[0] is not step)
                begin += 0 if terms[0] else stride * (axis.extent - 1)
            else:
                dims = (*dims, (stride, axis.extent))
            closed = _Written(region(begin, dims), guard)
            if not kept or kept[-1].box != closed.box or kept[-1].guard != closed.guard:
                kept.append(closed)


def _is_written(
    resolved: Resolved,
    tensor: str,
    tile: Region,
    path: list[Iteration],
    asked: dict[Iteration, bool],
    guard: Guard,
    levels: list[Level],
    budget: Budget,
) -> bool:
    """Whether what was written at one level of the running loops covers the read.

    Seen from an outer level the read covers all iterations of the loops between.
    """
    width = resolved.width(tensor)
    begin, dims = tile.begin, tile.dims
    for number in range(len(path) + 1):
        regions = levels[len(path) - number].get(tensor, ())
        budget.spend(1 + len(regions))
        boxes = [written.box for written in regions if written.guard <= guard]
        if boxes and is_covered(region(begin, dims), boxes, width, budget):
            return True
        if number < len(path):
            begin, dims = _over_loop(begin, dims, path[number], tensor, asked)
    return False


def _over_loop(
    begin: int,
    dims: tuple[tuple[int, int], ...],
    step: Iteration,
    tensor: str,
    asked: dict[Iteration, bool],
) -> tuple[int, tuple[tuple[int, int], ...]]:
    axis = _axis(step)
    stride = axis.strides[tensor]
    begin += axis.offsets[tensor]
    at_first = None if axis.segments else asked.get(step)
    if at_first is None:
        return begin, (*dims, (stride, axis.extent)) if stride else dims
    return begin + (0 if at_first else stride * (axis.extent - 1)), dims
