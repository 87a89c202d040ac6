"""Copy operands of Contractions into scratch, in the order their kernels read them.

    sequential m over m                    sequential m over m
      sequential n over n                    scratch in0_packed: FP32
        gemm: gemm_tile                      do_copy: copy_panels
                                     ->      sequential n over n
                                               gemm: gemm_tile             (reads in0_packed)

The operand that carries the lanes is packed where its lanes lie apart, or its reductions take long
steps (multiples of 4096 bytes meet in one cache set) and are read often: [loops][k][row], rows
adjacent. The other operand is packed where its reductions lie apart and many rows read them:
[loops][column][k], columns padded by a line, or [loops][k][column] where its columns are adjacent
already. Where the third cache is far, short rows of a large operand are packed too, and the few
columns of `teir.passes.near_rows`: [loops][k][column]. What that means in numbers is in
`teir.passes.cache_blocks`. The copy stands before the outermost loop that reads
the same elements again and for which they fit: twice the second cache for lanes, of which a panel
at a time is near, half of the third for the others. Branches that walk the operand alike share one
copy. No sum changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import (
    Bytes,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Program,
    Tensor,
)
from teir.passes.cache_blocks import (
    Walked,
    packs_columns,
    packs_few_columns,
    packs_lanes,
    rows_fill_second_cache,
)
from teir.passes.draft import Draft, Siblings
from teir.passes.facts import Facts
from teir.passes.groups import extent_of, kinds, walked
from teir.passes.still_offsets import has_still_offsets
from teir.target import LINE_BYTES

_PLAIN = frozenset((DataType.FP32, DataType.FP64))


def pack_operands(program: Program, facts: Facts) -> Program:
    """The program with operands of Contractions packed where that saves more than it costs."""
    if has_still_offsets(program):
        return program
    draft = Draft(program)
    roots, scratch = _packed(draft, facts, program.roots)
    return draft.finish(roots, (*program.scratch, *scratch))


@dataclass(frozen=True, slots=True)
class _Wish:
    """A Contraction leaf below a list of siblings that wants an operand packed before them.

    ``loops`` are the loops below that move the operand, ``across`` the consumed axes that move it
    and the output, ``along`` the reductions; all outermost first. ``is_turned``: what lies side by
    side in the copy is ``across``, however it lay before.
    """

    leaf: str
    operand: str
    is_turned: bool
    loops: tuple[str, ...]
    across: tuple[str, ...]
    along: tuple[str, ...]

    @property
    def walk(self) -> tuple[object, ...]:
        return (self.operand, self.loops, self.across, self.along)


def _packed(
    draft: Draft, facts: Facts, nodes: Siblings, around: tuple[str, ...] = ()
) -> tuple[Siblings, tuple[Tensor, ...]]:
    """The siblings with the copies that belong before them, and the scratch they fill.

    ``around`` are the loops around them.
    """
    changed: list[Node] = []
    copies: dict[int, list[Node]] = {}
    scratch: dict[tuple[object, ...], Tensor] = {}
    moved: dict[str, dict[str, str]] = {}
    written = draft.written(nodes)
    for at, node in enumerate(nodes):
        if not isinstance(node, IterationNode):
            continue
        for wish in _wishes(draft, facts, node, around):
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
            children, owned = _packed(draft, facts, node.children, (*around, node.axis))
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


def _wishes(
    draft: Draft, facts: Facts, node: IterationNode, around: tuple[str, ...]
) -> list[_Wish]:
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
            found += _wishes_of_leaf(draft, facts, child, loops, around)
    return found


def _wishes_of_leaf(
    draft: Draft,
    facts: Facts,
    leaf: InvocationNode,
    loops: tuple[str, ...],
    around: tuple[str, ...],
) -> list[_Wish]:
    product = _product_of(draft, facts, leaf)
    if product is None:
        return []
    wishes = (_wish(draft, facts, product, is_lanes, loops, around) for is_lanes in (True, False))
    return [wish for wish in wishes if wish is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """A leaf that multiplies two matrices; ``lanes`` is the operand whose rows fill vectors.

    ``asks``: it asks for its results ahead.
    """

    leaf: str
    lanes: str
    other: str
    output: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    summed: tuple[str, ...]
    asks: bool


def _product_of(draft: Draft, facts: Facts, leaf: InvocationNode) -> _Product | None:
    """The product of a leaf; None where it is no such leaf or nothing of it may be packed."""
    primitive = draft.primitives[leaf.primitive]
    if primitive.operation is not Operation.CONTRACTION or leaf.guard:
        return None
    if len(set(primitive.operands)) != 3 or len(primitive.inputs) != 2:
        return None
    kinds_of_numbers = {draft.tensors[name].data_type for name in primitive.operands}
    if facts.only_short_rows and not kinds_of_numbers <= _PLAIN:
        return None
    rows, columns = kinds(draft, primitive)
    summed = tuple(name for name in primitive.axes if not _moves(draft, name, primitive.output))
    if not rows or not summed or len(rows) + len(columns) + len(summed) != len(primitive.axes):
        return None
    first, second = primitive.inputs
    lanes, other = (first, second) if _moves(draft, rows[0], first) else (second, first)
    return _Product(
        leaf=leaf.name,
        lanes=lanes,
        other=other,
        output=primitive.output,
        rows=rows,
        columns=columns,
        summed=summed,
        asks=primitive.output in memory_hints(primitive).prefetched,
    )


def _wish(
    draft: Draft,
    facts: Facts,
    product: _Product,
    is_lanes: bool,
    loops: tuple[str, ...],
    around: tuple[str, ...],
) -> _Wish | None:
    """What the product wishes of one operand; None where the operand stays where it is."""
    operand, side, opposite, limit = (
        (product.lanes, product.rows, product.columns, 2 * facts.l2_bytes)
        if is_lanes
        else (product.other, product.columns, product.rows, facts.l3_bytes // 2)
    )
    if _moves(draft, loops[0], operand) or operand not in draft.program.tensor_table():
        return None
    inside = tuple(name for name in loops if _moves(draft, name, operand))
    across = tuple(name for name in side if _moves(draft, name, operand))
    elements = (*inside, *across, *product.summed)
    if not across or len(set(elements)) != len(elements):
        return None
    readers = extent_of(draft, [name for name in loops if name not in inside])
    readers *= extent_of(draft, opposite)
    size_bytes = extent_of(draft, elements) * draft.width(operand)
    if size_bytes > limit or readers < facts.packing.readers:
        return None
    if not all(_moves(draft, name, operand) for name in product.summed):
        return None
    walk = walked(draft, operand, (*inside, *across), product.summed, readers)
    sums = [name for name in inside if not _moves(draft, name, product.output)]
    rows_walk = walked(draft, operand, across, (*sums, *product.summed), readers)
    outside = [name for name in around if _moves(draft, name, operand)]
    whole_bytes = size_bytes * extent_of(draft, outside)
    if is_lanes:
        fills = _fills_cache(facts, rows_walk, whole_bytes)
    else:
        few = walked(draft, operand, across, product.summed, readers)
        fills = product.asks and packs_few_columns(
            few, facts.l2_bytes, facts.l3_bytes, facts.packing
        )
    if fills or (not facts.only_short_rows and _wants(facts, walk, is_lanes)):
        return _Wish(product.leaf, operand, is_lanes or fills, inside, across, product.summed)
    return None


def _moves(draft: Draft, axis: str, tensor: str) -> bool:
    return draft.axes[axis].strides[tensor] != 0


def _wants(facts: Facts, walk: Walked, is_lanes: bool) -> bool:
    if is_lanes:
        return packs_lanes(walk, facts.l1_bytes, facts.packing)
    return packs_columns(walk, facts.l1_bytes, facts.packing)


def _fills_cache(facts: Facts, rows: Walked, whole_bytes: int) -> bool:
    """``rows`` as all their sums walk them, of loops too; ``whole_bytes`` of the operand in all."""
    return rows_fill_second_cache(rows, whole_bytes, facts.l2_bytes, facts.l3_bytes, facts.packing)


def _copy(draft: Draft, wish: _Wish) -> tuple[Tensor, InvocationNode]:
    """The scratch, its strides on the axes of the wish, and the leaf that fills it."""
    tensor = draft.scratch(f"{wish.operand}_packed", draft.tensors[wish.operand].data_type)
    width = tensor.data_type.width
    by_stride = sorted(
        wish.across, key=lambda name: draft.axes[name].strides[wish.operand], reverse=True
    )
    if draft.axes[by_stride[-1]].strides[wish.operand] == width or wish.is_turned:
        order = (*wish.along, *by_stride)
        room = _stack(draft, order, tensor.name, width)
    else:
        room = _stack(draft, wish.along, tensor.name, width)
        padded = (-(-room // LINE_BYTES) + 1) * LINE_BYTES
        room = _stack(draft, by_stride, tensor.name, padded)
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
