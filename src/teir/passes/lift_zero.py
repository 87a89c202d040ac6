"""Lift a guarded Zero out of the reduction loop, and a guarded finish behind it.

    sequential k over k                    zero: zero_tile
      zero: zero_tile if first(k)          sequential k over k
      gemm: gemm_tile                ->      gemm: gemm_tile
      relu: relu_tile if last(k)           relu: relu_tile

The loop then holds a Contraction only, which lowering turns into one kernel that starts from zero.
A leaf leaves the loop when it comes first (last) in it, touches nothing that the loop moves, and is
guarded by ``first`` (``last``) of it. The same holds for any operation that does not read what
later iterations change.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.ir.nodes import (
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Policy,
    Program,
)
from teir.passes.draft import Draft, Path, Siblings, change_siblings, joined


def lift_zero(program: Program) -> Program:
    """The program with what a loop does only at its first or last iteration outside of it."""
    draft = Draft(program)

    def change(nodes: Siblings, path: Path) -> Siblings:
        del path
        changed: list[Node] = []
        for node in nodes:
            changed += _lifted(draft, node) if isinstance(node, IterationNode) else (node,)
        return tuple(changed)

    return draft.finish(change_siblings(program.roots, change))


def _lifted(draft: Draft, loop: IterationNode) -> Siblings:
    if loop.policy is Policy.PARALLEL or draft.axes[loop.axis].is_sparse:
        return (loop,)
    children = loop.children
    start = 0
    while start < len(children) and _may_leave(draft, loop, children[start], GuardKind.FIRST):
        start += 1
    end = len(children)
    while end > start and _may_leave(draft, loop, children[end - 1], GuardKind.LAST):
        end -= 1
    if start == 0 and end == len(children):
        return (loop,)
    before = tuple(_outside(loop, leaf) for leaf in children[:start])
    after = tuple(_outside(loop, leaf) for leaf in children[end:])
    if start == end:
        return (*before, *after)
    return (*before, replace(loop, children=children[start:end]), *after)


def _may_leave(draft: Draft, loop: IterationNode, node: Node, kind: GuardKind) -> bool:
    if not isinstance(node, InvocationNode):
        return False
    about = {term.kind for term in node.guard if term.axis == loop.axis}
    if about != {kind}:
        return False
    axis = draft.axes[loop.axis]
    owned = {tensor.name for tensor in loop.scratch}
    return all(
        name not in owned and not axis.strides[name] and not axis.offsets[name]
        for name in draft.primitives[node.primitive].operands
    )


def _outside(loop: IterationNode, node: Node) -> Node:
    rest: tuple[GuardTerm, ...] = tuple(term for term in node.guard if term.axis != loop.axis)
    return replace(node, guard=joined(loop.guard, rest))
