"""Split axes that are longer than a kernel should be (sections 5.5.2 and 5.5.4).

    axis m = 1009: in0 4, out 4            axis m_1 = 31: in0 128, out 128
    sequential m over m                    axis m_2 = 32: in0 4, out 4
      copy: copy_scalar              ->    axis m_3 = 17: in0 4 + 3968, out 4 + 3968
                                           sequential m over m_1
                                             sequential m_4 over m_2
                                               copy: copy_scalar
                                           sequential m_5 over m_3
                                             copy_1: copy_scalar

Exact splits come first, by the rules for the role of the axis. Where there is none, what does not
fill a block becomes a sibling branch. ``first`` and ``last`` go to the branch that holds that
index. A free loop around the branches is split up among them, so that every branch stays a nest of
its own. Axes inside primitives are split the same way; the outer summed axes of one that is split
become loops, so that no sum changes its order. An axis stays whole where a branch would have to
copy scratch.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec.structs import replace

from teir.ir.nodes import (
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Role,
)
from teir.passes.chains import has_no_race
from teir.passes.cutting import Piece, cut, looped
from teir.passes.draft import (
    Draft,
    Path,
    Siblings,
    Terms,
    below,
    change_guards,
    change_siblings,
    owns_scratch,
)
from teir.passes.extents import best_split, even_block, granule_of, uneven_block


def split_axes(program: Program, max_kernel_size: int, min_kernel_size: int = 1) -> Program:
    """The program with no loop and no primitive axis longer than ``max_kernel_size`` left whole.

    Both parts of an exact split have at least ``min_kernel_size`` indices. Without one, blocks and
    what they leave have as many, where any blocks of at most ``max_kernel_size`` do; else what they
    leave is shorter. A loop over blocks is split again where it is too long itself and has an exact
    split.
    """
    draft = Draft(program)
    branches: set[str] = set()

    def change(nodes: Siblings, path: Path) -> Siblings:
        changed: list[Node] = []
        for node in nodes:
            match node:
                case IterationNode():
                    parts = _distributed(draft, node, path, branches)
                    split = tuple(
                        piece
                        for part in parts
                        for piece in _split_loop(draft, part, max_kernel_size, min_kernel_size)
                    )
                    if len(split) > 1:
                        branches.update(piece.name for piece in split)
                    changed += split
                case InvocationNode():
                    changed += _split_leaf(draft, node, max_kernel_size, min_kernel_size)
        return tuple(changed)

    return draft.finish(change_siblings(program.roots, change))


def _block(extent: int, role: Role, largest: int, smallest: int) -> int:
    if extent <= largest:
        return extent
    exact = best_split(extent, role, largest, smallest)
    if exact is not None:
        return exact[1]
    even = even_block(extent, largest, min(largest, granule_of(role)))
    left = extent % even
    if even >= max(smallest, min(2, largest)) and (left == 0 or left >= smallest):
        return even
    return uneven_block(extent, role, largest, smallest) or even


def _distributed(
    draft: Draft, node: IterationNode, path: Path, branches: set[str]
) -> tuple[IterationNode, ...]:
    """One copy of a free loop around each of the branches inside it."""
    children = node.children
    if len(children) < 2 or not all(child.name in branches for child in children):
        return (node,)
    if owns_scratch((node,)) or not has_no_race(draft, node, path):
        return (node,)
    first, *others = children
    copies = [replace(node, children=(first,))]
    for child in others:
        copies.append(replace(node, name=draft.name(node.name), children=(child,)))
    return tuple(copies)


def _split_loop(draft: Draft, node: IterationNode, largest: int, smallest: int) -> Siblings:
    axis = draft.axes[node.axis]
    block = _block(axis.extent, _role_of_loop(draft, node), largest, smallest)
    if block == axis.extent or axis.is_sparse or (block == 1 and _has_single_steps(draft, node)):
        return (node,)
    if axis.extent % block and owns_scratch((node,)):
        return (node,)
    pieces = cut(draft, node.axis, block)
    branches: Siblings = ()
    for number, piece in enumerate(pieces):
        for branch in _branch(draft, node, piece, number == 0, number == len(pieces) - 1):
            branches += _blocks_split(draft, branch, largest, smallest)
    return branches


def _has_single_steps(draft: Draft, node: IterationNode) -> bool:
    """True where the loop walks blocks of one index already."""
    child = node.children[0]
    if len(node.children) > 1 or not isinstance(child, IterationNode):
        return False
    inside, blocks = draft.axes[child.axis], draft.axes[node.axis]
    return inside.extent == 1 and inside.strides == blocks.strides


def _blocks_split(draft: Draft, node: Node, largest: int, smallest: int) -> Siblings:
    """A loop over blocks, in two loops where it is too long and divides."""
    if not isinstance(node, IterationNode):
        return (node,)
    extent, role = draft.axes[node.axis].extent, _role_of_loop(draft, node)
    if extent <= largest or best_split(extent, role, largest, smallest) is None:
        return (node,)
    return _split_loop(draft, node, largest, smallest)


def _branch(
    draft: Draft, node: IterationNode, piece: Piece, has_first: bool, has_last: bool
) -> Siblings:
    """The loops over one piece around the children that run in it."""
    walked = [name for name in (piece.blocks, piece.inside) if name is not None]

    def narrowed(guard: Terms) -> Terms | None:
        terms: list[GuardTerm] = []
        for term in guard:
            if term.axis != node.axis:
                terms.append(term)
                continue
            if not (has_first if term.kind is GuardKind.FIRST else has_last):
                return None
            terms += [GuardTerm(kind=term.kind, axis=name) for name in walked]
        return tuple(terms)

    children = change_guards(node.children, narrowed)
    if not children:
        return ()
    if not has_first:
        children = tuple(map(draft.copied, children))
    name = node.name if has_first else draft.name(node.name)
    if piece.blocks is None:
        return (replace(node, name=name, axis=piece.inside, children=children),)
    inner = IterationNode(
        name=draft.name(node.name),
        axis=piece.inside,
        policy=node.policy,
        children=children,
        scratch=node.scratch,
    )
    return (replace(node, name=name, axis=piece.blocks, children=(inner,), scratch=()),)


def _role_of_loop(draft: Draft, node: IterationNode) -> Role:
    """What the axis is to the contractions below: K where it moves no output, else M or N."""
    strides = draft.axes[node.axis].strides
    for leaf in below((node,)):
        if not isinstance(leaf, InvocationNode):
            continue
        primitive = draft.primitives[leaf.primitive]
        if primitive.operation is Operation.CONTRACTION:
            return role_of(strides, primitive)
    return Role.M


def role_of(moved: Container[str], primitive: Primitive) -> Role:
    """The kind of an axis that moves these tensors in a Contraction (Table 10.6.1)."""
    if primitive.output not in moved:
        return Role.K
    first, *others = primitive.inputs
    if not others or not any(name in moved for name in others):
        return Role.M
    return Role.C if first in moved else Role.N


def _split_leaf(draft: Draft, leaf: InvocationNode, largest: int, smallest: int) -> Siblings:
    """Loops over the blocks of the first axis that is too long, around one leaf per piece."""
    primitive = draft.primitives[leaf.primitive]
    for role, names in primitive.role_axes():
        for at, name in enumerate(names):
            extent = draft.axes[name].extent
            block = _block(extent, role, largest, smallest)
            if block == extent:
                continue
            if role is Role.K and at > 0:
                return _summed_outside(draft, leaf, at, largest, smallest)
            nodes: list[Node] = []
            for piece in cut(draft, name, block):
                inside = (*names[:at], piece.inside, *names[at + 1 :])
                nodes += _split_piece(draft, leaf, role, inside, piece.blocks, largest, smallest)
            return tuple(nodes)
    return (leaf,)


def _summed_outside(
    draft: Draft, leaf: InvocationNode, count: int, largest: int, smallest: int
) -> Siblings:
    """Loops over the first summed axes around the leaf over the others, which is split.

    Blocks of an inner summed axis around the outer ones would add in another order.
    """
    primitive = draft.primitives[leaf.primitive]
    name = draft.primitive(
        primitive, c=primitive.c, m=primitive.m, n=primitive.n, k=primitive.k[count:]
    )
    inner = InvocationNode(name=draft.name(leaf.name), primitive=name)
    body = _split_leaf(draft, inner, largest, smallest)
    for axis in reversed(primitive.k[:count]):
        body = looped(draft, axis, body, Policy.SEQUENTIAL)
    (loop,) = body
    return (replace(loop, guard=leaf.guard),)


def _split_piece(
    draft: Draft,
    leaf: InvocationNode,
    role: Role,
    names: Sequence[str],
    blocks: str | None,
    largest: int,
    smallest: int,
) -> Siblings:
    primitive = draft.primitives[leaf.primitive]
    lists = dict(primitive.role_axes()) | {role: tuple(names)}
    name = draft.primitive(
        primitive, c=lists[Role.C], m=lists[Role.M], n=lists[Role.N], k=lists[Role.K]
    )
    inner = InvocationNode(
        name=draft.name(leaf.name),
        primitive=name,
        guard=leaf.guard if blocks is None else (),
    )
    body = _split_leaf(draft, inner, largest, smallest)
    if blocks is None:
        return body
    (loop,) = looped(draft, blocks, body, Policy.SEQUENTIAL)
    return _blocks_split(draft, replace(loop, guard=leaf.guard), largest, smallest)
