"""Proof (b): iterations of a parallel node write disjoint bytes and read none another writes.

Two iterations of a parallel node share the indices of its ancestors and are independent below it.
So for every pair of accesses to one tensor, one of them a write, the question is one linear
equation in the index difference of the node (not zero) and the indices below (docs/safety.md G4).
Equal accesses are asked about once. Scratch owned at or below the node is private to each of its
iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.errors import Finding, Part, Rule
from teir.ir.check.access import Access, access_from, differences, guarded_indices
from teir.ir.check.bounds import written_tensors
from teir.ir.check.collision import (
    Budget,
    BudgetSpentError,
    Term,
    is_injective,
    self_collision,
    solve,
)
from teir.ir.check.primitives import writes_equal_values
from teir.ir.check.report import blame
from teir.ir.check.resolved import Iteration, Resolved, path_of
from teir.ir.check.tiles import tile_of
from teir.ir.nodes import Axis, Primitive

NO_RACE = Rule(
    code="TEIR403",
    sentence="Two iterations of a parallel node never touch the same byte unless both only read.",
    source="docs/design.md 3 (b)",
)
RACE_DECIDED = Rule(
    code="TEIR404",
    sentence="Whether iterations of a parallel node are independent is decided within the work "
    "budget.",
    source="docs/design.md 3 (b)",
)
TILE_ONCE = Rule(
    code="TEIR405",
    sentence="One invocation writes each element of its tile once, except in Zero and in-place "
    "ReLU.",
    source="docs/safety.md G10",
)

RACE_RULES = (NO_RACE, RACE_DECIDED, TILE_ONCE)

STEPS = 500_000
"""The work budget of one program: about half a second."""

_REMEDY = (
    "make the node sequential, or accumulate into a null scratch strided along it and let a "
    "second root add the slices in order"
)


@dataclass(slots=True, eq=False)
class _Touched:
    """The accesses to one tensor below one parallel node, with the leaf that makes each."""

    node: Iteration
    tensor: str
    writes: dict[Access, str]
    reads: dict[Access, str]


@dataclass(slots=True, eq=False)
class _Meeting:
    """Two iterations of the node, ``difference`` apart, that meet.

    ``inner`` is what the indices below the node add to the address of the write there; None where
    it depends on index arrays.
    """

    difference: int
    inner: int | None


def races(resolved: Resolved, budget: Budget) -> list[Finding]:
    """Findings of the rules NO_RACE and RACE_DECIDED, one per node and tensor at most."""
    findings: list[Finding] = []
    touched: dict[tuple[Iteration, str], _Touched] = {}
    asking = resolved.program.name
    part = Part.PROGRAM
    try:
        _collect(resolved, touched, budget)
        for group in touched.values():
            asking, part = group.node.node.name, Part.NODE
            finding = _race(group, budget)
            if finding is not None:
                findings.append(finding)
    except BudgetSpentError:
        expected = f"an answer within {STEPS} steps"
        findings.append(blame(RACE_DECIDED, part, asking, expected, "none so far", _REMEDY))
    return findings


def _collect(
    resolved: Resolved, touched: dict[tuple[Iteration, str], _Touched], budget: Budget
) -> None:
    parallel = {step for step in resolved.iterations if step.is_parallel}
    if not parallel:
        return
    written = written_tensors(resolved)
    for leaf in resolved.invocations:
        path = path_of(leaf)
        nodes = [step for step in path if step in parallel and _axis(step).extent > 1]
        if not nodes:
            continue
        asked = guarded_indices(leaf, path)
        primitive = leaf.primitive
        assert primitive is not None
        if asked is None:
            continue
        for tensor in dict.fromkeys(primitive.operands):
            if tensor not in written:
                continue
            tile = tile_of(resolved, primitive, tensor)
            for node in nodes:
                if _is_private(resolved, tensor, node):
                    continue
                budget.spend(len(path))
                access = access_from(resolved, tensor, path, tile, asked, node)
                group = touched.get((node, tensor))
                if group is None:
                    group = touched[node, tensor] = _Touched(node, tensor, {}, {})
                kind = group.writes if tensor == primitive.output else group.reads
                kind.setdefault(access, leaf.node.name)


def _axis(step: Iteration) -> Axis:
    assert step.axis is not None
    return step.axis


def _is_private(resolved: Resolved, tensor: str, node: Iteration) -> bool:
    owner = resolved.scratch.get(tensor)
    return owner is not None and owner.depth >= node.depth


def _race(group: _Touched, budget: Budget) -> Finding | None:
    if not group.writes:
        return None
    stride = _axis(group.node).strides[group.tensor]
    if _lies_apart(group, stride):
        return None
    for write, other, is_same in _pairs(group):
        budget.spend(1 + len(write.terms) + len(other.terms))
        meeting = _meeting(write, other, group.node, stride, budget, is_same=is_same)
        if meeting is not None:
            return _report(group, write, other, meeting)
    return None


def _lies_apart(group: _Touched, stride: int) -> bool:
    """True where one step of the node leaves everything behind that an iteration touches."""
    accesses = (*group.writes, *group.reads)
    for access in accesses:
        if access.positions:
            return False
    lowest = min([access.begin for access in accesses])
    return stride > max([access.end for access in accesses]) - lowest


def _pairs(group: _Touched) -> Iterator[tuple[Access, Access, bool]]:
    """Every write with itself, with the writes after it, and with every read."""
    writes = list(group.writes)
    for number, write in enumerate(writes):
        yield write, write, True
        for other in writes[number + 1 :]:
            yield write, other, False
        for other in group.reads:
            if other != write:
                yield write, other, False


def _meeting(
    write: Access, other: Access, node: Iteration, stride: int, budget: Budget, *, is_same: bool
) -> _Meeting | None:
    """Two different iterations of ``node`` that meet, None where there are none."""
    if _never_together(write, other):
        return None
    if is_same and not write.positions:
        steps_of_node = (stride, write.last - write.first + 1)
        if is_injective([steps_of_node, *write.terms]):
            return None
    lowest, highest = write.first - other.last, write.last - other.first
    ranges = [(max(1, lowest), highest)]
    if not is_same:
        ranges.append((lowest, min(-1, highest)))
    ranges = [(low, high) for low, high in ranges if low <= high]
    if not ranges:
        return None
    terms = differences(write, other)
    target = other.begin - write.begin
    if write.positions or other.positions:
        if _position_differs(write, other, terms, stride, target):
            return _Meeting(ranges[0][0], None)
        if not _bounds_meet(write, other, node, budget, is_same=is_same):
            return None
    for low, high in ranges:
        if stride == 0:
            found = solve(terms, target, budget)
            indices = None if found is None else [low if low > 0 else high, *found]
        else:
            indices = solve([(stride, low, high), *terms], target, budget)
        if indices is not None:
            steps = zip(terms, indices[1:], strict=True)
            inner = sum(term[0] * max(index, 0) for term, index in steps)
            return _Meeting(indices[0], None if write.positions else inner)
    return None


def _never_together(write: Access, other: Access) -> bool:
    """True where guards ask for different iterations of a shared ancestor."""
    if not write.above or not other.above:
        return False
    return any(
        (step, not is_first) in other.above
        for step, is_first in write.above
        if not _axis(step).segments
    )


def _position_differs(
    write: Access, other: Access, terms: list[Term], stride: int, target: int
) -> bool:
    """True where the accesses may meet at different positions of their sparse axes.

    Whichever axis a position is of, one step of it moves both by as much.
    """
    if len(write.positions) != 1 or len(other.positions) != 1:
        return True
    mine, theirs = write.positions[0], other.positions[0]
    if mine.stride != theirs.stride:
        return True
    farthest = max(write.last, other.last)
    reach = stride * farthest + sum(step * max(-low, high) for step, low, high in terms)
    return mine.stride <= reach + abs(target)


def _bounds_meet(
    write: Access, other: Access, node: Iteration, budget: Budget, *, is_same: bool
) -> bool:
    """At equal positions both iterations have read the same segment bounds: may they?

    Positions of different axes may be equal whatever was read.
    """
    mine, theirs = write.positions[0], other.positions[0]
    if mine[:4] != theirs[:4]:
        return True
    stride = _axis(node).strides[mine.pos_tensor]
    return _meeting(mine.pos, theirs.pos, node, stride, budget, is_same=is_same) is not None


def _report(group: _Touched, write: Access, other: Access, meeting: _Meeting) -> Finding:
    axis = _axis(group.node)
    here = max(write.first, other.first + meeting.difference)
    there = here - meeting.difference
    writer = group.writes[write]
    if other in group.writes:
        partner = f"node {group.writes[other]} writing"
    else:
        partner = f"node {group.reads[other]} reading"
    where = "what may be one byte"
    if meeting.inner is not None:
        byte = write.begin + axis.strides[group.tensor] * here + meeting.inner
        for step, is_first in write.above | other.above:
            if not is_first:
                byte += _axis(step).strides[group.tensor] * (_axis(step).extent - 1)
        where = f"byte {byte}"
    return blame(
        NO_RACE,
        Part.NODE,
        group.node.node.name,
        f"iterations that touch {group.tensor} apart",
        f"node {writer} writing {where} of {group.tensor} at {axis.name}={here} and {partner} "
        f"it at {axis.name}={there}",
        _REMEDY,
    )


def tiles_once(resolved: Resolved, budget: Budget) -> list[Finding]:
    """Findings of the rule TILE_ONCE; undecided tiles are refused too."""
    findings = []
    for primitive in resolved.program.primitives:
        if writes_equal_values(primitive):
            continue
        output = primitive.output
        terms = tile_of(resolved, primitive, output).terms
        try:
            difference = self_collision(list(terms), budget)
        except BudgetSpentError:
            found = "no answer within the work budget"
        else:
            if difference is None:
                continue
            steps = zip(_moving(resolved, primitive), difference, strict=True)
            moves = ", ".join(f"{name} by {step:+d}" for name, step in steps if step)
            found = f"the same element after moving {moves}"
        expected = f"strides of {output} that reach each element once"
        findings.append(blame(TILE_ONCE, Part.PRIMITIVE, primitive.name, expected, found))
    return findings


def _moving(resolved: Resolved, primitive: Primitive) -> list[str]:
    """The consumed axes that move the output: those of the terms of its tile."""
    consumed = [resolved.axes[name] for name in primitive.axes]
    output = primitive.output
    return [axis.name for axis in consumed if axis.strides[output] and axis.extent > 1]
