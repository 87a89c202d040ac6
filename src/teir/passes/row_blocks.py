"""Some iterations of a root's axis together, its temporaries kept for all of them.

    i { Zero T; j { T += B C }; A += T D }   ->   ib { ii { Zero T }; ii { j { T += B C } };
                                                       A += T D for all rows at once }

A row times a matrix becomes a product of matrices, and updates of one rank by one row each become
one product. Every sum keeps its order: children of an iteration that share temporaries only may run
one after the other for several iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from teir.ir.nodes import (
    Axis,
    Bytes,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Tensor,
)
from teir.passes.leaf_blocks import with_leaf_blocks

_PAD_BYTES = 64
_TEMPORARY_BYTES = 256 << 10
_LARGE_BYTES = 8 << 20
_MOST_ROWS = 192
_FEW_ROWS = 48
_ENOUGH_ROWS = 16
_BLOCKS_PER_THREAD = 16
_FEWEST_ROWS = 4


def with_row_blocks(program: Program, threads: int) -> Program:
    """The program with the roots blocked whose temporaries dense products read, and large products.

    Blocks have up to 192 rows, as far as ``threads`` have blocks enough to share, else 48; fewer,
    but no fewer than 16, where temporaries would leave the second cache. Below that the last cache
    counts: what all rows update is read and written once a block, of up to 48 rows. The same
    object where there is nothing to do.
    """
    for place in reversed(range(len(program.roots))):
        root = program.roots[place]
        rows = _rows(program, root, threads)
        if rows is not None:
            assert isinstance(root, IterationNode)
            program = _Blocking(program, root, rows).program(place)
    return with_leaf_blocks(program)


def _rows(program: Program, root: Node, threads: int) -> int | None:
    """Rows of a block; None where blocks are not legal or not of use."""
    if not isinstance(root, IterationNode) or root.guard or not root.scratch:
        return None
    axis = program.axis_table()[root.axis]
    kept = {tensor.name for tensor in root.scratch}
    if axis.is_sparse or any(child.guard for child in root.children):
        return None
    primitives = program.primitive_table()
    written: dict[str, int] = {}
    for child in root.children:
        for name in {primitives[one].output for one in _used_primitives(child)} - kept:
            written[name] = written.get(name, 0) + 1
    if root.policy is not Policy.PARALLEL and any(count > 1 for count in written.values()):
        return None
    if not any(_is_product(child, primitives, kept) for child in root.children):
        return None
    if _asks_about(root, root.axis):
        return None
    row_bytes = sum(_bytes(program, tensor) for tensor in root.scratch)
    near = _TEMPORARY_BYTES // row_bytes
    if near < _ENOUGH_ROWS:
        rows = min(_FEW_ROWS, axis.extent, _LARGE_BYTES // row_bytes)
        return rows if rows >= _FEWEST_ROWS else None
    shared = max(_FEW_ROWS, axis.extent // (_BLOCKS_PER_THREAD * threads))
    rows = min(_MOST_ROWS, shared, axis.extent, near)
    return rows if rows >= _FEWEST_ROWS else None


def _is_product(node: Node, primitives: Mapping[str, Primitive], kept: set[str]) -> bool:
    if not isinstance(node, InvocationNode):
        return False
    primitive = primitives[node.primitive]
    if primitive.operation is not Operation.CONTRACTION or not kept & set(primitive.inputs):
        return False
    return len(primitive.inputs) == 2 and bool(primitive.axes) and not primitive.metadata


def _used_primitives(node: Node) -> set[str]:
    if isinstance(node, InvocationNode):
        return {node.primitive}
    return set().union(*(_used_primitives(child) for child in node.children))


def _asks_about(node: IterationNode, axis: str) -> bool:
    return any(
        any(term.axis == axis for term in child.guard)
        or (isinstance(child, IterationNode) and _asks_about(child, axis))
        for child in node.children
    )


def _bytes(program: Program, tensor: Tensor) -> int:
    """Bytes of one row of a temporary, with a gap that keeps rows off the same cache sets."""
    reach = max(
        (
            sum(
                axis.strides[tensor.name] * (axis.extent - 1) + axis.offsets[tensor.name]
                for axis in program.axes
                if axis.name in used
            )
            for used in _uses(program, tensor.name)
        ),
        default=0,
    )
    size = -(-(reach + tensor.data_type.width) // _PAD_BYTES) * _PAD_BYTES
    return size + (_PAD_BYTES if size > _PAD_BYTES else 0)


def _uses(program: Program, tensor: str) -> list[set[str]]:
    """The axes around and inside every primitive that touches a tensor."""
    primitives = program.primitive_table()
    return [
        {node.axis for node in path} | set(primitives[leaf.primitive].axes)
        for path, leaf in program.invocations()
        if tensor in primitives[leaf.primitive].operands
    ]


def _used_axes(program: Program, axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Axes that nodes iterate or primitives consume, with strides of tensors that are there."""
    tensors = program.tensor_table()
    used = {node.axis for node in program.nodes() if isinstance(node, IterationNode)}
    used |= {name for primitive in program.primitives for name in primitive.axes}

    def known(steps: Bytes) -> Bytes:
        return Bytes({name: step for name, step in steps.items() if name in tensors})

    return tuple(
        replace(axis, strides=known(axis.strides), offsets=known(axis.offsets))
        for axis in axes
        if axis.name in used
    )


class _Blocking:
    """The tables of the blocked program while it is made."""

    def __init__(self, program: Program, root: IterationNode, rows: int) -> None:
        self._before = program
        self._root = root
        self._rows = rows
        self._axis = program.axis_table()[root.axis]
        self._old = program.primitive_table()
        self._axes = {axis.name: axis for axis in program.axes}
        self._primitives = dict(self._old)
        self._names = {node.name for node in program.nodes()} | set(self._axes)
        self._names |= set(self._primitives) | set(program.tensor_table())

    def program(self, place: int) -> Program:
        whole, left = divmod(self._axis.extent, self._rows)
        roots = list(self._before.roots)
        roots[place : place + 1] = [self._blocks(whole, self._rows, 0)]
        if left:
            roots.insert(place + 1, self._blocks(1, left, whole * self._rows))
        used: set[str] = set().union(*(_used_primitives(node) for node in roots))
        made = replace(
            self._before,
            primitives=tuple(one for one in self._primitives.values() if one.name in used),
            roots=tuple(roots),
        )
        return replace(made, axes=_used_axes(made, self._axes.values()))

    def _blocks(self, count: int, rows: int, start: int) -> IterationNode:
        """``count`` blocks of ``rows`` rows, the first beginning at row ``start``."""
        axis, kept = self._axis, {tensor.name: tensor for tensor in self._root.scratch}
        renamed = {name: self._fresh(f"{name}.rows") for name in kept}
        for name, one in list(self._axes.items()):
            strides, offsets = dict(one.strides), dict(one.offsets)
            for tensor, new in renamed.items():
                strides[new], offsets[new] = one.strides[tensor], one.offsets[tensor]
            self._axes[name] = replace(one, strides=Bytes(strides), offsets=Bytes(offsets))
        moved = {name: stride for name, stride in axis.strides.items() if name not in kept}
        outer = Axis(
            name=self._fresh(f"{axis.name}.block"),
            extent=count,
            strides=Bytes({name: rows * stride for name, stride in moved.items()}),
            offsets=Bytes(
                {
                    name: axis.offsets[name] + start * axis.strides[name]
                    for name in (*axis.strides, *axis.offsets)
                    if name not in kept
                }
            ),
        )
        own = {renamed[name]: _bytes(self._before, tensor) for name, tensor in kept.items()}
        inner = Axis(
            name=self._fresh(f"{axis.name}.row"), extent=rows, strides=Bytes({**moved, **own})
        )
        self._axes |= {outer.name: outer, inner.name: inner}
        return replace(
            self._root,
            name=self._fresh(outer.name),
            axis=outer.name,
            children=tuple(self._child(nodes, inner, renamed) for nodes in self._grouped()),
            scratch=tuple(replace(kept[old], name=new) for old, new in renamed.items()),
        )

    def _grouped(self) -> Iterator[tuple[Node, ...]]:
        """The root's children; a Zero with the loops that add into what it clears."""
        left = list(self._root.children)
        while left:
            node = left.pop(0)
            if isinstance(node, InvocationNode) and left and self._clears(node, left[0]):
                yield node, left.pop(0)
            else:
                yield (node,)

    def _clears(self, node: InvocationNode, following: Node) -> bool:
        zero = self._old[node.primitive]
        if zero.operation is not Operation.ZERO or isinstance(following, InvocationNode):
            return False
        return zero.output in {self._old[one].output for one in _used_primitives(following)}

    def _child(self, nodes: tuple[Node, ...], inner: Axis, renamed: Mapping[str, str]) -> Node:
        """Children for all rows of a block."""
        match nodes:
            case (InvocationNode() as node,):
                primitive = _for_rows(_renamed(self._old[node.primitive], renamed), inner)
                return self._invocation(node, primitive)
            case _:
                return IterationNode(
                    name=self._fresh(inner.name),
                    axis=inner.name,
                    policy=Policy.SEQUENTIAL,
                    children=tuple(self._copy(node, renamed) for node in nodes),
                )

    def _copy(self, node: Node, renamed: Mapping[str, str]) -> Node:
        if isinstance(node, InvocationNode):
            return self._invocation(node, _renamed(self._old[node.primitive], renamed))
        deeper = {tensor.name: self._fresh(tensor.name) for tensor in node.scratch}
        for name, one in list(self._axes.items()):
            strides, offsets = dict(one.strides), dict(one.offsets)
            for tensor, new in deeper.items():
                strides[new], offsets[new] = one.strides[tensor], one.offsets[tensor]
            if deeper:
                self._axes[name] = replace(one, strides=Bytes(strides), offsets=Bytes(offsets))
        names = {**renamed, **deeper}
        return replace(
            node,
            name=self._fresh(node.name),
            children=tuple(self._copy(child, names) for child in node.children),
            scratch=tuple(replace(one, name=deeper[one.name]) for one in node.scratch),
        )

    def _invocation(self, node: InvocationNode, primitive: Primitive) -> InvocationNode:
        primitive = replace(primitive, name=self._fresh(primitive.name))
        self._primitives[primitive.name] = primitive
        return replace(node, name=self._fresh(node.name), primitive=primitive.name)

    def _fresh(self, wish: str) -> str:
        name, number = wish, 1
        while name in self._names:
            number += 1
            name = f"{wish}_{number}"
        self._names.add(name)
        return name


def _renamed(primitive: Primitive, names: Mapping[str, str]) -> Primitive:
    return replace(
        primitive,
        inputs=tuple(names.get(name, name) for name in primitive.inputs),
        output=names.get(primitive.output, primitive.output),
    )


def _for_rows(primitive: Primitive, rows: Axis) -> Primitive:
    """The primitive on all rows: the outermost axis of the role its strides give it."""
    if primitive.operation is not Operation.CONTRACTION:
        return replace(primitive, m=(rows.name, *primitive.m))
    if not rows.strides[primitive.output]:
        return replace(primitive, k=(rows.name, *primitive.k))
    moving = [rows.strides[name] != 0 for name in primitive.inputs]
    if len(moving) != 2 or moving == [True, False] or moving == [False, False]:
        return replace(primitive, m=(rows.name, *primitive.m))
    if moving == [False, True]:
        return replace(primitive, n=(rows.name, *primitive.n))
    return replace(primitive, c=(rows.name, *primitive.c))
