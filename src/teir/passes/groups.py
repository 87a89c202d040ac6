"""A Contraction with what sets its tile up before it and finishes it after it.

    zero: zero_tile if first(t)
    gemm: gemm_tile                 the three siblings are one group
    relu: relu_tile if last(t)

The leaves around the Contraction consume exactly its axes that move the output, and touch nothing
else; so a group may be cut along those axes as one thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from teir.ir.nodes import (
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Primitive,
)
from teir.passes.cache_blocks import Walked
from teir.passes.draft import Draft, Siblings, joined


@dataclass(frozen=True, slots=True)
class Group:
    before: tuple[InvocationNode, ...]
    main: InvocationNode
    after: tuple[InvocationNode, ...]

    @property
    def leaves(self) -> tuple[InvocationNode, ...]:
        return (*self.before, self.main, *self.after)


def grouped(draft: Draft, nodes: Siblings) -> Iterator[Node | Group]:
    """The siblings in order, Contractions with their groups."""
    left = list(nodes)
    while left:
        group = _group_at(draft, left)
        if group is None:
            yield left.pop(0)
        else:
            yield group
            del left[: len(group.leaves)]


def _group_at(draft: Draft, nodes: Sequence[Node]) -> Group | None:
    leaves: list[InvocationNode] = []
    for node in nodes:
        if isinstance(node, IterationNode):
            break
        leaves.append(node)
    at = next((at for at, leaf in enumerate(leaves) if _contracts(draft, leaf)), None)
    if at is None:
        return None
    main = leaves[at]
    primitive = draft.primitives[main.primitive]
    if primitive.output in primitive.inputs:
        return None
    end = at + 1
    while end < len(leaves) and _belongs(draft, leaves[end], main):
        end += 1
    if not all(_belongs(draft, leaf, main) for leaf in leaves[:at]):
        return None
    return Group(tuple(leaves[:at]), main, tuple(leaves[at + 1 : end]))


def _contracts(draft: Draft, leaf: InvocationNode) -> bool:
    return draft.primitives[leaf.primitive].operation is Operation.CONTRACTION


def _belongs(draft: Draft, leaf: InvocationNode, main: InvocationNode) -> bool:
    primitive, other = draft.primitives[leaf.primitive], draft.primitives[main.primitive]
    output = other.output
    if not set(main.guard) <= set(leaf.guard):
        return False
    moving = {axis for axis in other.axes if draft.axes[axis].strides[output]}
    own = set(primitive.axes)
    return set(primitive.operands) == {output} and own == moving


def with_axes(
    draft: Draft,
    leaf: InvocationNode,
    axes: Mapping[str, str],
    guard: Sequence[GuardTerm],
) -> InvocationNode:
    """The leaf under a name of its own, with axes exchanged and one more guard."""
    primitive = draft.primitives[leaf.primitive]
    c, m, n, k = (
        tuple(axes.get(name, name) for name in names) for _, names in primitive.role_axes()
    )
    changed = draft.primitive(primitive, c=c, m=m, n=n, k=k)
    name = draft.name(leaf.name)
    return replace(leaf, name=name, primitive=changed, guard=joined(leaf.guard, tuple(guard)))


def extent_of(draft: Draft, axes: Sequence[str]) -> int:
    """The number of points of the axes together."""
    total = 1
    for name in axes:
        total *= draft.axes[name].extent
    return total


def walked(
    draft: Draft, operand: str, side: Sequence[str], summed: Sequence[str], readers: int
) -> Walked:
    """How a Contraction walks an input: ``side`` moves it and the output, ``summed`` it alone."""
    strides = [draft.axes[name].strides[operand] for name in summed]
    return Walked(
        side=extent_of(draft, side),
        depth=extent_of(draft, summed),
        readers=readers,
        step=strides[-1],
        farthest=max(strides),
        apart=min(draft.axes[name].strides[operand] for name in side),
        width=draft.width(operand),
    )


def work_of(draft: Draft, nodes: Sequence[Node]) -> int:
    """The multiply-adds or elements of these subtrees, guards not regarded."""
    total = 0
    for node in nodes:
        match node:
            case InvocationNode():
                total += extent_of(draft, draft.primitives[node.primitive].axes)
            case IterationNode():
                total += draft.axes[node.axis].extent * work_of(draft, node.children)
    return total


def kinds(draft: Draft, primitive: Primitive) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The axes of a two-input Contraction that move one input and the output: rows, columns.

    Rows belong to the input that carries the lanes: the one moved by the axis with the smallest
    stride in the output. Axes of all tensors belong to neither.
    """
    first, second = primitive.inputs
    output = primitive.output
    rows: list[str] = []
    columns: list[str] = []
    for name in primitive.axes:
        strides = draft.axes[name].strides
        if output not in strides or (first in strides and second in strides):
            continue
        (columns if second in strides else rows).append(name)

    def near(names: list[str]) -> int:
        return min((draft.axes[name].strides[output] for name in names), default=1 << 62)

    rows.sort(key=lambda name: draft.axes[name].strides[output])
    columns.sort(key=lambda name: draft.axes[name].strides[output])
    if near(columns) < near(rows):
        rows, columns = columns, rows
    return tuple(rows), tuple(columns)
