"""Proof (d): no written operand overlaps another one, unless element-wise in place (G10).

The byte ranges that are touched are compared first. Where they meet, every access to the one is
asked exactly whether it meets an access to the other, so interleaved operands of one buffer pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from teir.arrays.operand import BoundOperand
from teir.errors import Finding, Part, Rule
from teir.ir.check.access import Access, access_from, differences, guarded_indices
from teir.ir.check.bounds import Hulls, written_tensors
from teir.ir.check.collision import Budget, BudgetSpentError, is_injective, solve
from teir.ir.check.report import blame
from teir.ir.check.resolved import Invocation, Resolved, path_of
from teir.ir.check.tiles import tile_of
from teir.ir.nodes import Operation

APART = Rule(
    code="TEIR407",
    sentence="No written operand overlaps another operand, unless one element-wise primitive "
    "reads each element where it writes it.",
    source="docs/design.md 3 (d)",
)

OVERLAP_RULES = (APART,)


def overlaps(
    resolved: Resolved, found: Hulls, operands: Mapping[str, BoundOperand], budget: Budget
) -> list[Finding]:
    """Findings of the rule APART, one per pair of operands at most."""
    written = [
        name
        for name in written_tensors(resolved)
        if name in operands and name not in resolved.scratch
    ]
    findings = []
    for number, name in enumerate(written):
        begin, end = _touched(found, operands[name])
        for other in found.low:
            if other not in operands or other == name or other in written[:number]:
                continue
            other_begin, other_end = _touched(found, operands[other])
            if end <= other_begin or other_end <= begin:
                continue
            problem = _overlap(resolved, found, name, other, operands, budget)
            if problem is not None:
                findings.append(_report(name, other, problem, max(begin, other_begin) - begin))
    return findings


def _touched(found: Hulls, operand: BoundOperand) -> tuple[int, int]:
    name, address = operand.name, operand.address
    if name in found.unknown or name not in found.low:
        return address - operand.before_bytes, address + operand.after_bytes
    return address + found.low[name], address + found.high[name]


def _report(name: str, other: str, problem: str, byte: int) -> Finding:
    return blame(
        APART,
        Part.TENSOR,
        name,
        f"{name} and {other} apart in memory",
        problem,
        f"give {name} its own array (they meet from byte {byte} of what {name} touches on)",
    )


def _overlap(
    resolved: Resolved,
    found: Hulls,
    name: str,
    other: str,
    operands: Mapping[str, BoundOperand],
    budget: Budget,
) -> str | None:
    """What is wrong, None where the operands do not meet or meet in place."""
    if resolved.tensors[other].data_type.is_index or {name, other} & found.unknown:
        return "overlapping arrays"
    if _is_in_place(resolved, name, other, operands):
        return None
    shift = operands[other].address - operands[name].address
    lanes = (1, 1 - resolved.width(other), resolved.width(name) - 1)
    try:
        mine = _accesses(resolved, name, budget)
        theirs = _accesses(resolved, other, budget)
        for access, leaf in mine.items():
            for other_access, other_leaf in theirs.items():
                budget.spend(1 + len(access.terms) + len(other_access.terms))
                terms = [*differences(access, other_access), lanes]
                target = shift + other_access.begin - access.begin
                if solve(terms, target, budget) is not None:
                    return f"a common byte of nodes {leaf} and {other_leaf}"
    except BudgetSpentError:
        return "overlapping arrays, and no answer within the work budget"
    return None


def _accesses(resolved: Resolved, tensor: str, budget: Budget) -> dict[Access, str]:
    accesses: dict[Access, str] = {}
    for leaf in _users(resolved, tensor):
        path = path_of(leaf)
        asked = guarded_indices(leaf, path)
        assert leaf.primitive is not None
        if asked is not None:
            budget.spend(len(path))
            tile = tile_of(resolved, leaf.primitive, tensor)
            access = access_from(resolved, tensor, path, tile, asked, None)
            accesses.setdefault(access, leaf.node.name)
    return accesses


def _users(resolved: Resolved, tensor: str) -> list[Invocation]:
    return [
        leaf
        for leaf in resolved.invocations
        if leaf.primitive is not None and tensor in leaf.primitive.operands
    ]


def _is_in_place(
    resolved: Resolved, name: str, other: str, operands: Mapping[str, BoundOperand]
) -> bool:
    """True where one leaf reads ``other`` and writes ``name``, each element once and in place."""
    readers = _users(resolved, other)
    writers = [leaf for leaf in _users(resolved, name) if _writes(leaf, name)]
    if len(readers) != 1 or readers != writers:
        return False
    leaf = readers[0]
    primitive = leaf.primitive
    assert primitive is not None
    if (
        primitive.operation is Operation.CONTRACTION
        or _writes(leaf, other)
        or operands[name].address != operands[other].address
        or resolved.width(name) != resolved.width(other)
    ):
        return False
    axes = [resolved.axes[axis] for axis in primitive.axes]
    axes += [resolved.axes[step.node.axis] for step in path_of(leaf)]
    if any(axis.segments for axis in axes):
        return False
    if any(
        axis.strides[name] != axis.strides[other] or axis.offsets[name] != axis.offsets[other]
        for axis in axes
    ):
        return False
    return is_injective([(axis.strides[name], axis.extent) for axis in axes])


def _writes(leaf: Invocation, tensor: str) -> bool:
    return leaf.primitive is not None and leaf.primitive.output == tensor
