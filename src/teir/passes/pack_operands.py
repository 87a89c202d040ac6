"""Copy operands of Contractions into scratch, in the order their kernels read them.

    sequential m over m                    sequential m over m
      sequential n over n                    scratch in0_packed: FP32
        gemm: gemm_tile                      do_copy: copy_panels
                                     ->      sequential n over n
                                               gemm: gemm_tile             (reads in0_packed)

The operand that carries the lanes is packed where its lanes lie apart, or its reductions take steps
of 2048 bytes and more (multiples of 4096 bytes meet in one cache set) and are read often:
[loops][k][row], rows adjacent. The other operand is packed where its reductions lie apart and many
rows read them: [loops][column][k], columns padded by a line, or [loops][k][column] where its
columns are adjacent already. The copy stands before the outermost loop that reads the same elements
again and for which they fit: half of the second cache for lanes, half of the third for the others.
Branches that walk the operand alike share one copy. No sum changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from teir.ir.nodes import (
    Bytes,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Program,
    Tensor,
)
from teir.passes.draft import Draft, Siblings
from teir.passes.facts import Facts
from teir.passes.groups import extent_of, kinds

_LINE = 64


def pack_operands(program: Program, facts: Facts) -> Program:
    """The program with operands of Contractions packed where that saves more than it costs."""
    draft = Draft(program)
    roots, scratch = _packed(draft, facts, program.roots)
    return draft.finish(roots, (*program.scratch, *scratch))


@dataclass(frozen=True, slots=True)
class _Wish:
    """A Contraction leaf below a list of siblings that wants an operand packed before them.

    ``loops`` are the loops below that move the operand, ``across`` the consumed axes that move it
    and the output, ``along`` the reductions; all outermost first.
    """

    leaf: str
    operand: str
    is_lanes: bool
    loops: tuple[str, ...]
    across: tuple[str, ...]
    along: tuple[str, ...]

    @property
    def walk(self) -> tuple[object, ...]:
        return (self.operand, self.loops, self.across, self.along)


def _packed(draft: Draft, facts: Facts, nodes: Siblings) -> tuple[Siblings, tuple[Tensor, ...]]:
    """The siblings with the copies that belong before them, and the scratch they fill."""
    changed: list[Node] = []
    copies: dict[int, list[Node]] = {}
    scratch: dict[tuple[object, ...], Tensor] = {}
    moved: dict[str, dict[str, str]] = {}
    written = draft.written(nodes)
    for at, node in enumerate(nodes):
        if not isinstance(node, IterationNode):
            continue
        for wish in _wishes(draft, facts, node):
            if wish.operand in written:
                continue
            tensor = scratch.get(wish.walk)
            if tensor is None:
                tensor, copy = _copy(draft, wish)
                scratch[wish.walk] = tensor
                copies.setdefault(at, []).append(copy)
            moved.setdefault(wish.leaf, {})[wish.operand] = tensor.name
    for at, node in enumerate(nodes):
        changed += copies.get(at, [])
        if isinstance(node, IterationNode):
            if moved:
                node = _reading(draft, node, moved)
            children, owned = _packed(draft, facts, node.children)
            if children is not node.children:
                node = replace(node, children=children, scratch=(*node.scratch, *owned))
        changed.append(node)
    if all(one is two for one, two in zip(changed, nodes, strict=False)):
        return nodes, ()
    return tuple(changed), tuple(scratch.values())


def _reading(draft: Draft, node: IterationNode, moved: dict[str, dict[str, str]]) -> IterationNode:
    """The loop with the named leaves reading packed operands."""
    children: list[Node] = []
    for child in node.children:
        if isinstance(child, IterationNode):
            children.append(_reading(draft, child, moved))
        elif child.name in moved:
            primitive = draft.primitives[child.primitive]
            names = moved[child.name]
            inputs = tuple(names.get(name, name) for name in primitive.inputs)
            children.append(replace(child, primitive=draft.primitive(primitive, inputs=inputs)))
        else:
            children.append(child)
    if all(one is two for one, two in zip(children, node.children, strict=True)):
        return node
    return replace(node, children=tuple(children))


def _wishes(draft: Draft, facts: Facts, node: IterationNode) -> list[_Wish]:
    """What the Contractions below this loop want packed right before it."""
    if node.guard or draft.axes[node.axis].is_sparse:
        return []
    found: list[_Wish] = []
    stack: list[tuple[tuple[str, ...], IterationNode]] = [((node.axis,), node)]
    while stack:
        loops, loop = stack.pop()
        for child in loop.children:
            if isinstance(child, IterationNode):
                if not child.guard and not draft.axes[child.axis].is_sparse:
                    stack.append(((*loops, child.axis), child))
                continue
            found += _wishes_of_leaf(draft, facts, child, loops)
    return found


def _wishes_of_leaf(
    draft: Draft, facts: Facts, leaf: InvocationNode, loops: tuple[str, ...]
) -> list[_Wish]:
    primitive = draft.primitives[leaf.primitive]
    if primitive.operation is not Operation.CONTRACTION or leaf.guard:
        return []
    if len(set(primitive.operands)) != 3 or len(primitive.inputs) != 2:
        return []
    rows, columns = kinds(draft, primitive)
    summed = tuple(name for name in primitive.axes if not _moves(draft, name, primitive.output))
    if not rows or not summed or len(rows) + len(columns) + len(summed) != len(primitive.axes):
        return []
    first, second = primitive.inputs
    lanes, other = (first, second) if _moves(draft, rows[0], first) else (second, first)
    wishes = []
    known = draft.program.tensor_table()
    for operand, side, limit in (
        (lanes, rows, facts.l2_bytes // 2),
        (other, columns, facts.l3_bytes // 2),
    ):
        if _moves(draft, loops[0], operand) or operand not in known:
            continue
        inside = tuple(name for name in loops if _moves(draft, name, operand))
        across = tuple(name for name in side if _moves(draft, name, operand))
        walked = (*inside, *across, *summed)
        if not across or len(set(walked)) != len(walked):
            continue
        readers = extent_of(draft, [name for name in loops if name not in inside])
        readers *= extent_of(draft, columns if operand == lanes else rows)
        if (
            extent_of(draft, walked) * draft.width(operand) > limit
            or readers < facts.packed_readers
        ):
            continue
        wants = _wants_lanes if operand == lanes else _wants_other
        if wants(draft, facts, operand, side, summed, extent_of(draft, walked)):
            wishes.append(_Wish(leaf.name, operand, operand == lanes, inside, across, summed))
    return wishes


def _moves(draft: Draft, axis: str, tensor: str) -> bool:
    return draft.axes[axis].strides[tensor] != 0


def _wants_lanes(
    draft: Draft, facts: Facts, operand: str, rows: Sequence[str], summed: Sequence[str], size: int
) -> bool:
    """True when lanes are not adjacent, or the rows of a reduction lie far apart."""
    strides = [draft.axes[name].strides[operand] for name in summed]
    if (
        size < facts.packed_elements
        or min(extent_of(draft, rows), extent_of(draft, summed)) < 2
        or 0 in strides
    ):
        return False
    if draft.axes[rows[0]].strides[operand] != draft.width(operand):
        return True
    return size * draft.width(operand) > facts.l1_bytes and max(strides) >= facts.far_bytes


def _wants_other(
    draft: Draft,
    facts: Facts,
    operand: str,
    columns: Sequence[str],
    summed: Sequence[str],
    size: int,
) -> bool:
    """True when the reductions lie apart."""
    width = draft.width(operand)
    strides = [draft.axes[name].strides[operand] for name in summed]
    if size < facts.packed_elements or strides[-1] <= width or 0 in strides:
        return False
    if any(draft.axes[name].strides[operand] == width for name in columns):
        return strides[-1] >= facts.far_bytes and extent_of(draft, summed) >= facts.packed_elements
    return True


def _copy(draft: Draft, wish: _Wish) -> tuple[Tensor, InvocationNode]:
    """The scratch, its strides on the axes of the wish, and the leaf that fills it."""
    tensor = draft.scratch(f"{wish.operand}_packed", draft.tensors[wish.operand].data_type)
    width = tensor.data_type.width
    by_stride = sorted(
        wish.across, key=lambda name: draft.axes[name].strides[wish.operand], reverse=True
    )
    if draft.axes[by_stride[-1]].strides[wish.operand] == width or wish.is_lanes:
        order = (*wish.along, *by_stride)
        room = _stack(draft, order, tensor.name, width)
    else:
        room = _stack(draft, wish.along, tensor.name, width)
        room = _stack(draft, by_stride, tensor.name, -(-room // _LINE) * _LINE + _LINE)
    _stack(draft, wish.loops, tensor.name, room)
    leaf = draft.invoke(
        Operation.COPY,
        (wish.operand,),
        tensor.name,
        m=(*wish.loops, *wish.across),
        n=wish.along,
    )
    return tensor, leaf


def _stack(draft: Draft, axes: Sequence[str], tensor: str, stride: int) -> int:
    """Give the axes dense strides on a new tensor, the last one innermost; returns the end."""
    for name in reversed(axes):
        known = draft.axes[name]
        draft.axes[name] = replace(known, strides=Bytes({**known.strides, tensor: stride}))
        stride *= known.extent
    return stride
