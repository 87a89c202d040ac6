"""A program under construction: the tables fill while bodies of nodes are put together.

A `Body` is a sequence of sibling nodes and the scratch tensors they need on the node around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.lanes import LANES
from teir.ir.memory_hints import NO_HINTS, MemoryHints
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Tensor,
)
from teir.ir.subnormals import with_subnormals_zero
from teir.search.step import Span

_WORD_LETTERS = 8
_NO_BYTES = Bytes()
_STEMS = {operation: operation.value.lower() for operation in Operation}


class Body(msgspec.Struct, frozen=True, gc=False):
    nodes: tuple[Node, ...] = ()
    scratch: tuple[Tensor, ...] = ()

    def __add__(self, other: Body) -> Body:
        if not self.nodes and not self.scratch:
            return other
        return Body(self.nodes + other.nodes, self.scratch + other.scratch)


class Emission(msgspec.Struct):
    """The axes and primitives emitted so far, and the names already taken.

    ``known`` holds the axis names of spans met before, by identity; the spans keep it.
    """

    axes: dict[tuple[object, ...], Axis] = msgspec.field(default_factory=dict)
    primitives: dict[tuple[object, ...], Primitive] = msgspec.field(default_factory=dict)
    taken: dict[str, int] = msgspec.field(default_factory=dict)
    known: dict[int, tuple[Span, str]] = msgspec.field(default_factory=dict)

    def name(self, stem: str) -> str:
        """A name nobody has: the stem, or the stem and a number."""
        count = self.taken.get(stem, 0)
        if not count:
            self.taken[stem] = 1
            return stem
        name = f"{stem}_{count}"
        while name in self.taken:
            count += 1
            name = f"{stem}_{count}"
        self.taken[stem] = count + 1
        self.taken.setdefault(name, 1)
        return name

    def program(self, name: str, tensors: Sequence[Tensor], body: Body) -> Program:
        """The program whose roots are ``body``, on the operands ``tensors``."""
        return Program(
            name=name,
            tensors=tuple(tensors),
            axes=tuple(self.axes.values()),
            primitives=tuple(self.primitives.values()),
            roots=body.nodes,
            scratch=body.scratch,
        )

    def release(self, tensors: Sequence[Tensor]) -> None:
        """Take back the names of tensors that nothing was emitted with."""
        for tensor in tensors:
            self.taken.pop(tensor.name, None)

    def axis(self, span: Span) -> str:
        """The name of the axis with this walk; equal walks share one axis."""
        met = self.known.get(id(span))
        if met is not None:
            return met[1]
        key = (
            span.label,
            span.extent,
            tuple(span.strides.items()),
            tuple(span.offsets.items()) if span.offsets else (),
        )
        axis = self.axes.get(key)
        if axis is None:
            axis = Axis(
                name=self.name(_plain(span.label)),
                extent=span.extent,
                strides=Bytes(span.strides),
                offsets=Bytes(span.offsets) if span.offsets else _NO_BYTES,
            )
            self.axes[key] = axis
        self.known[id(span)] = (span, axis.name)
        return axis.name

    def loop(self, span: Span, body: Callable[[str], Body], parallel: bool = False) -> Body:
        """One iteration node around ``body``, which is given the axis name."""
        axis = self.axis(span)
        return self._around(axis, body(axis), parallel)

    def loops(self, spans: Sequence[Span], body: Callable[[], Body], parallel: bool) -> Body:
        """A chain of iteration nodes, the first span outermost."""
        if not spans:
            return body()
        axes = list(map(self.axis, spans))
        inside = body()
        for axis in reversed(axes):
            inside = self._around(axis, inside, parallel)
        return inside

    def _around(self, axis: str, inside: Body, parallel: bool) -> Body:
        node = IterationNode(
            name=self.name(f"loop_{axis}"),
            axis=axis,
            policy=Policy.PARALLEL if parallel else Policy.SEQUENTIAL,
            children=inside.nodes,
            scratch=inside.scratch,
        )
        return Body((node,))

    def blocks(
        self, span: Span, block: int, body: Callable[[Span], Body], parallel: bool = False
    ) -> Body:
        """``body`` for every whole block of ``span``, then for what remains."""
        whole, left = divmod(span.extent, block)
        if whole == 0 or (whole == 1 and left == 0):
            return body(span)
        outer, inner = span.split(block)
        axis = self.axis(outer)
        nodes = self._around(axis, body(inner), parallel)
        return nodes if left == 0 else nodes + body(span.rest(whole * block))

    def leaf(
        self,
        operation: Operation,
        inputs: Sequence[str],
        output: str,
        roles: Roles,
        data_type: DataType | None = None,
        first: Sequence[str] = (),
        lanes: int | None = None,
        flushes: bool = False,
        hints: MemoryHints = NO_HINTS,
    ) -> Body:
        """One invocation, guarded by ``first`` of the named axes; its sums in ``lanes`` chains.

        With ``flushes`` subnormal numbers count as zero.
        """
        inputs = tuple(inputs)
        axis = self.axis
        c = tuple(map(axis, roles.c)) if roles.c else ()
        m = tuple(map(axis, roles.m)) if roles.m else ()
        n = tuple(map(axis, roles.n)) if roles.n else ()
        k = tuple(map(axis, roles.k)) if roles.k else ()
        key = (operation, inputs, output, c, m, n, k, flushes, lanes, hints)
        primitive = self.primitives.get(key)
        if primitive is None:
            primitive = Primitive(
                name=self.name(_STEMS[operation]),
                operation=operation,
                inputs=inputs,
                output=output,
                c=c,
                m=m,
                n=n,
                k=k,
                data_type=data_type,
                metadata=hints.metadata() if lanes is None else ((LANES, str(lanes)),),
            )
            if flushes:
                metadata = with_subnormals_zero(primitive.metadata)
                primitive = replace(primitive, metadata=metadata)
            self.primitives[key] = primitive
        node = InvocationNode(
            name=self.name(f"do_{primitive.name}"),
            primitive=primitive.name,
            guard=tuple([GuardTerm(kind=GuardKind.FIRST, axis=name) for name in first])
            if first
            else (),
        )
        return Body((node,))


class Roles(msgspec.Struct, frozen=True, gc=False):
    """The axes of a primitive by role."""

    c: tuple[Span, ...] = ()
    m: tuple[Span, ...] = ()
    n: tuple[Span, ...] = ()
    k: tuple[Span, ...] = ()

    @property
    def lists(self) -> tuple[tuple[Span, ...], ...]:
        return (self.c, self.m, self.n, self.k)


def _plain(label: str) -> str:
    """A short name of ASCII letters and digits."""
    if label.isascii() and label.isalpha():
        return label[:_WORD_LETTERS]
    kept = "".join(letter for letter in label if letter.isascii() and letter.isalnum())
    return f"{kept[:_WORD_LETTERS]}" if kept and kept[0].isalpha() else f"x{kept[:_WORD_LETTERS]}"
