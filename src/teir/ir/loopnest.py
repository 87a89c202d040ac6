"""A program as nested loops, the pseudocode of the listings of section 10.7.

    #pragma omp parallel for collapse(2)
    for p in 0 .. |p|-1
      for r in 0 .. |r|-1
        Zero( out = &out[p][0][r][0],
              ldB = 24 )

Subscripts come in the order of falling strides, axes of a tile stand at 0, leading dimensions and
batch strides count elements. An offset stands behind its subscripts in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from teir.ir.nodes import (
    Axis,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
)

_SIGNS = {Operation.ADD: "+", Operation.SUB: "-", Operation.MUL: "*", Operation.DIV: "/"}


def print_loopnest(program: Program) -> str:
    """The extents, then the loops. The program must be one without findings."""
    extents = ", ".join(f"|{axis.name}| = {axis.extent}" for axis in program.axes)
    head = [f"where {extents}", ""] if extents else []
    return "\n".join([*head, *_lines(program)]) + "\n"


def _lines(program: Program) -> Iterator[str]:
    axes = program.axis_table()
    primitives = program.primitive_table()
    widths = {name: each.data_type.width for name, each in program.tensor_table().items()}
    stack: list[tuple[Node, int, tuple[str, ...], bool]]
    stack = [(root, 0, (), False) for root in reversed(program.roots)]
    while stack:
        node, level, path, collapsed = stack.pop()
        if node.guard:
            yield f"{'  ' * level}if {_condition(node.guard)}:"
            level += 1
        indent = "  " * level
        match node:
            case InvocationNode():
                nest = _Nest(axes, widths, path)
                for line in nest.invocation(primitives[node.primitive]):
                    yield indent + line
            case IterationNode():
                depth = _collapsible(node)
                if node.policy is Policy.PARALLEL and not collapsed:
                    yield f"{indent}#pragma omp parallel for" + (
                        f" collapse({depth})" if depth > 1 else ""
                    )
                yield f"{indent}for {node.axis} in {_range(axes[node.axis], axes, path)}"
                for tensor in node.scratch:
                    yield f"{indent}  scratch {tensor.name}: {tensor.data_type.value}"
                inner = (*path, node.axis)
                stack.extend(
                    (child, level + 1, inner, depth > 1) for child in reversed(node.children)
                )
            case _:
                assert_never(node)


def _collapsible(node: IterationNode) -> int:
    """How many parallel loops stand directly inside each other from ``node`` on."""
    depth = 0
    inner: Node = node
    while isinstance(inner, IterationNode) and inner.policy is Policy.PARALLEL:
        depth += 1
        if len(inner.children) != 1 or inner.scratch or inner.children[0].guard:
            break
        inner = inner.children[0]
    return depth


def _condition(guard: tuple[GuardTerm, ...]) -> str:
    return " and ".join(
        f"{term.axis} == 0" if term.kind is GuardKind.FIRST else f"{term.axis} == |{term.axis}|-1"
        for term in guard
    )


def _range(axis: Axis, axes: Mapping[str, Axis], path: tuple[str, ...]) -> str:
    if not axis.is_sparse:
        return f"0 .. |{axis.name}|-1"
    return " and ".join(
        f"{segment.crd}[{_row(segment.pos, axes, path)}]" for segment in axis.segments
    )


def _row(pos: str, axes: Mapping[str, Axis], path: tuple[str, ...]) -> str:
    """The positions of a segment: from what ``pos`` holds here to what it holds next."""
    row = "".join(f"[{name}]" for name in path if axes[name].strides[pos])
    return f"{pos}{row} .. next {pos}{row} - 1"


class _Nest:
    """What the lines of an invocation depend on: all axes, and those iterated around it."""

    def __init__(
        self, axes: Mapping[str, Axis], widths: Mapping[str, int], path: tuple[str, ...]
    ) -> None:
        self._axes = axes
        self._widths = widths
        self._path = path

    def invocation(self, primitive: Primitive) -> Iterator[str]:
        """An assignment for a single element, a call for a tile."""
        if not primitive.axes:
            yield self._assignment(primitive)
            return
        labels = _labels(primitive)
        arguments = [
            (label, "&" + self._element(tensor, primitive.axes)) for label, tensor in labels
        ]
        arguments += self._parameters(primitive)
        width = max(len(label) for label, _ in arguments)
        head = f"{primitive.operation.value}( "
        for number, (label, value) in enumerate(arguments):
            start = head if number == 0 else " " * len(head)
            end = "," if number + 1 < len(arguments) else " )"
            yield f"{start}{label.ljust(width)} = {value}{end}"

    def _assignment(self, primitive: Primitive) -> str:
        out = self._element(primitive.output, ())
        values = [self._element(tensor, ()) for tensor in primitive.inputs]
        match primitive.operation:
            case Operation.ZERO:
                return f"{out} = 0"
            case Operation.COPY:
                return f"{out} = {values[0]}"
            case Operation.RELU:
                return f"{out} = max({values[0]}, 0)"
            case Operation.CONTRACTION:
                return f"{out} += {' * '.join(values)}"
            case Operation.MIN | Operation.MAX:
                return f"{out} = {primitive.operation.value.lower()}({', '.join(values)})"
            case Operation.ADD | Operation.SUB | Operation.MUL | Operation.DIV:
                return f"{out} = {f' {_SIGNS[primitive.operation]} '.join(values)}"
            case _:
                assert_never(primitive.operation)

    def _element(self, tensor: str, tile: tuple[str, ...]) -> str:
        used = [name for name in (*self._path, *tile) if self._axes[name].strides[tensor]]
        used.sort(key=lambda name: -self._axes[name].strides[tensor])
        subscripts = "".join(
            "[0]" if name in tile else f"[{self._index(name, tensor)}]" for name in used
        )
        offset = sum(self._axes[name].offsets[tensor] for name in (*self._path, *tile))
        if offset == 0:
            return tensor + (subscripts or "[0]")
        sign = "-" if offset < 0 else "+"
        return f"({tensor}{subscripts or '[0]'} {sign} {abs(offset)} bytes)"

    def _index(self, name: str, tensor: str) -> str:
        """The coordinate, or the position for tensors that are addressed by position."""
        for segment in self._axes[name].segments:
            if tensor == segment.crd or tensor in segment.by_position:
                return f"position of {name} in {segment.crd}"
        return name

    def _parameters(self, primitive: Primitive) -> list[tuple[str, str]]:
        """Leading dimensions, then the batch (Table 10.6.2), where the tile has them."""
        batch = primitive.k[:1] if len(primitive.k) == 2 else ()
        tile = [name for name in primitive.axes if name not in batch]
        letters = "B" if not primitive.inputs else "ABCDEFGHIJ"
        operands = primitive.operands
        parameters = []
        for letter, tensor in zip(letters, operands, strict=False):
            leading = self._leading(tensor, tile)
            if leading is not None:
                parameters.append((f"ld{letter}", str(leading)))
        for name in batch:
            parameters.append(("brSize", f"|{name}|"))
            for letter, tensor in zip("AB", primitive.inputs, strict=False):
                stride = self._axes[name].strides[tensor] // self._widths[tensor]
                parameters.append((f"brStr{letter}", str(stride)))
        return parameters

    def _leading(self, tensor: str, tile: Sequence[str]) -> int | None:
        """The leading dimension in elements, where one of two tile axes has unit stride."""
        width = self._widths[tensor]
        strides = sorted(filter(None, (self._axes[name].strides[tensor] for name in tile)))
        if len(strides) != 2 or strides[0] != width:
            return None
        return strides[1] // width


def _labels(primitive: Primitive) -> list[tuple[str, str]]:
    """in0, in1, … and out with the tensors they stand for."""
    inputs = [(f"in{number}", tensor) for number, tensor in enumerate(primitive.inputs)]
    return [*inputs, ("out", primitive.output)]
