"""Promote a batch of small products into the primitive (role C).

    sequential b over b                    zero: zero_batch                 M=[b, m], N=[n]
      zero: zero_tile                      gemm: gemm_batch                 C=[b], M=[m], ...
      gemm: gemm_tile                ->

A batch axis moves all operands of the Contraction and is free. One invocation then sees the whole
batch: kernels may run along it, and the loop costs nothing. Tiles of more than 4096 products stay
as they are, for they keep a kernel busy.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.ir.nodes import InvocationNode, IterationNode, Node, Operation, Policy, Program
from teir.passes.chains import has_no_race
from teir.passes.draft import Draft, Path, Siblings, below, change_siblings, joined
from teir.passes.groups import extent_of
from teir.passes.still_offsets import has_still_offsets

_SMALL = 4096
"""Products of one tile of a batch."""


def promote_batch(program: Program) -> Program:
    """The program with loops over small batches inside their primitives."""
    if has_still_offsets(program):
        return program
    draft = Draft(program)

    def change(nodes: Siblings, path: Path) -> Siblings:
        changed: list[Node] = []
        for node in nodes:
            if isinstance(node, IterationNode) and _is_batch(draft, node, path):
                changed += (_consuming(draft, node, leaf) for leaf in node.children)
            else:
                changed.append(node)
        return tuple(changed)

    return draft.finish(change_siblings(program.roots, change))


def _is_batch(draft: Draft, loop: IterationNode, path: Path) -> bool:
    axis = draft.axes[loop.axis]
    if loop.policy is Policy.PARALLEL or loop.scratch or axis.is_sparse or axis.extent == 1:
        return False
    if any(term.axis == loop.axis for node in below(loop.children) for term in node.guard):
        return False
    contractions = 0
    for leaf in loop.children:
        if not isinstance(leaf, InvocationNode):
            return False
        primitive = draft.primitives[leaf.primitive]
        if not all(axis.strides[name] for name in primitive.operands):
            return False
        if primitive.operation is Operation.CONTRACTION:
            contractions += 1
            if len(primitive.inputs) != 2 or not primitive.axes:
                return False
            if extent_of(draft, primitive.axes) > _SMALL:
                return False
        elif primitive.operation not in (Operation.ZERO, Operation.RELU):
            return False
    return contractions == 1 and has_no_race(draft, replace(loop, guard=()), path)


def _consuming(draft: Draft, loop: IterationNode, leaf: Node) -> InvocationNode:
    assert isinstance(leaf, InvocationNode)
    primitive = draft.primitives[leaf.primitive]
    if primitive.operation is Operation.CONTRACTION:
        name = draft.primitive(primitive, c=(loop.axis, *primitive.c))
    else:
        name = draft.primitive(primitive, m=(loop.axis, *primitive.m))
    return replace(leaf, primitive=name, guard=joined(loop.guard, leaf.guard))
