"""Dense products that are roots of their own, formed for some rows of the result after the other.

    zero_H [k, m]                         parallel k over blocks of 48
    add_H  [k, m; l]                ->      zero_H [48, m]
                                            add_H  [48, m; l]

A product that is larger than the second cache would be read once for every panel of columns.
"""

from __future__ import annotations

from teir.ir.nodes import InvocationNode, Node, Operation, Policy, Primitive, Program
from teir.passes.cutting import cut, looped
from teir.passes.draft import Draft, Siblings
from teir.passes.groups import with_axes

_ROWS = 48
_LEAST_ROWS = 4 * _ROWS
_SECOND_CACHE = 1 << 20


def with_leaf_blocks(program: Program) -> Program:
    """The program with large products cut into blocks; the same object where there are none."""
    draft = Draft(program)
    roots: list[Node] = []
    is_cut = False
    left = list(program.roots)
    while left:
        run = _run(draft, left)
        name = _row_axis(draft, run[-1])
        if name is None or not all(name in _primitive(draft, node).axes for node in run):
            roots.append(left.pop(0))
            continue
        del left[: len(run)]
        is_cut = True
        for piece in cut(draft, name, _ROWS):
            part = tuple(
                with_axes(draft, node, {name: piece.inside}, ())
                for node in run
                if isinstance(node, InvocationNode)
            )
            roots += looped(draft, piece.blocks, part, Policy.PARALLEL)
    return draft.finish(tuple(roots)) if is_cut else program


def _run(draft: Draft, nodes: list[Node]) -> Siblings:
    """The first node; with the next where that adds into what it clears."""
    first = nodes[0]
    if len(nodes) < 2 or not all(isinstance(node, InvocationNode) for node in nodes[:2]):
        return (first,)
    zero, add = (_primitive(draft, node) for node in nodes[:2])
    clears = zero.operation is Operation.ZERO and zero.output == add.output
    return (first, nodes[1]) if clears and not nodes[1].guard else (first,)


def _primitive(draft: Draft, node: Node) -> Primitive:
    assert isinstance(node, InvocationNode)
    return draft.primitives[node.primitive]


def _row_axis(draft: Draft, node: Node) -> str | None:
    """The axis whose blocks are formed one after the other; None for anything but large products.

    It moves the result, in whole rows, and one of two inputs.
    """
    if not isinstance(node, InvocationNode) or node.guard:
        return None
    primitive = draft.primitives[node.primitive]
    if primitive.operation is not Operation.CONTRACTION or len(primitive.inputs) != 2:
        return None
    if primitive.metadata or not primitive.k:
        return None
    axes = [draft.axes[name] for name in primitive.axes]
    row = max(axes, key=lambda axis: axis.strides[primitive.output])
    moved = [row.strides[name] for name in primitive.inputs]
    others = [axis for axis in axes if axis is not row]
    if any(axis.is_sparse or axis.strides[primitive.output] < 0 for axis in axes):
        return None
    reach = sum(axis.strides[primitive.output] * (axis.extent - 1) for axis in others)
    if 0 not in moved or row.extent < _LEAST_ROWS or row.strides[primitive.output] <= reach:
        return None
    far = min(max(moved), row.strides[primitive.output])
    return row.name if far * row.extent > _SECOND_CACHE else None
