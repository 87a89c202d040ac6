"""Fuse a remainder branch with the blocks before it: the inverse of an inexact split.

    axis m_1 = 31: in0 128, out 128        axis m = 1009: in0 4, out 4
    axis m_2 = 32: in0 4, out 4
    axis m_3 = 17: in0 4 + 3968, out 4 + 3968
    sequential m over m_1            ->    copy: copy_tile           M=[m]
      copy: copy_tile        M=[m_2]
    copy_1: copy_rest        M=[m_3]

For targets whose tiles may reach beyond an axis: there a remainder is overhang of the last tile,
and a branch of its own a second kernel. The fused axis has exactly the elements of the branches, so
nothing overhangs in the program, and it is one axis with one stride per tensor: an inner axis of a
composite that is cut into blocks is never made, and a tile's overhang lies beyond all of it.

Blocks and remainder are equal but for one axis, whose two ranges touch on every tensor. ``first``
and ``last`` become those of the fused axis. Where that changes the order of what runs, its indices
have to be independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from teir.ir.nodes import (
    Axis,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Policy,
    Program,
)
from teir.passes.chains import has_no_race
from teir.passes.draft import Draft, Path, Siblings, Terms, below, change_siblings, owns_scratch
from teir.passes.still_offsets import has_still_offsets


def fuse_remainders(program: Program) -> Program:
    """The program with every remainder branch fused that can be."""
    if has_still_offsets(program):
        return program
    draft = Draft(program)

    def change(nodes: Siblings, path: Path) -> Siblings:
        at = 0
        while at + 1 < len(nodes):
            found = _fused(draft, nodes, at, path)
            if found is None:
                at += 1
                continue
            fused, used = found
            nodes, at = (*nodes[:at], *fused, *nodes[at + used :]), 0
        return nodes

    return draft.finish(change_siblings(program.roots, change))


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Axes that make one, ``whole``: ``blocks`` (or None) times ``inside``, then ``rest``."""

    blocks: str | None
    inside: str
    rest: str
    whole: str
    is_loop: bool
    """Is ``inside`` iterated, or consumed by primitives?"""


def _fused(draft: Draft, nodes: Siblings, at: int, path: Path) -> tuple[Siblings, int] | None:
    """What takes the place of ``nodes[at : at + used]``, and ``used``."""
    main = nodes[at]
    most = max(1, len(main.children)) if isinstance(main, IterationNode) else 1
    for count in range(1, min(most, len(nodes) - at - 1) + 1):
        others = nodes[at + 1 : at + 1 + count]
        if owns_scratch((main, *others)):
            return None
        ranges = _ranges(draft, main, others)
        joined = None if ranges is None else _joined(draft, ranges, (main,), others)
        if ranges is None or joined is None:
            continue
        body = [node for node in joined if node not in _lifted(draft, ranges, (main,))]
        if _keeps_order(draft, ranges, main, body) or _is_free(draft, ranges, body, path):
            return joined, 1 + count
    return None


def _axes_of(draft: Draft, nodes: Sequence[Node]) -> set[str]:
    found: set[str] = set()
    for node in below(nodes):
        if isinstance(node, IterationNode):
            found.add(node.axis)
        else:
            found.update(draft.primitives[node.primitive].axes)
    return found


def _ranges(draft: Draft, main: Node, others: Siblings) -> _Ranges | None:
    """The axes in which ``main`` and ``others`` differ, where their ranges touch."""
    mine, theirs = _axes_of(draft, (main,)), _axes_of(draft, others)
    only_main, only_others = sorted(mine - theirs), theirs - mine
    if len(only_others) != 1 or len(only_main) not in (1, 2):
        return None
    rest = draft.axes[next(iter(only_others))]
    orders = [only_main, only_main[::-1]] if len(only_main) == 2 else [only_main]
    for *blocks, inside in orders:
        outer = draft.axes[blocks[0]] if blocks else None
        whole = _touching(draft, outer, draft.axes[inside], rest)
        if whole is not None:
            loops = {node.axis for node in below((main,)) if isinstance(node, IterationNode)}
            if outer is not None and outer.name not in loops:
                return None
            name = None if outer is None else outer.name
            return _Ranges(name, inside, rest.name, whole, inside in loops)
    return None


def _touching(draft: Draft, blocks: Axis | None, inside: Axis, rest: Axis) -> str | None:
    """The name of the axis that walks all of it; None where it would not be one axis."""
    if any(one.is_sparse for one in (inside, rest, *((blocks,) if blocks else ()))):
        return None
    if dict(inside.strides.items()) != dict(rest.strides.items()):
        return None
    count = inside.extent
    offsets = dict(inside.offsets.items())
    if blocks is not None:
        names = {*blocks.strides, *inside.strides}
        if any(blocks.strides[one] != inside.strides[one] * inside.extent for one in names):
            return None
        count *= blocks.extent
        for one, offset in blocks.offsets.items():
            offsets[one] = offsets.get(one, 0) + offset
    names = {*offsets, *rest.offsets, *inside.strides}
    if any(rest.offsets[one] != offsets.get(one, 0) + inside.strides[one] * count for one in names):
        return None
    extent = count + rest.extent
    return draft.axis(inside.name, "whole", extent, dict(inside.strides.items()), offsets)


def _joined(
    draft: Draft, ranges: _Ranges, main: Siblings, others: Siblings
) -> tuple[Node, ...] | None:
    """Both lists as one over the whole axis; None where they are not the same work."""
    result: list[Node] = []
    left, right = list(main), list(others)
    while left or right:
        if left and isinstance(left[0], IterationNode) and left[0].axis == ranges.blocks:
            if left[0].guard:
                return None
            left[:1] = left[0].children
            continue
        if left and _runs_once(draft, ranges, left[0], GuardKind.FIRST):
            result.append(_whole_guard(ranges, left.pop(0)))
            continue
        if right and _runs_once(draft, ranges, right[0], GuardKind.LAST):
            result.append(_whole_guard(ranges, right.pop(0)))
            continue
        pair = _pair(draft, ranges, left.pop(0), right.pop(0)) if left and right else None
        if pair is None:
            return None
        result.append(pair)
    return tuple(result)


def _cut_axes(ranges: _Ranges) -> set[str]:
    return {name for name in (ranges.blocks, ranges.inside, ranges.rest) if name is not None}


def _runs_once(draft: Draft, ranges: _Ranges, node: Node, kind: GuardKind) -> bool:
    """Does ``node`` run at the very first (or last) index of the whole axis only?"""
    walked = [ranges.rest] if kind is GuardKind.LAST else [ranges.blocks, ranges.inside]
    wanted = {name for name in walked if name is not None and name != ranges.inside}
    if ranges.is_loop:
        wanted = {name for name in walked if name is not None}
    asked = {term.axis for term in node.guard if term.kind is kind} & _cut_axes(ranges)
    if not wanted or asked != wanted:
        return False
    # A tile that is run once and outlives the loop over blocks must not move with them.
    moved = draft.touched((node,))
    tied = _axes_of(draft, (node,)) & _cut_axes(ranges)
    return not tied and not any(
        draft.axes[name].strides[tensor] for name in _cut_axes(ranges) for tensor in moved
    )


def _lifted(draft: Draft, ranges: _Ranges, main: Siblings) -> tuple[Node, ...]:
    """What `_joined` takes out of the blocks because it runs once."""
    if ranges.is_loop:
        return ()
    block = main[0]
    if not isinstance(block, IterationNode) or block.axis != ranges.blocks:
        return ()
    return tuple(
        _whole_guard(ranges, child)
        for child in block.children
        if _runs_once(draft, ranges, child, GuardKind.FIRST)
    )


def _whole_guard(ranges: _Ranges, node: Node) -> Node:
    """The guard with terms about the whole axis in place of those about its parts."""
    terms: list[GuardTerm] = []
    for term in node.guard:
        if term.axis not in _cut_axes(ranges):
            terms.append(term)
        elif ranges.is_loop:
            terms.append(GuardTerm(kind=term.kind, axis=ranges.whole))
    guard: Terms = tuple(dict.fromkeys(terms))
    return replace(node, guard=guard)


def _pair(draft: Draft, ranges: _Ranges, one: Node, other: Node) -> Node | None:
    """One node for both; None where they differ in more than the range of the axis."""
    if one.guard != other.guard or any(term.axis in _cut_axes(ranges) for term in one.guard):
        return None
    if isinstance(one, IterationNode) and isinstance(other, IterationNode):
        axes = (_renamed(ranges, one.axis), _renamed(ranges, other.axis))
        if axes[0] != axes[1] or one.policy is not other.policy:
            return None
        children = _joined(draft, ranges, one.children, other.children)
        return None if children is None else replace(one, axis=axes[0], children=children)
    if isinstance(one, InvocationNode) and isinstance(other, InvocationNode):
        mine, theirs = draft.primitives[one.primitive], draft.primitives[other.primitive]
        roles = [
            tuple(tuple(_renamed(ranges, axis) for axis in names) for _, names in each.role_axes())
            for each in (mine, theirs)
        ]
        if roles[0] != roles[1]:
            return None
        c, m, n, k = roles[0]
        if replace(mine, name="", c=c, m=m, n=n, k=k) != replace(
            theirs, name="", c=c, m=m, n=n, k=k
        ):
            return None
        return replace(one, primitive=draft.primitive(mine, c=c, m=m, n=n, k=k))
    return None


def _renamed(ranges: _Ranges, axis: str) -> str:
    return ranges.whole if axis in (ranges.inside, ranges.rest) else axis


def _keeps_order(draft: Draft, ranges: _Ranges, main: Node, body: Sequence[Node]) -> bool:
    """True where every element meets the same operations in the same order as before."""
    inner = main
    if isinstance(main, IterationNode) and main.axis == ranges.blocks and len(main.children) == 1:
        inner = main.children[0]
    if len(body) != 1:
        return False
    if isinstance(body[0], IterationNode):
        is_nest = isinstance(inner, IterationNode) and inner.axis == ranges.inside
        return is_nest and body[0].axis == ranges.whole
    primitive = draft.primitives[body[0].primitive]
    if draft.axes[ranges.whole].strides[primitive.output]:
        return True
    return primitive.k[:1] == (ranges.whole,)


def _is_free(draft: Draft, ranges: _Ranges, body: Sequence[Node], path: Path) -> bool:
    """True where the indices of the whole axis are independent of each other."""
    children = tuple(part for node in body for part in _without(draft, ranges.whole, node))
    loop = IterationNode(
        name=draft.name("indices"), axis=ranges.whole, policy=Policy.PARALLEL, children=children
    )
    return has_no_race(draft, loop, path)


def _without(draft: Draft, axis: str, node: Node) -> Siblings:
    """The work of one index of ``axis``."""
    if isinstance(node, InvocationNode):
        primitive = draft.primitives[node.primitive]
        c, m, n, k = (
            tuple(one for one in names if one != axis) for _, names in primitive.role_axes()
        )
        return (replace(node, primitive=draft.primitive(primitive, c=c, m=m, n=n, k=k)),)
    children = tuple(part for child in node.children for part in _without(draft, axis, child))
    return children if node.axis == axis else (replace(node, children=children),)
