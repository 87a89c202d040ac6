"""Chains of loops, and which orders of a chain keep the meaning.

A chain is a run of iteration nodes of one policy, each the only child of the one above and, below
the first, unguarded. A loop of a chain is free when no two of its iterations touch a byte that one
of them writes, whatever the other loops of the chain do. Free loops may stand anywhere in their
chain; the others keep their order. The proof is the race check of `teir.ir.check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from teir.ir.check.collision import Budget
from teir.ir.check.races import races
from teir.ir.check.resolved import resolve
from teir.ir.nodes import IterationNode, Node, Policy
from teir.passes.draft import Draft, Path, Siblings

_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Chain:
    """The loops of a chain, outermost first, and the children of the innermost."""

    loops: tuple[IterationNode, ...]
    body: Siblings

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(loop.axis for loop in self.loops)


def chain_below(node: IterationNode, draft: Draft) -> Chain:
    """The longest chain that starts at ``node``; loops over sparse axes end it."""
    loops = [node]
    while len(loops[-1].children) == 1:
        child = loops[-1].children[0]
        if not isinstance(child, IterationNode) or not is_chained(draft, loops[-1], child):
            break
        loops.append(child)
    return Chain(tuple(loops), loops[-1].children)


def is_chained(draft: Draft, parent: IterationNode, child: IterationNode) -> bool:
    """True where ``child`` continues the chain of ``parent``."""
    return (
        len(parent.children) == 1
        and not child.guard
        and child.policy is parent.policy
        and not draft.axes[child.axis].is_sparse
        and not draft.axes[parent.axis].is_sparse
    )


def rebuilt(loops: Sequence[IterationNode], body: Siblings) -> IterationNode:
    """The loops around ``body`` in the given order."""
    for loop in reversed(loops):
        body = (replace(loop, children=body),)
    (outermost,) = body
    assert isinstance(outermost, IterationNode)
    return outermost


def free_loops(draft: Draft, chain: Chain, path: Path) -> frozenset[str]:
    """The axes of the free loops of a chain below ``path``. Scratch inside a chain frees none."""
    if any(loop.scratch for loop in chain.loops):
        return frozenset()
    return frozenset(
        loop.axis
        for loop in chain.loops
        if draft.axes[loop.axis].extent == 1 or _is_free(draft, chain, loop, path)
    )


def _is_free(draft: Draft, chain: Chain, loop: IterationNode, path: Path) -> bool:
    others = tuple(other for other in chain.loops if other is not loop)
    head = replace(chain.loops[0], guard=())
    others = tuple(head if other is chain.loops[0] else other for other in others)
    first = replace(loop, guard=())
    return has_no_race(draft, rebuilt((first, *others), chain.body), path)


def has_no_race(draft: Draft, node: IterationNode, path: Path) -> bool:
    """True where the iterations of ``node``, below ``path``, could run in parallel."""
    inside = tuple(_sequential(child) for child in node.children)
    alone: Node = replace(node, policy=Policy.PARALLEL, children=inside)
    for loop in reversed(path):
        alone = replace(loop, policy=Policy.SEQUENTIAL, children=(alone,))
    program = replace(
        draft.program,
        axes=tuple(draft.axes.values()),
        primitives=tuple(draft.primitives.values()),
        roots=(alone,),
    )
    return not races(resolve(program), Budget(_STEPS))


def _sequential(node: Node) -> Node:
    if not isinstance(node, IterationNode):
        return node
    children = tuple(map(_sequential, node.children))
    return replace(node, policy=Policy.SEQUENTIAL, children=children)


def keeps_order(old: Sequence[str], new: Sequence[str], free: frozenset[str]) -> bool:
    """True where the axes that are not free come in the same order."""
    return [axis for axis in old if axis not in free] == [axis for axis in new if axis not in free]
