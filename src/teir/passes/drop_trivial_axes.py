"""Drop axes of one index.

    axis a = 1: in0 400                     axis m = 5: in0 4, out 4
    axis m = 5: in0 4, out 4
    sequential a over a              ->     sequential m over m
      sequential m over m                     copy: copy_scalar
        copy: copy_scalar if first(a)

Such an axis adds nothing to any address and its guard terms always hold. It stays where it carries
an offset, where it is sparse, where its node owns scratch, whose life it bounds, and where it is
the last K axis of a Contraction with `lanes`: that axis says which products meet in a lane.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.ir.lanes import lanes_of
from teir.ir.nodes import InvocationNode, IterationNode, Node, Program
from teir.passes.draft import Draft, Path, Siblings, Terms, change_guards, change_siblings, joined


def drop_trivial_axes(program: Program) -> Program:
    """The program without axes of extent 1, loops over them and guard terms about them."""
    trivial = {axis.name for axis in program.axes if axis.extent == 1 and not axis.is_sparse}
    if not trivial:
        return program
    draft = Draft(program)
    still = frozenset(name for name in trivial if not draft.axes[name].offsets)

    def change(nodes: Siblings, path: Path) -> Siblings:
        del path
        kept: list[Node] = []
        for node in nodes:
            if isinstance(node, InvocationNode):
                kept.append(_consuming_less(draft, node, still))
            elif node.axis in still and not node.scratch:
                kept += _inside(node)
            else:
                kept.append(node)
        return tuple(kept)

    def shorten(guard: Terms) -> Terms:
        return tuple(term for term in guard if term.axis not in trivial)

    roots = change_guards(program.roots, shorten)
    return draft.finish(change_siblings(roots, change))


def _inside(node: IterationNode) -> Siblings:
    return tuple(
        replace(child, guard=joined(node.guard, child.guard)) if node.guard else child
        for child in node.children
    )


def _consuming_less(draft: Draft, leaf: InvocationNode, still: frozenset[str]) -> InvocationNode:
    primitive = draft.primitives[leaf.primitive]
    if lanes_of(primitive) is not None:
        still = still - set(primitive.k[-1:])
    if not still & set(primitive.axes):
        return leaf
    c, m, n, k = (
        tuple(name for name in names if name not in still) for _, names in primitive.role_axes()
    )
    return replace(leaf, primitive=draft.primitive(primitive, c=c, m=m, n=n, k=k))
