"""Order the loops of a chain for locality.

    sequential k over k                    sequential n over n
      sequential m over m                    sequential m over m
        sequential n over n          ->        sequential k over k
          body                                   body

Summed axes go inside, so that an output tile stays near; the others by the bytes they move, the
farthest outside. Where the tiles of two loops, one over rows and one over columns, exceed the
second cache together, both are halved in turns and nested: the tiles are then visited along a
Z-shaped curve that stays in small squares.

    sequential m over m (8)                sequential m over m_1 (2)
      sequential n over n (8)        ->      sequential n over n_1 (2)
        body                                   sequential m over m_2 (4)
                                                 sequential n over n_2 (4)
                                                   body

Only loops that are free move across others (`teir.passes.chains`): the order of every sum stays.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.ir.nodes import InvocationNode, IterationNode, Node, Policy, Program
from teir.passes.chains import Chain, chain_below, free_loops, is_chained, rebuilt
from teir.passes.cutting import cut
from teir.passes.draft import Draft, Path, Siblings, below, change_siblings
from teir.passes.facts import Facts

_FEWEST = 4
"""Blocks of a curve below which halving gains nothing."""


def order_axes(program: Program, facts: Facts) -> Program:
    """The program with every sequential chain in an order that suits the caches."""
    draft = Draft(program)

    def change(nodes: Siblings, path: Path) -> Siblings:
        return tuple(_ordered(draft, facts, node, path) for node in nodes)

    return draft.finish(change_siblings(program.roots, change))


def _ordered(draft: Draft, facts: Facts, node: Node, path: Path) -> Node:
    if isinstance(node, InvocationNode) or node.policy is Policy.PARALLEL:
        return node
    if path and is_chained(draft, path[-1], node):
        return node
    chain = chain_below(node, draft)
    if len(chain.loops) < 2 or any(loop.scratch for loop in chain.loops):
        return node
    free = free_loops(draft, chain, path)
    chain = _sorted(draft, chain, free)
    loops = _along_curve(draft, facts, chain, free)
    guard = node.guard
    loops = tuple(
        replace(loop, guard=guard if at == 0 else ()) if loop.guard or (guard and at == 0) else loop
        for at, loop in enumerate(loops)
    )
    if [loop.axis for loop in loops] == [loop.axis for loop in chain_below(node, draft).loops]:
        return node
    return rebuilt(loops, chain.body)


def _sorted(draft: Draft, chain: Chain, free: frozenset[str]) -> Chain:
    tensors = draft.touched(chain.body)

    def far(loop: IterationNode) -> int:
        strides = draft.axes[loop.axis].strides
        return -sum(strides[name] for name in tensors)

    outside = sorted((loop for loop in chain.loops if loop.axis in free), key=far)
    inside = [loop for loop in chain.loops if loop.axis not in free]
    return Chain((*outside, *inside), chain.body)


def _along_curve(
    draft: Draft, facts: Facts, chain: Chain, free: frozenset[str]
) -> tuple[IterationNode, ...]:
    """The loops, the last two free ones of different operands halved in turns where it pays."""
    loops = list(chain.loops)
    count = sum(loop.axis in free for loop in loops)
    if count < 2:
        return chain.loops
    one, two = loops[count - 2], loops[count - 1]
    asked = {term.axis for node in below(chain.body) for term in node.guard}
    if asked & {one.axis, two.axis} or not _share_no_input(draft, chain, one.axis, two.axis):
        return chain.loops
    inner = [loop.axis for loop in loops[count:]]
    outside: list[IterationNode] = []
    while _halves(draft, one.axis, two.axis) and (
        _bytes_inside(draft, chain, [one.axis, two.axis, *inner]) > facts.l2_bytes
    ):
        for loop in (one, two):
            half = draft.axes[loop.axis].extent // 2
            (piece,) = cut(draft, loop.axis, half)
            assert piece.blocks is not None
            outside.append(replace(loop, name=draft.name(loop.name), axis=piece.blocks))
            inside = replace(loop, axis=piece.inside)
            one, two = (inside, two) if loop is one else (one, inside)
    return (*loops[: count - 2], *outside, one, two, *loops[count:])


def _halves(draft: Draft, one: str, two: str) -> bool:
    extents = (draft.axes[one].extent, draft.axes[two].extent)
    return all(extent % 2 == 0 and extent >= _FEWEST for extent in extents)


def _share_no_input(draft: Draft, chain: Chain, one: str, two: str) -> bool:
    """True where some input moves along one axis only, and another along the other only."""
    strides = draft.axes[one].strides, draft.axes[two].strides
    inputs = draft.touched(chain.body) - draft.written(chain.body)
    return any(name in strides[0] and name not in strides[1] for name in inputs) and any(
        name in strides[1] and name not in strides[0] for name in inputs
    )


def _bytes_inside(draft: Draft, chain: Chain, axes: list[str]) -> int:
    """The bytes of the inputs that these loops and all that is inside walk over."""
    inside: dict[str, None] = {}
    for node in below(chain.body):
        if isinstance(node, InvocationNode):
            inside.update(dict.fromkeys(draft.primitives[node.primitive].axes))
        else:
            inside[node.axis] = None
    total = 0
    for name in draft.touched(chain.body) - draft.written(chain.body):
        size = draft.width(name)
        for axis in dict.fromkeys((*axes, *inside)):
            if draft.axes[axis].strides[name]:
                size *= draft.axes[axis].extent
        total += size
    return total
