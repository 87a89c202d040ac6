"""Rows of a temporary that are cleared through the result's own positions.

    i { T[k]; Zero T; j', k' { T += B C }; k' { A += T } }

                        ->   ib { T[k]; Zero T; i { j', k' { T += B C }; k' { A = T; T = 0 } } }

A row of the temporary is as long as a dense one, a row of the result may store a handful: setting
all of it to zero for every row costs more than the products. A block of rows shares the temporary,
and what a row added into is set to zero where its result is taken. Blocks may run in parallel.

The program computes the same where every position that a product reaches is stored in the result:
that is what the symbolic phase makes sure of, and why this is no pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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

BLOCKS = 64
"""Blocks of rows: temporaries are set to zero as a whole so often."""


def with_cleared_rows(program: Program) -> Program:
    """The program of `workspace_graph` in blocks of rows; itself where its rows share no loop.

    Temporaries of their own inside a row are left as they are too.
    """
    main = program.roots[-1]
    owner = _owner(main)
    if owner is None or not isinstance(main, IterationNode) or len(owner.scratch) != 1:
        return program
    scratch = [node for node in program.nodes() if isinstance(node, IterationNode) and node.scratch]
    if len(scratch) != 1:
        return program
    axis = program.axis_table()[main.axis]
    if axis.is_sparse or main.policy is Policy.PARALLEL:
        return program
    return _Clearing(program, main, owner.scratch[0]).program(axis)


def _owner(node: Node) -> IterationNode | None:
    """The node with a temporary, below nodes with one child."""
    while isinstance(node, IterationNode):
        if node.scratch:
            return node
        if len(node.children) != 1:
            return None
        node = node.children[0]
    return None


class _Clearing:
    """The tables of the program that is being made."""

    def __init__(self, program: Program, main: IterationNode, temporary: Tensor) -> None:
        self._before = program
        self._main = main
        self._temporary = temporary
        self._axes = program.axis_table()
        self._primitives = program.primitive_table()
        self._names: set[str] = {
            *(node.name for node in program.nodes()),
            *(primitive.name for primitive in program.primitives),
            *(tensor.name for tensor in program.tensors),
            *self._axes,
        }

    def program(self, axis: Axis) -> Program:
        rows = -(-axis.extent // BLOCKS)
        whole, left = divmod(axis.extent, rows)
        kept = () if self._visits_all() else self._before.roots[:-1]
        roots = [self._block(axis, whole, rows, 0)]
        if left:
            roots.append(self._block(axis, 1, left, whole * rows))
        made = replace(
            self._before,
            axes=tuple(self._axes.values()),
            primitives=tuple(self._primitives.values()),
            roots=(*kept, *roots),
        )
        return _without_unused(made)

    def _visits_all(self) -> bool:
        """True where the loops around the temporary are dense: all positions are visited."""
        node: Node = self._main
        while isinstance(node, IterationNode) and not node.scratch:
            if self._axes[node.axis].is_sparse:
                return False
            node = node.children[0]
        return isinstance(node, IterationNode) and not self._axes[node.axis].is_sparse

    def _block(self, axis: Axis, count: int, rows: int, first: int) -> IterationNode:
        """``count`` blocks of ``rows`` rows from row ``first`` on, each with a temporary."""
        old = self._temporary.name
        new = self._fresh(old)
        for name, one in list(self._axes.items()):
            strides, offsets = dict(one.strides), dict(one.offsets)
            strides[new], offsets[new] = one.strides[old], one.offsets[old]
            self._axes[name] = replace(one, strides=Bytes(strides), offsets=Bytes(offsets))
        outer = Axis(
            name=self._fresh(f"{axis.name}.block"),
            extent=count,
            strides=Bytes({name: rows * stride for name, stride in axis.strides.items()}),
            offsets=Bytes(
                {
                    name: axis.offsets[name] + first * axis.strides[name]
                    for name in (*axis.strides, *axis.offsets)
                }
            ),
        )
        inner = replace(axis, name=self._fresh(f"{axis.name}.row"), extent=rows, offsets=Bytes())
        self._axes |= {outer.name: outer, inner.name: inner}
        body = replace(self._main, axis=inner.name)
        return IterationNode(
            name=self._fresh(outer.name),
            axis=outer.name,
            policy=Policy.PARALLEL,
            children=(self._zero_whole(new), self._copy(body, {old: new})),
            scratch=(replace(self._temporary, name=new),),
        )

    def _zero_whole(self, temporary: str) -> InvocationNode:
        """The Zero that stood at the head of every row."""
        owner = _owner(self._main)
        assert owner is not None
        zero = owner.children[0]
        assert isinstance(zero, InvocationNode)
        return self._invocation(zero, {self._temporary.name: temporary})

    def _copy(self, node: Node, names: Mapping[str, str]) -> Node:
        if isinstance(node, InvocationNode):
            return self._invocation(node, names)
        children: Sequence[Node] = node.children
        if node.scratch:
            _, *producers, consumer = children
            made = [self._copy(child, names) for child in producers]
            return replace(
                node,
                name=self._fresh(node.name),
                children=(*made, self._clearing(consumer, names)),
                scratch=(),
            )
        copies = tuple(self._copy(child, names) for child in children)
        return replace(node, name=self._fresh(node.name), children=copies)

    def _clearing(self, node: Node, names: Mapping[str, str]) -> Node:
        """The consumer: it sets what it adds into to zero first, and the temporary afterwards."""
        if isinstance(node, IterationNode):
            (child,) = node.children
            if isinstance(child, IterationNode):
                children: tuple[Node, ...] = (self._clearing(child, names),)
            else:
                children = self._taken(child, names)
            return replace(node, name=self._fresh(node.name), children=children)
        raise AssertionError("a sparse result has a loop")

    def _taken(self, leaf: InvocationNode, names: Mapping[str, str]) -> tuple[Node, ...]:
        added = self._primitives[leaf.primitive]
        zeros = [self._zero(added, added.output)] if self._visits_all() else []
        after = self._zero(added, names[self._temporary.name])
        return (*zeros, self._invocation(leaf, names), after)

    def _zero(self, like: Primitive, tensor: str) -> InvocationNode:
        """Zero over the axes of a primitive."""
        primitive = Primitive(
            name=self._fresh(f"zero_{tensor}"),
            operation=Operation.ZERO,
            inputs=(),
            output=tensor,
            m=(*like.c, *like.m, *like.n),
        )
        self._primitives[primitive.name] = primitive
        return InvocationNode(name=self._fresh(f"clear_{tensor}"), primitive=primitive.name)

    def _invocation(self, node: InvocationNode, names: Mapping[str, str]) -> InvocationNode:
        primitive = self._primitives[node.primitive]
        primitive = replace(
            primitive,
            name=self._fresh(primitive.name),
            inputs=tuple(names.get(name, name) for name in primitive.inputs),
            output=names.get(primitive.output, primitive.output),
        )
        self._primitives[primitive.name] = primitive
        return replace(node, name=self._fresh(node.name), primitive=primitive.name)

    def _fresh(self, wish: str) -> str:
        name, number = wish, 1
        while name in self._names:
            number += 1
            name = f"{wish}_{number}"
        self._names.add(name)
        return name


def _without_unused(program: Program) -> Program:
    """Only the axes and primitives the schedule names, no stride of a tensor that is gone."""
    nodes = tuple(program.nodes())
    named = {node.primitive for node in nodes if isinstance(node, InvocationNode)}
    primitives = tuple(one for one in program.primitives if one.name in named)
    used = {node.axis for node in nodes if isinstance(node, IterationNode)}
    used |= {axis for one in primitives for axis in one.axes}
    scratch = (one for node in nodes if isinstance(node, IterationNode) for one in node.scratch)
    tensors = {one.name for one in (*program.tensors, *program.scratch, *scratch)}
    axes = tuple(
        replace(
            axis,
            strides=_of(axis.strides, tensors),
            offsets=_of(axis.offsets, tensors),
        )
        for axis in program.axes
        if axis.name in used
    )
    return replace(program, axes=axes, primitives=primitives)


def _of(numbers: Bytes, tensors: set[str]) -> Bytes:
    return Bytes({name: numbers[name] for name in numbers if name in tensors})
