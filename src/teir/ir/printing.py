"""A program as text, one line per part.

    teir 1 "trus,pqtu->pqrs"
    tensor in0: FP32
    tensor out: FP32
    axis t = 2: in0 1536
    axis q = 6: in0 128 + 64, out 96
    axis j = 5: B 8, E 64; segment pos Bp crd Bc by_position [B]
    primitive zero_sq = Zero(out; M=[s], N=[q])
    primitive gemm_squ = Contraction FP32 (in0, in1 -> out; M=[s], N=[q], K=[u]) with {"lanes": 4}
    parallel p over p
      scratch T: FP32
      zero: zero_sq if first(t) and first(u)

The text is canonical: equal programs give equal texts, and `teir.ir.parsing` reads it back to an
equal program. A program with mistakes is printed too, so that findings can point at its lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from teir.errors import Finding, Part, ProgramPlace
from teir.ir.nodes import (
    Axis,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Primitive,
    Program,
    Segment,
    Tensor,
)
from teir.ir.roles import required_roles
from teir.ir.spelling import quote, spell


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedProgram:
    """The canonical text of a program and the line of each of its parts, counted from 1."""

    text: str
    lines: Mapping[ProgramPlace, int]

    def line_of(self, place: ProgramPlace) -> int | None:
        """The line of ``place``, None where the program has no such part."""
        if place.part is Part.PROGRAM:
            return 1
        return self.lines.get(place)

    def blame(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """The findings, those about program parts with their printed line filled in."""
        rows = self.text.split("\n")
        return tuple(self._with_line(finding, rows) for finding in findings)

    def _with_line(self, finding: Finding, rows: list[str]) -> Finding:
        if not isinstance(finding.place, ProgramPlace):
            return finding
        number = self.line_of(finding.place)
        if number is None:
            return finding
        return replace(finding, line=rows[number - 1], line_number=number)


def print_program(program: Program) -> PrintedProgram:
    """The canonical text of ``program`` with the line of every part; never raises."""
    rows: list[str] = []
    lines: dict[ProgramPlace, int] = {}
    for place, row in _rows(program):
        rows.append(row)
        lines.setdefault(place, len(rows))
    return PrintedProgram(text="\n".join(rows) + "\n", lines=lines)


def _rows(program: Program) -> Iterator[tuple[ProgramPlace, str]]:
    yield _place(Part.PROGRAM, program.name), f"teir 1 {quote(program.name)}"
    for tensor in program.tensors:
        yield _place(Part.TENSOR, tensor.name), f"tensor {_typed(tensor)}"
    for tensor in program.scratch:
        yield _place(Part.SCRATCH, tensor.name), f"scratch {_typed(tensor)}"
    order = {name: position for position, name in enumerate(program.tensor_table())}
    for axis in program.axes:
        yield _place(Part.AXIS, axis.name), print_axis(axis, order)
    for primitive in program.primitives:
        yield _place(Part.PRIMITIVE, primitive.name), print_primitive(primitive)
    yield from _schedule_rows(program.roots)


def _schedule_rows(roots: tuple[Node, ...]) -> Iterator[tuple[ProgramPlace, str]]:
    stack = [("", node) for node in reversed(roots)]
    while stack:
        indent, node = stack.pop()
        yield _place(Part.NODE, node.name), indent + print_node(node)
        if isinstance(node, InvocationNode):
            continue
        inner = indent + "  "
        for tensor in node.scratch:
            yield _place(Part.SCRATCH, tensor.name), f"{inner}scratch {_typed(tensor)}"
        stack.extend((inner, child) for child in reversed(node.children))


def print_axis(axis: Axis, order: Mapping[str, int]) -> str:
    """One line; the tensors come in ``order``, those it does not hold last and by name."""
    names = sorted(
        {*axis.strides, *axis.offsets}, key=lambda name: (order.get(name, len(order)), name)
    )
    steps = ", ".join(_step(name, axis.strides[name], axis.offsets[name]) for name in names)
    segments = "".join(f"; {_segment(segment)}" for segment in axis.segments)
    colon = ": " if steps else ""
    return f"axis {spell(axis.name)} = {axis.extent}{colon}{steps}{segments}"


def print_primitive(primitive: Primitive) -> str:
    """One line: operation, declared type, operands, role lists, open metadata."""
    data_type = "" if primitive.data_type is None else f" {primitive.data_type.value} "
    arrow = " -> " if primitive.inputs else ""
    operands = f"{_names(primitive.inputs)}{arrow}{spell(primitive.output)}"
    required = required_roles(primitive.operation)
    roles = ", ".join(
        f"{role.value}=[{_names(axes)}]"
        for role, axes in primitive.role_axes()
        if axes or role in required
    )
    entries = ", ".join(f"{quote(key)}: {value}" for key, value in primitive.metadata)
    metadata = f" with {{{entries}}}" if entries else ""
    return (
        f"primitive {spell(primitive.name)} = {primitive.operation.value}{data_type}"
        f"({operands}; {roles}){metadata}"
    )


def print_node(node: Node) -> str:
    """The line of the node itself, without indentation and without what lies below it."""
    match node:
        case InvocationNode():
            head = f"{spell(node.name)}: {spell(node.primitive)}"
        case IterationNode():
            head = f"{node.policy.value} {spell(node.name)} over {spell(node.axis)}"
        case _:
            assert_never(node)
    return head + (f" if {print_guard(node.guard)}" if node.guard else "")


def print_guard(guard: tuple[GuardTerm, ...]) -> str:
    """``first(t) and last(u)``; the empty text for no guard."""
    return " and ".join(f"{term.kind.value}({spell(term.axis)})" for term in guard)


def _typed(tensor: Tensor) -> str:
    return f"{spell(tensor.name)}: {tensor.data_type.value}"


def _step(tensor: str, stride_bytes: int, offset_bytes: int) -> str:
    step = f"{spell(tensor)} {stride_bytes}"
    if offset_bytes == 0:
        return step
    return f"{step} {'-' if offset_bytes < 0 else '+'} {abs(offset_bytes)}"


def _segment(segment: Segment) -> str:
    text = f"segment pos {spell(segment.pos)} crd {spell(segment.crd)}"
    return f"{text} by_position [{_names(segment.by_position)}]" if segment.by_position else text


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(spell(name) for name in names)


def _place(part: Part, name: str) -> ProgramPlace:
    return ProgramPlace(part=part, name=name)
