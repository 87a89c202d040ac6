"""Roots that one thread would do alone, shared along an axis all their leaves consume.

    zero: zero_H                           parallel loop_j over j_1 (8)
    add: add_H                       ->      zero: zero_part
                                             add: add_part

    zero: zero_A                           parallel loop_m over m_1 (2)
    sequential i over i                      zero: zero_part
      scratch T                      ->      sequential i over i
      zero_T; j { T += B D }                   scratch T
      A += T C                                 zero_T; j { T += B D }
                                               A += T C

The axis moves everything the roots write, so that parts have nothing in common; each element is
summed in the order it had. Loops are walked once per part: they are cut into as many parts as there
are threads, leaves alone into several per thread. `teir.passes.parallelise` shares loops whose own
iterations are independent; here no iteration is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from teir.ir.nodes import InvocationNode, IterationNode, Node, Policy, Program
from teir.passes.cutting import cut, looped
from teir.passes.draft import Draft, Siblings, below
from teir.passes.groups import with_axes, work_of
from teir.passes.parallelise import shared_block

_FEWEST = 1 << 15
"""Multiply-adds or elements from which on threads share them."""
_GRANULE = 16
"""Rows of a part of leaves, and lanes of a part of loops, that are worth a thread's while."""
_MOST_PARTS = 4
"""Parts of loops per thread, where fewer do not divide the axis."""


def with_shared_roots(program: Program, threads: int) -> Program:
    """The program with shared roots; the same object where there is nothing to share."""
    if threads == 1:
        return program
    draft = Draft(program)
    roots: list[Node] = []
    for run in _runs(draft, program.roots):
        roots += _shared(draft, run, threads)
    return draft.finish(tuple(roots))


def _runs(draft: Draft, roots: Siblings) -> Iterator[Siblings]:
    """Roots that follow each other and have an axis in common; others one by one."""
    run: Siblings = ()
    for node in roots:
        longer = (*run, node)
        if _is_alone(node) and _axes_of(draft, longer):
            run = longer
            continue
        if run:
            yield run
        run = (node,)
    yield run


def _is_alone(node: Node) -> bool:
    """True where one thread does all of the root, on every path."""
    return not any(
        one.guard or (isinstance(one, IterationNode) and one.policy is Policy.PARALLEL)
        for one in below([node])
    )


def _axes_of(draft: Draft, nodes: Siblings) -> tuple[str, ...]:
    """The axes all leaves consume that move all they write, the farthest strides first."""
    leaves = [one for one in below(nodes) if isinstance(one, InvocationNode)]
    written = draft.written(nodes)
    first, *others = (draft.primitives[leaf.primitive] for leaf in leaves)
    found = [
        name
        for name in first.axes
        if all(name in one.axes for one in others)
        and all(draft.axes[name].strides[tensor] for tensor in written)
        and not draft.axes[name].is_sparse
    ]
    far = {name: min(draft.axes[name].strides[tensor] for tensor in written) for name in found}
    return tuple(sorted(found, key=lambda name: -far[name]))


def _shared(draft: Draft, run: Siblings, threads: int) -> Siblings:
    if not all(map(_is_alone, run)) or work_of(draft, run) < _FEWEST:
        return run
    for name in _axes_of(draft, run):
        if all(isinstance(node, InvocationNode) for node in run):
            return _leaves(draft, run, name, threads)
        parts = _parts(draft.axes[name].extent, threads)
        if parts is not None:
            return _loops(draft, run, name, parts)
    return run


def _leaves(draft: Draft, run: Siblings, name: str, threads: int) -> Siblings:
    block = shared_block(draft.axes[name].extent, threads, _GRANULE)
    made: Siblings = ()
    for piece in cut(draft, name, block):
        part = tuple(
            with_axes(draft, leaf, {name: piece.inside}, ())
            for leaf in run
            if isinstance(leaf, InvocationNode)
        )
        made += looped(draft, piece.blocks, part, Policy.PARALLEL)
    return made


def _parts(extent: int, threads: int) -> int | None:
    """As few equal parts as every thread has one of; None where they would be narrow."""
    for parts in range(threads, _MOST_PARTS * threads + 1):
        if extent % parts == 0 and extent // parts >= _GRANULE // 2:
            return parts
    return None


def _loops(draft: Draft, run: Siblings, name: str, parts: int) -> Siblings:
    """All of the run in one loop over parts; what loops inside own does not move with it."""
    whole = draft.axes[name]
    own = {
        tensor.name
        for node in below(run)
        if isinstance(node, IterationNode)
        for tensor in node.scratch
    }
    size = whole.extent // parts
    far = {tensor: size * stride for tensor, stride in whole.strides.items() if tensor not in own}
    outside = {tensor: offset for tensor, offset in whole.offsets.items() if tensor not in own}
    inside = {tensor: offset for tensor, offset in whole.offsets.items() if tensor in own}
    blocks = draft.axis(name, "blocks", parts, far, outside)
    part = draft.axis(name, "inside", size, whole.strides, inside)
    body = tuple(_with_axis(draft, node, name, part) for node in run)
    return looped(draft, blocks, body, Policy.PARALLEL)


def _with_axis(draft: Draft, node: Node, name: str, part: str) -> Node:
    if isinstance(node, InvocationNode):
        return with_axes(draft, node, {name: part}, ())
    children = _all_with_axis(draft, node.children, name, part)
    return replace(node, children=children)


def _all_with_axis(draft: Draft, nodes: Sequence[Node], name: str, part: str) -> Siblings:
    return tuple(_with_axis(draft, node, name, part) for node in nodes)
