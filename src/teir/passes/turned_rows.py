"""Operands whose rows lie apart in memory, turned once so that fibres find their rows adjacent.

    parallel i over i                      scratch C_rows: FP64
      sequential j.B over j.B       ->     do_copy: copy                      (reads C)
        A: add_A                           parallel i over i
                                             sequential j.B over j.B
                                               A: add_A                       (reads C_rows)

For `A[i,l] = B[i,j] * C[l,j]`, where neighbours along l are a row of C apart, every element that is
gathered has a cache line of its own. The same of a result: `A[l,i] = B[i,j] * C[j,l]` is formed in
rows of scratch, which a Copy behind turns. Both move the dense tensor once; fibres touch a row as
often as there are stored elements. Dots whose operands are adjacent then are formed in chains, as
all such dots are; no other sum changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from msgspec.structs import replace

from teir.ir.lanes import dot_chains
from teir.ir.nodes import (
    Bytes,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Primitive,
    Program,
    Tensor,
)
from teir.passes.draft import Draft

_LEAST_TOUCHES = 2
"""How often a row must be touched, on average, for turning the tensor to pay."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A tensor, the axis along its rows, and the others by stride and extent, outermost first."""

    tensor: str
    row: str
    rows: tuple[tuple[int, int], ...]


def with_turned_rows(program: Program, stored: Mapping[str, int]) -> Program:
    """The program with turned copies where they pay; the same object where none does.

    ``stored``: the elements of index arrays of coordinates by the name of their tensor.
    """
    draft = Draft(program)
    results = draft.written(program.roots)
    turns: dict[str, _Turn] = {}
    for path, leaf in program.invocations():
        for turn in _turns(draft, path, leaf, stored, results):
            turns.setdefault(turn.tensor, turn)
    if not turns:
        return program
    copies = {name: _copy(draft, turn, name in results) for name, turn in turns.items()}
    names = {name: tensor.name for name, (tensor, _) in copies.items()}
    before = tuple(leaf for name, (_, leaf) in copies.items() if name not in results)
    behind = tuple(leaf for name, (_, leaf) in copies.items() if name in results)
    roots = tuple(_on_rows(draft, node, names) for node in program.roots)
    scratch = tuple(tensor for tensor, _ in copies.values())
    return draft.finish((*before, *roots, *behind), (*program.scratch, *scratch))


def _turns(
    draft: Draft,
    path: tuple[IterationNode, ...],
    leaf: InvocationNode,
    stored: Mapping[str, int],
    results: frozenset[str],
) -> Iterator[_Turn]:
    """The operands of a Contraction along one axis that lie across it, and are touched often."""
    primitive = draft.primitives[leaf.primitive]
    walked = [node.axis for node in path if draft.axes[node.axis].is_sparse]
    if primitive.operation is not Operation.CONTRACTION or len(primitive.axes) != 1 or not walked:
        return
    touches = stored.get(draft.axes[walked[-1]].segments[0].crd, 0)
    for name in dict.fromkeys(primitive.operands):
        turn = _turn(draft, name, primitive.axes[0])
        if turn is None or not _may_turn(draft, name, primitive.output, results):
            continue
        if touches >= _LEAST_TOUCHES * prod(extent for _, extent in turn.rows):
            yield turn


def _may_turn(draft: Draft, name: str, output: str, results: frozenset[str]) -> bool:
    """True for an input of the program, and for a result that begins from zeros."""
    if name not in {tensor.name for tensor in draft.program.tensors}:
        return False
    if name not in results:
        return True
    uses = [one for one in draft.primitives.values() if name in one.operands]
    return name == output and any(one.operation is Operation.ZERO for one in uses)


def _turn(draft: Draft, name: str, row: str) -> _Turn | None:
    """How the tensor lies, if its rows along the axis lie apart and every axis is one of them."""
    across = draft.axes[row].strides[name]
    if across <= draft.width(name) or draft.axes[row].is_sparse:
        return None
    extents: dict[int, int] = {}
    for axis in draft.axes.values():
        stride = axis.strides[name]
        if (
            axis.offsets[name]
            or stride < 0
            or any(name in one.by_position for one in axis.segments)
        ):
            return None
        if stride == 0 or axis.name == row:
            continue
        if extents.setdefault(stride, axis.extent) != axis.extent or stride == across:
            return None
    rows = tuple(sorted(extents.items(), reverse=True))
    return _Turn(name, row, rows) if rows else None


def _copy(draft: Draft, turn: _Turn, is_result: bool) -> tuple[Tensor, InvocationNode]:
    """The scratch in rows, its strides on all axes of the tensor, and the Copy from or to it."""
    name, width = turn.tensor, draft.width(turn.tensor)
    rows = draft.scratch(f"{name}_rows", draft.tensors[name].data_type)
    strides = {draft.axes[turn.row].strides[name]: width}
    apart = draft.axes[turn.row].extent * width
    for stride, extent in reversed(turn.rows):
        strides[stride] = apart
        apart *= extent
    for axis in tuple(draft.axes.values()):
        if axis.strides[name]:
            turned = Bytes({**axis.strides, rows.name: strides[axis.strides[name]]})
            draft.axes[axis.name] = replace(axis, strides=turned)
    every = tuple(
        draft.axis(
            turn.row, f"rows {place}", extent, {name: stride, rows.name: strides[stride]}, {}
        )
        for place, (stride, extent) in enumerate(turn.rows)
    )
    source, target = (rows.name, name) if is_result else (name, rows.name)
    return rows, draft.invoke(Operation.COPY, (source,), target, m=(*every, turn.row))


def _on_rows(draft: Draft, node: Node, names: Mapping[str, str]) -> Node:
    """The node with the turned tensors in the place of the others."""
    match node:
        case IterationNode():
            below = tuple(_on_rows(draft, one, names) for one in node.children)
            return replace(node, children=below)
        case InvocationNode():
            primitive = draft.primitives[node.primitive]
            if not names.keys() & set(primitive.operands):
                return node
            inputs = tuple(names.get(name, name) for name in primitive.inputs)
            output = names.get(primitive.output, primitive.output)
            name = draft.primitive(
                _in_chains(draft, primitive, inputs), inputs=inputs, output=output
            )
            return replace(node, primitive=name)


def _in_chains(draft: Draft, primitive: Primitive, inputs: tuple[str, ...]) -> Primitive:
    """The Contraction with the chains of a dot, if it is one whose inputs are adjacent now."""
    is_dot = len(inputs) == 2 and len(primitive.k) == len(primitive.axes) == 1
    if not is_dot or primitive.metadata:
        return primitive
    strides = draft.axes[primitive.k[0]].strides
    if any(strides[name] != draft.width(name) for name in inputs):
        return primitive
    return replace(primitive, metadata=dot_chains(draft.tensors[inputs[0]].data_type))
