"""The nodes of TEIR: a program is an immutable tree.

Specification sections 10.1 to 10.3: axes say where, the schedule says when, primitives say what.
Nodes refer to tensors, axes and primitives by name. A constructor refuses what is wrong with the
node by itself; `teir.ir.check` finds what is wrong between nodes.

    program
      tensors, axes, primitives           tables, in the order they were declared
      roots: IterationNode | InvocationNode   the schedule forest
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any, NoReturn

import msgspec

from teir.dtypes import DataType

_NAME = attrgetter("name")

LIMIT = 2**62
"""Extents, strides, offsets and address sums stay below this many bytes or elements."""


class Bytes(dict[str, int]):
    """Bytes per tensor, absent meaning zero; zeros are not kept, and nothing changes.

    A dict, since planning looks these up more often than anything else.
    """

    __slots__ = ()

    def __init__(self, items: Mapping[str, int] | None = None) -> None:
        if not items:
            return
        if 0 in items.values():
            items = {name: value for name, value in items.items() if value != 0}
        dict.__init__(self, items)

    def __missing__(self, tensor: str) -> int:
        return 0

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"Bytes({super().__repr__()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Bytes, (dict(self),))

    def _unchanged(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the bytes of a node do not change: make another node")

    __setitem__ = __delitem__ = __ior__ = _unchanged
    clear = pop = popitem = setdefault = update = _unchanged


class Policy(Enum):
    """How an iteration node walks its axis (Table 10.2.1)."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


class GuardKind(Enum):
    """The two guard terms (section 10.2.1)."""

    FIRST = "first"
    LAST = "last"


class Operation(Enum):
    """What a primitive does (Table 10.3.1, and the element-wise binaries of the backend)."""

    ZERO = "Zero"
    COPY = "Copy"
    RELU = "ReLU"
    CONTRACTION = "Contraction"
    ADD = "Add"
    SUB = "Sub"
    MUL = "Mul"
    DIV = "Div"
    MIN = "Min"
    MAX = "Max"

    __hash__ = object.__hash__


class Role(Enum):
    """The role of an axis inside a primitive (Table 10.3.2; C is a batch axis)."""

    C = "C"
    M = "M"
    N = "N"
    K = "K"


class Tensor(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tensor or a scratch tensor: a name and the type of its elements."""

    name: str
    data_type: DataType


class Segment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One compressed level a sparse axis walks: ``pos`` bounds, ``crd`` coordinates.

    ``by_position`` names the tensors that are addressed with the absolute position instead of the
    coordinate (as ``crd`` itself is).
    """

    pos: str
    crd: str
    by_position: tuple[str, ...] = ()


class Axis(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An axis (section 10.1): extent, and strides and offsets in bytes per tensor."""

    name: str
    extent: int
    strides: Bytes = msgspec.field(default_factory=Bytes)
    offsets: Bytes = msgspec.field(default_factory=Bytes)
    segments: tuple[Segment, ...] = ()

    @property
    def is_sparse(self) -> bool:
        return bool(self.segments)


class GuardTerm(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``first(axis)`` or ``last(axis)``."""

    kind: GuardKind
    axis: str

    def __str__(self) -> str:
        return f"{self.kind.value}({self.axis})"


class Primitive(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A primitive (section 10.3): operation, operands, and the axes it consumes by role.

    ``c``, ``m``, ``n``, ``k`` hold axis names, outermost first. ``data_type`` is the declared
    compute type, None where the record gave none. ``metadata`` holds every other metadata entry
    as (key, JSON text of the value), sorted by key.
    """

    name: str
    operation: Operation
    inputs: tuple[str, ...]
    output: str
    c: tuple[str, ...] = ()
    m: tuple[str, ...] = ()
    n: tuple[str, ...] = ()
    k: tuple[str, ...] = ()
    data_type: DataType | None = None
    metadata: tuple[tuple[str, str], ...] = ()

    def role_axes(self) -> tuple[tuple[Role, tuple[str, ...]], ...]:
        """The role lists in the order C, M, N, K, empty ones included."""
        return ((Role.C, self.c), (Role.M, self.m), (Role.N, self.n), (Role.K, self.k))

    @property
    def axes(self) -> tuple[str, ...]:
        """All consumed axes in the order C, M, N, K."""
        return self.c + self.m + self.n + self.k

    @property
    def operands(self) -> tuple[str, ...]:
        """The inputs, then the output."""
        return (*self.inputs, self.output)

    @property
    def reads(self) -> tuple[str, ...]:
        """Tensors whose bytes the primitive reads: a Contraction also reads its output."""
        if self.operation is Operation.CONTRACTION:
            return (*self.inputs, self.output)
        return self.inputs


class InvocationNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A leaf of the schedule: invokes a primitive (Table 10.2.2)."""

    name: str
    primitive: str
    guard: tuple[GuardTerm, ...] = ()


class IterationNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An inner node of the schedule: walks one axis (Table 10.2.1).

    ``scratch`` holds the tensors that are private to each running iteration of this node.
    """

    name: str
    axis: str
    policy: Policy
    children: tuple[Node, ...]
    guard: tuple[GuardTerm, ...] = ()
    scratch: tuple[Tensor, ...] = ()

    def __hash__(self) -> int:
        """Without the nodes below: hashing a deep schedule needs no deep stack."""
        return hash((self.name, self.axis, self.policy, self.guard, self.scratch))


Node = IterationNode | InvocationNode


class Program(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole TEIR program. ``scratch`` holds the tensors private to the whole run."""

    name: str
    tensors: tuple[Tensor, ...]
    axes: tuple[Axis, ...]
    primitives: tuple[Primitive, ...]
    roots: tuple[Node, ...]
    scratch: tuple[Tensor, ...] = ()

    def __str__(self) -> str:
        """The canonical text form."""
        from teir.ir.printing import print_program

        return print_program(self).text

    def __eq__(self, other: object) -> bool:
        """Node by node: comparing a deep schedule needs no deep stack."""
        if not isinstance(other, Program):
            return NotImplemented
        return self is other or (
            self.name == other.name
            and self.tensors == other.tensors
            and self.axes == other.axes
            and self.primitives == other.primitives
            and self.scratch == other.scratch
            and len(self.roots) == len(other.roots)
            and all(map(_same_but_children, self.nodes(), other.nodes()))
        )

    def __hash__(self) -> int:
        """Without the schedule: programs over the same tables are told apart by equality."""
        return hash((self.name, self.tensors, self.axes, self.primitives, self.scratch))

    def axis_table(self) -> dict[str, Axis]:
        """The axes by name."""
        return dict(zip(map(_NAME, self.axes), self.axes, strict=True))

    def primitive_table(self) -> dict[str, Primitive]:
        """The primitives by name."""
        return dict(zip(map(_NAME, self.primitives), self.primitives, strict=True))

    def tensor_table(self) -> dict[str, Tensor]:
        """All tensors by name, scratch included."""
        table = {tensor.name: tensor for tensor in (*self.tensors, *self.scratch)}
        for node in self.nodes():
            if isinstance(node, IterationNode):
                table.update({tensor.name: tensor for tensor in node.scratch})
        return table

    def nodes(self) -> list[Node]:
        """Every node in program order (a node before its children)."""
        found: list[Node] = []
        stack: list[Node] = [*reversed(self.roots)]
        while stack:
            node = stack.pop()
            found.append(node)
            if isinstance(node, IterationNode):
                stack += reversed(node.children)
        return found

    def invocations(self) -> Iterator[tuple[tuple[IterationNode, ...], InvocationNode]]:
        """Every leaf with its ancestors, outermost first, in program order."""
        stack: list[tuple[tuple[IterationNode, ...], Node]]
        stack = [((), node) for node in reversed(self.roots)]
        while stack:
            path, node = stack.pop()
            match node:
                case InvocationNode():
                    yield path, node
                case IterationNode():
                    inner = (*path, node)
                    stack.extend((inner, child) for child in reversed(node.children))


def _same_but_children(left: Node, right: Node) -> bool:
    match left, right:
        case IterationNode(), IterationNode():
            return (
                left.name == right.name
                and left.axis == right.axis
                and left.policy is right.policy
                and left.guard == right.guard
                and left.scratch == right.scratch
                and len(left.children) == len(right.children)
            )
        case InvocationNode(), InvocationNode():
            return left == right
        case _:
            return False
