"""A program as the specification shows one: the schedule tree and the tables of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from teir.ir.nodes import InvocationNode, IterationNode, Node, Policy, Primitive, Program
from teir.ir.printing import print_guard
from teir.ir.roles import required_roles

Row = tuple[str, ...]


def print_tables(program: Program) -> str:
    """Schedule tree, tensors, axes, iteration nodes, invocation nodes, primitives."""
    order = tuple(program.tensor_table())
    nodes = tuple(program.nodes())
    iterations = [node for node in nodes if isinstance(node, IterationNode)]
    invocations = [node for node in nodes if isinstance(node, InvocationNode)]
    strides = f"Strides ({', '.join(order)})"
    axes = [
        (
            axis.name,
            str(axis.extent),
            _vector(axis.strides[name] for name in order),
            _vector(axis.offsets[name] for name in order),
        )
        for axis in program.axes
    ]
    sections = [
        _titled("Schedule tree", print_tree(program)),
        _table("Tensors", ("Tensor", "Type", "Scratch of"), _tensor_rows(program)),
        _table("TEIR-Axes, in bytes", ("Axis", "Extent", strides, "Offsets"), axes),
    ]
    if any(axis.is_sparse for axis in program.axes):
        header = ("Axis", "pos", "crd", "by_position")
        sections.append(_table("Segments", header, _segment_rows(program)))
    sections += [
        _table(
            "Iteration nodes",
            ("Node", "Axis", "Policy", "Children", "Guard"),
            [
                (
                    node.name,
                    node.axis,
                    node.policy.value,
                    _list(child.name for child in node.children),
                    print_guard(node.guard) or "None",
                )
                for node in iterations
            ],
        ),
        _table(
            "Invocation nodes",
            ("Node", "Primitive", "Guard"),
            [
                (node.name, node.primitive, print_guard(node.guard) or "None")
                for node in invocations
            ],
        ),
        _table(
            "TEIR-Primitives",
            ("Primitive", "Operation", "Operands", "Axes", "Metadata"),
            [_primitive_row(primitive) for primitive in program.primitives],
        ),
    ]
    return "\n".join(sections)


def print_tree(program: Program) -> str:
    """The schedule tree, as in listing 10.2.2; every root starts at the margin."""
    lines: list[str] = []
    stack: list[tuple[str, str, Node]] = [("", "", root) for root in reversed(program.roots)]
    while stack:
        branch, below, node = stack.pop()
        lines.append(branch + _label(node))
        if isinstance(node, InvocationNode) or not node.children:
            continue
        stack.append((f"{below}└── ", f"{below}    ", node.children[-1]))
        stack.extend((f"{below}├── ", f"{below}│   ", child) for child in node.children[-2::-1])
    return "\n".join(lines) + "\n"


def _label(node: Node) -> str:
    label = node.name
    if isinstance(node, IterationNode) and node.policy is Policy.PARALLEL:
        label += "  (parallel)"
    return f"{label}  [{print_guard(node.guard)}]" if node.guard else label


def _tensor_rows(program: Program) -> list[Row]:
    rows: list[Row] = [(tensor.name, tensor.data_type.value, "") for tensor in program.tensors]
    rows += [(tensor.name, tensor.data_type.value, "the whole run") for tensor in program.scratch]
    for node in program.nodes():
        if isinstance(node, IterationNode):
            rows += [
                (each.name, each.data_type.value, f"node {node.name}") for each in node.scratch
            ]
    return rows


def _segment_rows(program: Program) -> list[Row]:
    return [
        (axis.name, segment.pos, segment.crd, _list(segment.by_position))
        for axis in program.axes
        for segment in axis.segments
    ]


def _primitive_row(primitive: Primitive) -> Row:
    required = required_roles(primitive.operation)
    roles = ", ".join(
        f"{role.value}: {_list(axes)}"
        for role, axes in primitive.role_axes()
        if axes or role in required
    )
    entries = [] if primitive.data_type is None else [f"data_type: {primitive.data_type.value}"]
    entries += [f"{key}: {value}" for key, value in primitive.metadata]
    operands = ", ".join(primitive.inputs)
    return (
        primitive.name,
        primitive.operation.value,
        f"{operands} -> {primitive.output}" if operands else primitive.output,
        f"{{{roles}}}",
        f"{{{', '.join(entries)}}}",
    )


def _table(title: str, header: Row, rows: Sequence[Row]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = tuple("-" * width for width in widths)
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, rule, *rows)
    )
    return _titled(title, "".join(f"{line}\n" for line in lines))


def _titled(title: str, body: str) -> str:
    return f"{title}\n\n{body}"


def _vector(values: Iterable[int]) -> str:
    return f"({', '.join(map(str, values))})"


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"
