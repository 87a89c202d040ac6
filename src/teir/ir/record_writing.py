"""A program written in the record form, one entry per line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from teir.errors import Finding, Part, ProgramPlace, TeirError
from teir.ir.name_rules import Mention, NameSpace, unknown_names
from teir.ir.nodes import Axis, GuardTerm, IterationNode, Node, Primitive, Program
from teir.ir.roles import required_roles


def dumps_records(program: Program) -> bytes:
    """The program as JSON in UTF-8.

    Raises `TeirError` where an axis has bytes for a tensor that the program does not declare: the
    record form has no place for them.
    """
    rows = _tensor_rows(program)
    order = [row["id"] for row in rows]
    _refuse_undeclared(program, order)
    nodes = tuple(program.nodes())
    iterations = [node for node in nodes if isinstance(node, IterationNode)]
    invocations = [node for node in nodes if not isinstance(node, IterationNode)]
    lines = [
        f'{{"teir": 1, "name": {_json(program.name)},',
        f' "tensors": {_array(rows, 2)},',
        f' "axes": {_array((_axis_row(axis, order) for axis in program.axes), 2)},',
        f' "schedule": {{"roots": {_json([node.name for node in program.roots])},',
        f'  "iterations": {_array(map(_node_row, iterations), 3)},',
        f'  "invocations": {_array(map(_node_row, invocations), 3)}}},',
        f' "primitives": {_array(map(_primitive_row, program.primitives), 2)}}}',
    ]
    return ("\n".join(lines) + "\n").encode()


def _tensor_rows(program: Program) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"id": tensor.name, "data_type": tensor.data_type} for tensor in program.tensors
    ]
    rows += (
        {"id": tensor.name, "data_type": tensor.data_type, "scratch": None}
        for tensor in program.scratch
    )
    for node in program.nodes():
        if isinstance(node, IterationNode):
            rows += (
                {"id": tensor.name, "data_type": tensor.data_type, "scratch": node.name}
                for tensor in node.scratch
            )
    return rows


def _axis_row(axis: Axis, order: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"id": axis.name, "extent": axis.extent}
    row["strides"] = [axis.strides[name] for name in order]
    if len(axis.offsets):
        row["offsets"] = [axis.offsets[name] for name in order]
    if axis.segments:
        row["segments"] = [
            {"pos": segment.pos, "crd": segment.crd, "by_position": segment.by_position}
            for segment in axis.segments
        ]
    return row


def _node_row(node: Node) -> dict[str, Any]:
    row: dict[str, Any] = {"id": node.name}
    if isinstance(node, IterationNode):
        row |= {
            "axis": node.axis,
            "policy": node.policy,
            "children": [child.name for child in node.children],
        }
    else:
        row["primitive"] = node.primitive
    if node.guard:
        row["guard"] = _guard_rows(node.guard)
    return row


def _guard_rows(guard: tuple[GuardTerm, ...]) -> list[dict[str, str]]:
    return [{term.kind.value: term.axis} for term in guard]


def _primitive_row(primitive: Primitive) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if primitive.data_type is not None:
        metadata["data_type"] = primitive.data_type
    metadata["operands"] = {"in": primitive.inputs, "out": primitive.output}
    metadata |= {key: msgspec.Raw(text.encode()) for key, text in primitive.metadata}
    return {
        "id": primitive.name,
        "operation": primitive.operation,
        "axes": _role_row(primitive),
        "metadata": metadata,
    }


def _role_row(primitive: Primitive) -> dict[str, tuple[str, ...]]:
    required = required_roles(primitive.operation)
    return {role.value: axes for role, axes in primitive.role_axes() if axes or role in required}


def _refuse_undeclared(program: Program, order: list[str]) -> None:
    references = (
        Mention(
            space=NameSpace.TENSOR,
            name=tensor,
            place=ProgramPlace(part=Part.AXIS, name=axis.name),
        )
        for axis in program.axes
        for tensor in (*axis.strides, *axis.offsets)
    )
    findings: tuple[Finding, ...] = tuple(unknown_names({NameSpace.TENSOR: order}, references))
    if findings:
        raise TeirError(findings)


def _array(rows: Iterable[object], indent: int) -> str:
    texts = [_json(row) for row in rows]
    if not texts:
        return "[]"
    separator = ",\n" + " " * indent
    return "[\n" + " " * indent + separator.join(texts) + "]"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
