"""Fuse two axes that walk memory as one (section 5.5.4).

    axis x = 64: in0 100, out 100          axis y = 1600: in0 4, out 4
    axis y = 25: in0 4, out 4
    sequential x over x              ->    sequential x over y
      sequential y over y                    copy: copy_scalar
        copy: copy_scalar

X and Y fuse when stride(X) = |Y| * stride(Y) on every tensor that is touched below them, both are
loops of one policy or axes of one role, and every guard asks about both or neither. Loops that
stand apart fuse where the ones between may move (`teir.passes.chains`); the order in which sums are
formed stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise, permutations

from msgspec.structs import replace

from teir.ir.nodes import LIMIT, Axis, GuardTerm, InvocationNode, IterationNode, Node, Program
from teir.passes.chains import Chain, chain_below, free_loops, is_chained, keeps_order, rebuilt
from teir.passes.draft import (
    Draft,
    Path,
    Siblings,
    Terms,
    below,
    change_guards,
    change_siblings,
)


def fuse_axes(program: Program, min_kernel_size: int | None = None) -> Program:
    """The program with fused loops and fused primitive axes.

    With ``min_kernel_size`` only axes Y below that extent look for an axis to fuse with.
    """
    draft = Draft(program)

    def change(nodes: Siblings, path: Path) -> Siblings:
        return tuple(_fused_node(draft, node, path, min_kernel_size) for node in nodes)

    return draft.finish(change_siblings(program.roots, change))


def continues(
    outer: Mapping[str, int], inner: Mapping[str, int], extent: int, tensors: Iterable[str]
) -> bool:
    """The rule of section 5.5.4: stride(X) = |Y| * stride(Y) on every one of ``tensors``."""
    return all(outer.get(name, 0) == extent * inner.get(name, 0) for name in tensors)


def _fused_node(draft: Draft, node: Node, path: Path, smallest: int | None) -> Node:
    if isinstance(node, InvocationNode):
        return _fused_leaf(draft, node, smallest)
    if path and is_chained(draft, path[-1], node):
        return node
    while True:
        fused = _fused_chain(draft, chain_below(node, draft), path, smallest)
        if fused is None:
            return node
        node = fused


def _fused_chain(
    draft: Draft, chain: Chain, path: Path, smallest: int | None
) -> IterationNode | None:
    """The chain with one pair of loops fused, None where there is none."""
    free: frozenset[str] | None = None
    tensors = draft.touched(chain.body)
    for outer, inner in permutations(chain.loops, 2):
        if outer.scratch or not _fits(draft, outer.axis, inner.axis, tensors, smallest):
            continue
        if not _asked_together(chain.body, outer.axis, inner.axis):
            continue
        if free is None and not _are_neighbours(chain, outer, inner):
            free = free_loops(draft, chain, path)
        order = _side_by_side(chain, outer, inner, free or frozenset())
        if order is not None:
            return _merge(draft, chain, order, outer, inner)
    return None


def _fits(
    draft: Draft, outer: str, inner: str, tensors: Iterable[str], smallest: int | None
) -> bool:
    one, two = draft.axes[outer], draft.axes[inner]
    if one.is_sparse or two.is_sparse:
        return False
    if one.extent * two.extent >= LIMIT:
        return False
    if smallest is not None and two.extent >= smallest:
        return False
    return continues(one.strides, two.strides, two.extent, tensors)


def _are_neighbours(chain: Chain, outer: IterationNode, inner: IterationNode) -> bool:
    return (outer, inner) in pairwise(chain.loops)


def _side_by_side(
    chain: Chain, outer: IterationNode, inner: IterationNode, free: frozenset[str]
) -> tuple[IterationNode, ...] | None:
    """An order of the loops in which ``inner`` comes right after ``outer``."""
    loops = chain.loops
    if _are_neighbours(chain, outer, inner):
        return loops
    rest = tuple(loop for loop in loops if loop is not outer)
    at = rest.index(inner)
    moved_in = (*rest[:at], outer, *rest[at:])
    rest = tuple(loop for loop in loops if loop is not inner)
    at = rest.index(outer) + 1
    moved_out = (*rest[:at], inner, *rest[at:])
    for order in (moved_out, moved_in):
        if loops[0].guard and order[0] is not loops[0]:
            continue
        if keeps_order(chain.axes, [loop.axis for loop in order], free):
            return order
    return None


def _merge(
    draft: Draft,
    chain: Chain,
    order: Sequence[IterationNode],
    outer: IterationNode,
    inner: IterationNode,
) -> IterationNode:
    axis = _fused_axis(draft, outer.axis, inner.axis, draft.touched(chain.body))
    node = replace(outer, axis=axis, scratch=inner.scratch)
    loops = [node if loop is outer else loop for loop in order if loop is not inner]
    body = change_guards(chain.body, partial(_renamed, outer.axis, inner.axis, axis))
    return rebuilt(loops, body)


def _fused_axis(draft: Draft, outer: str, inner: str, tensors: Iterable[str]) -> str:
    one, two = draft.axes[outer], draft.axes[inner]
    both = set(one.strides) | set(two.strides)
    if not continues(one.strides, two.strides, two.extent, both):
        both = set(tensors)
    strides = {name: two.strides[name] for name in (*two.strides, *one.strides) if name in both}
    return draft.axis(inner, outer, one.extent * two.extent, strides, _sum_of_offsets(one, two))


def _sum_of_offsets(one: Axis, two: Axis) -> dict[str, int]:
    names = dict.fromkeys((*one.offsets, *two.offsets))
    return {name: one.offsets[name] + two.offsets[name] for name in names}


def _asked_together(body: Siblings, outer: str, inner: str) -> bool:
    for node in below(body):
        kinds = [{term.kind for term in node.guard if term.axis == axis} for axis in (outer, inner)]
        if kinds[0] != kinds[1]:
            return False
    return True


def _renamed(outer: str, inner: str, fused: str, guard: Terms) -> Terms:
    return tuple(
        GuardTerm(kind=term.kind, axis=fused) if term.axis == inner else term
        for term in guard
        if term.axis != outer
    )


def _fused_leaf(draft: Draft, leaf: InvocationNode, smallest: int | None) -> InvocationNode:
    primitive = draft.primitives[leaf.primitive]
    tensors = primitive.operands
    c, m, n = (
        _fused_list(draft, names, tensors, smallest, in_order=False)
        for names in (primitive.c, primitive.m, primitive.n)
    )
    k = _fused_list(draft, primitive.k, tensors, smallest, in_order=True)
    if (c, m, n, k) == (primitive.c, primitive.m, primitive.n, primitive.k):
        return leaf
    return replace(leaf, primitive=draft.primitive(primitive, c=c, m=m, n=n, k=k))


def _fused_list(
    draft: Draft,
    names: tuple[str, ...],
    tensors: Sequence[str],
    smallest: int | None,
    *,
    in_order: bool,
) -> tuple[str, ...]:
    """A role list with every pair fused; the axes of K only where they are neighbours."""
    left = list(names)
    for at, inner in enumerate(left):
        for outer in left[max(0, at - 1) : at] if in_order else left:
            if outer != inner and _fits(draft, outer, inner, tensors, smallest):
                left[at] = _fused_axis(draft, outer, inner, tensors)
                left.remove(outer)
                return _fused_list(draft, tuple(left), tensors, smallest, in_order=in_order)
    return names
