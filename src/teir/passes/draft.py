"""A program under change: tables that grow, names nobody has, and the tidy program at the end.

Passes rewrite lists of siblings. What nothing refers to any more is dropped by `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Primitive,
    Program,
    Tensor,
)

Siblings = tuple[Node, ...]
Path = tuple[IterationNode, ...]
"""The ancestors of a list of siblings, outermost first."""


@dataclass(slots=True)
class Draft:
    """The tables of a program while a pass adds to them."""

    program: Program
    axes: dict[str, Axis] = field(init=False)
    primitives: dict[str, Primitive] = field(init=False)
    tensors: dict[str, Tensor] = field(init=False)
    _taken: set[str] = field(init=False)
    _grown: dict[tuple[str, str, int, Bytes, Bytes], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.axes = self.program.axis_table()
        self.primitives = self.program.primitive_table()
        self.tensors = self.program.tensor_table()
        self._taken = {*self.axes, *self.primitives, *self.tensors}
        self._taken.update(node.name for node in self.program.nodes())

    def name(self, stem: str) -> str:
        """The stem, or the stem and the first number that makes it new."""
        name, count = stem, 0
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name

    def width(self, tensor: str) -> int:
        """Bytes of one element."""
        return self.tensors[tensor].data_type.width

    def scratch(self, stem: str, data_type: DataType) -> Tensor:
        """A new tensor for a node or the program to own."""
        tensor = Tensor(name=self.name(stem), data_type=data_type)
        self.tensors[tensor.name] = tensor
        return tensor

    def axis(
        self,
        parent: str,
        part: str,
        extent: int,
        strides: Mapping[str, int],
        offsets: Mapping[str, int],
    ) -> str:
        """The name of the axis with this walk that is ``part`` of axis ``parent``.

        Equal parts of one axis are one axis. Equal walks of two axes are not: both may stand on
        one path.
        """
        key = (parent, part, extent, Bytes(strides), Bytes(offsets))
        if key not in self._grown:
            name = self.name(parent)
            self._grown[key] = name
            self.axes[name] = Axis(name=name, extent=extent, strides=key[3], offsets=key[4])
        return self._grown[key]

    def primitive(
        self,
        like: Primitive,
        *,
        inputs: tuple[str, ...] | None = None,
        output: str | None = None,
        c: tuple[str, ...] | None = None,
        m: tuple[str, ...] | None = None,
        n: tuple[str, ...] | None = None,
        k: tuple[str, ...] | None = None,
    ) -> str:
        """The name of a primitive as ``like`` with other operands or axes."""
        wanted = replace(
            like,
            name="",
            inputs=like.inputs if inputs is None else inputs,
            output=like.output if output is None else output,
            c=like.c if c is None else c,
            m=like.m if m is None else m,
            n=like.n if n is None else n,
            k=like.k if k is None else k,
        )
        for name, primitive in self.primitives.items():
            if replace(primitive, name="") == wanted:
                return name
        name = self.name(like.name)
        self.primitives[name] = replace(wanted, name=name)
        return name

    def invoke(
        self,
        operation: Operation,
        inputs: tuple[str, ...],
        output: str,
        m: Sequence[str],
        n: Sequence[str] = (),
        k: Sequence[str] = (),
    ) -> InvocationNode:
        """A new unguarded leaf."""
        like = Primitive(name=operation.value.lower(), operation=operation, inputs=(), output="")
        primitive = self.primitive(
            like, inputs=inputs, output=output, m=tuple(m), n=tuple(n), k=tuple(k)
        )
        return InvocationNode(name=self.name(f"do_{primitive}"), primitive=primitive)

    def finish(self, roots: Siblings, scratch: tuple[Tensor, ...] | None = None) -> Program:
        """The program with these roots; the same object when nothing changed."""
        program = self.program
        scratch = program.scratch if scratch is None else scratch
        if roots == program.roots and scratch == program.scratch:
            return program
        nodes = tuple(replace(program, roots=roots).nodes())
        invoked = {node.primitive for node in nodes if isinstance(node, InvocationNode)}
        used = {node.axis for node in nodes if isinstance(node, IterationNode)}
        used.update(axis for name in invoked for axis in self.primitives[name].axes)
        known = replace(program, roots=roots, scratch=scratch).tensor_table().keys()
        return replace(
            program,
            axes=tuple(
                _without_others(self.axes[name], known) for name in self.axes if name in used
            ),
            primitives=tuple(item for name, item in self.primitives.items() if name in invoked),
            roots=roots,
            scratch=scratch,
        )

    def walks_fibres(self, node: Node) -> bool:
        """True where a loop of this subtree visits stored coordinates."""
        return any(
            isinstance(one, IterationNode) and self.axes[one.axis].is_sparse
            for one in below((node,))
        )

    def copied(self, node: Node) -> Node:
        """The same subtree with node names of its own; it must own no scratch."""
        match node:
            case InvocationNode():
                return replace(node, name=self.name(node.name))
            case IterationNode():
                assert not node.scratch
                children = tuple(self.copied(child) for child in node.children)
                return replace(node, name=self.name(node.name), children=children)

    def touched(self, nodes: Sequence[Node]) -> frozenset[str]:
        """The tensors that the primitives in these subtrees touch."""
        return frozenset(
            tensor
            for node in below(nodes)
            if isinstance(node, InvocationNode)
            for tensor in self.primitives[node.primitive].operands
        )

    def written(self, nodes: Sequence[Node]) -> frozenset[str]:
        """The tensors that the primitives in these subtrees write."""
        return frozenset(
            self.primitives[node.primitive].output
            for node in below(nodes)
            if isinstance(node, InvocationNode)
        )


def _without_others(axis: Axis, known: Set[str]) -> Axis:
    """The axis without what it says of tensors that went with the loop that owned them."""
    named = {*axis.strides, *axis.offsets}
    named.update(name for segment in axis.segments for name in segment.by_position)
    if named <= known:
        return axis
    return replace(
        axis,
        strides=Bytes({name: step for name, step in axis.strides.items() if name in known}),
        offsets=Bytes({name: start for name, start in axis.offsets.items() if name in known}),
        segments=tuple(
            replace(one, by_position=tuple(name for name in one.by_position if name in known))
            for one in axis.segments
        ),
    )


def below(nodes: Sequence[Node]) -> Iterator[Node]:
    """Every node of these subtrees in program order."""
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, IterationNode):
            stack.extend(reversed(node.children))


def owns_scratch(nodes: Sequence[Node]) -> bool:
    """True where a node of these subtrees owns a scratch tensor."""
    return any(isinstance(node, IterationNode) and node.scratch for node in below(nodes))


Change = Callable[[Siblings, Path], Siblings]


def change_siblings(nodes: Siblings, change: Change, path: Path = ()) -> Siblings:
    """Every list of siblings replaced by what ``change`` makes of it, the innermost first.

    ``change`` gets the list and its ancestors as they were before the change.
    """
    changed: list[Node] = []
    for node in nodes:
        if isinstance(node, IterationNode):
            children = change_siblings(node.children, change, (*path, node))
            if not same(children, node.children):
                node = replace(node, children=children)
            if not children:
                continue
        changed.append(node)
    return change(nodes if same(changed, nodes) else tuple(changed), path)


def same(left: Sequence[Node], right: Sequence[Node]) -> bool:
    """True for the same nodes, node by node."""
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


Terms = tuple[GuardTerm, ...]


def change_guards(nodes: Siblings, change: Callable[[Terms], Terms | None]) -> Siblings:
    """Every guard replaced; a node whose guard becomes None is dropped, and empty loops with it."""
    changed: list[Node] = []
    for node in nodes:
        guard = change(node.guard)
        if guard is None:
            continue
        if guard != node.guard:
            node = replace(node, guard=guard)
        if isinstance(node, IterationNode):
            children = change_guards(node.children, change)
            if not children:
                continue
            if not same(children, node.children):
                node = replace(node, children=children)
        changed.append(node)
    return nodes if same(changed, nodes) else tuple(changed)


def joined(*guards: Terms) -> Terms:
    """Both guards together, each term once."""
    return tuple(dict.fromkeys(term for guard in guards for term in guard))
