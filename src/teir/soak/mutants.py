"""Hostile programs: a well-formed program with a few changes that a file may carry.

A mutant may still be right. What is tested: it is refused, or it runs inside its operands and
gives what the evaluator gives.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from teir.dtypes import DataType
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
    Segment,
    Tensor,
)
from teir.soak.draws import DrawInt, chance, choose, shuffled

Change = Callable[[DrawInt, Program], Program]

NUMBERS = (0, 1, 2, 3, 4, 8, 63, 64, 65, -1, -4, 2**31 - 1, 2**31, 2**61, 2**62, 2**63)
"""Extents, strides and offsets that break arithmetic."""


def draw_mutant(draw: DrawInt, program: Program) -> Program:
    """``program`` with one to three changes."""
    for _ in range(draw(1, 3)):
        program = choose(draw, CHANGES)(draw, program)
    return program


def draw_text_mutant(draw: DrawInt, text: str) -> bytes:
    """``text`` with one to three changes to its characters, words or lines."""
    content = text.encode()
    for _ in range(draw(1, 3)):
        content = choose(draw, TEXT_CHANGES)(draw, content)
    return content


def _change_extent(draw: DrawInt, program: Program) -> Program:
    def changed(axis: Axis) -> Axis:
        return replace(axis, extent=_near(draw, axis.extent))

    return _with_axis(draw, program, changed)


def _change_stride(draw: DrawInt, program: Program) -> Program:
    def changed(axis: Axis) -> Axis:
        tensor = _some_tensor(draw, program)
        near = _near(draw, axis.strides[tensor])
        return replace(axis, strides=Bytes({**axis.strides, tensor: near}))

    return _with_axis(draw, program, changed)


def _change_offset(draw: DrawInt, program: Program) -> Program:
    def changed(axis: Axis) -> Axis:
        tensor = _some_tensor(draw, program)
        near = _near(draw, axis.offsets[tensor])
        return replace(axis, offsets=Bytes({**axis.offsets, tensor: near}))

    return _with_axis(draw, program, changed)


def _swap_strides(draw: DrawInt, program: Program) -> Program:
    def changed(axis: Axis) -> Axis:
        one, other = _some_tensor(draw, program), _some_tensor(draw, program)
        swapped = {one: axis.strides[other], other: axis.strides[one]}
        return replace(axis, strides=Bytes({**axis.strides, **swapped}))

    return _with_axis(draw, program, changed)


def _make_sparse(draw: DrawInt, program: Program) -> Program:
    def changed(axis: Axis) -> Axis:
        segment = Segment(pos=_some_tensor(draw, program), crd=_some_tensor(draw, program))
        return replace(axis, segments=(segment,))

    return _with_axis(draw, program, changed)


def _rename_axis(draw: DrawInt, program: Program) -> Program:
    def changed(axis: Axis) -> Axis:
        return replace(axis, name=choose(draw, (*(other.name for other in program.axes), "zz")))

    return _with_axis(draw, program, changed)


def _change_type(draw: DrawInt, program: Program) -> Program:
    if not program.tensors:
        return program
    position = draw(0, len(program.tensors) - 1)
    tensors = list(program.tensors)
    tensors[position] = replace(tensors[position], data_type=choose(draw, tuple(DataType)))
    return replace(program, tensors=tuple(tensors))


def _drop_tensor(draw: DrawInt, program: Program) -> Program:
    if not program.tensors:
        return program
    position = draw(0, len(program.tensors) - 1)
    kept = program.tensors[:position] + program.tensors[position + 1 :]
    return replace(program, tensors=kept)


def _change_operands(draw: DrawInt, program: Program) -> Program:
    def changed(primitive: Primitive) -> Primitive:
        if chance(draw, 40):
            return replace(primitive, output=_some_tensor(draw, program))
        inputs = tuple(
            _some_tensor(draw, program) if chance(draw, 50) else name for name in primitive.inputs
        )
        return replace(primitive, inputs=inputs[draw(0, 1) :])

    return _with_primitive(draw, program, changed)


def _change_operation(draw: DrawInt, program: Program) -> Program:
    def changed(primitive: Primitive) -> Primitive:
        return replace(primitive, operation=choose(draw, tuple(Operation)))

    return _with_primitive(draw, program, changed)


def _change_roles(draw: DrawInt, program: Program) -> Program:
    def changed(primitive: Primitive) -> Primitive:
        names = [axis.name for axis in program.axes]
        if names and chance(draw, 40):
            return replace(primitive, k=(*primitive.k, choose(draw, names)))
        if chance(draw, 50):
            return replace(primitive, m=primitive.n, n=primitive.m)
        return replace(primitive, m=primitive.m[1:], k=primitive.k[1:])

    return _with_primitive(draw, program, changed)


def _change_policy(draw: DrawInt, program: Program) -> Program:
    def changed(node: Node) -> Node:
        return replace(node, policy=Policy.PARALLEL) if isinstance(node, IterationNode) else node

    return _with_node(draw, program, changed)


def _change_guard(draw: DrawInt, program: Program) -> Program:
    def changed(node: Node) -> Node:
        if node.guard and chance(draw, 50):
            return replace(node, guard=node.guard[1:])
        if not program.axes:
            return node
        kind = choose(draw, tuple(GuardKind))
        term = GuardTerm(kind=kind, axis=choose(draw, program.axes).name)
        return replace(node, guard=(*node.guard, term))

    return _with_node(draw, program, changed)


def _change_axis_of_node(draw: DrawInt, program: Program) -> Program:
    def changed(node: Node) -> Node:
        if isinstance(node, InvocationNode) or not program.axes:
            return node
        return replace(node, axis=choose(draw, program.axes).name)

    return _with_node(draw, program, changed)


def _change_children(draw: DrawInt, program: Program) -> Program:
    def changed(node: Node) -> Node:
        if isinstance(node, InvocationNode):
            return replace(node, primitive=choose(draw, program.primitives).name)
        return replace(node, children=shuffled(draw, node.children)[draw(0, 1) :])

    return _with_node(draw, program, changed)


def _move_scratch(draw: DrawInt, program: Program) -> Program:
    owned = [node for node in program.nodes() if isinstance(node, IterationNode) and node.scratch]
    scratch = (*program.scratch, *(tensor for node in owned for tensor in node.scratch))
    if not scratch:
        return replace(
            program, scratch=(Tensor(name=_some_tensor(draw, program), data_type=DataType.FP32),)
        )

    def changed(node: Node) -> Node:
        return replace(node, scratch=scratch) if isinstance(node, IterationNode) else node

    def without(node: Node) -> Node:
        return replace(node, scratch=()) if isinstance(node, IterationNode) else node

    bare = replace(program, scratch=(), roots=tuple(_map(root, without) for root in program.roots))
    return _with_node(draw, bare, changed)


def _repeat_root(draw: DrawInt, program: Program) -> Program:
    nodes = tuple(program.nodes())
    return replace(program, roots=(*program.roots, choose(draw, nodes))) if nodes else program


def _drop_root(draw: DrawInt, program: Program) -> Program:
    return replace(program, roots=shuffled(draw, program.roots)[draw(0, 1) :])


SUBTLE: tuple[Change, ...] = (
    _change_extent,
    _change_stride,
    _change_offset,
    _change_policy,
    _change_guard,
    _change_children,
)
"""Changes that most often leave a well-formed program which is only unsafe, or only different."""
CHANGES: tuple[Change, ...] = (
    *SUBTLE,
    *SUBTLE,
    _swap_strides,
    _change_operands,
    _change_roles,
    _change_operation,
    _change_type,
    _move_scratch,
    _change_axis_of_node,
    _make_sparse,
    _rename_axis,
    _drop_tensor,
    _repeat_root,
    _drop_root,
)


def _near(draw: DrawInt, value: int) -> int:
    if chance(draw, 40):
        return choose(draw, NUMBERS)
    return value + choose(draw, (1, -1, 2, 4, -4, 8, value, -value))


def _some_tensor(draw: DrawInt, program: Program) -> str:
    return choose(draw, (*program.tensor_table(), "zz"))


def _with_axis(draw: DrawInt, program: Program, change: Callable[[Axis], Axis]) -> Program:
    if not program.axes:
        return program
    position = draw(0, len(program.axes) - 1)
    axes = list(program.axes)
    axes[position] = change(axes[position])
    return replace(program, axes=tuple(axes))


def _with_primitive(
    draw: DrawInt, program: Program, change: Callable[[Primitive], Primitive]
) -> Program:
    if not program.primitives:
        return program
    position = draw(0, len(program.primitives) - 1)
    primitives = list(program.primitives)
    primitives[position] = change(primitives[position])
    return replace(program, primitives=tuple(primitives))


def _with_node(draw: DrawInt, program: Program, change: Callable[[Node], Node]) -> Program:
    names = [node.name for node in program.nodes()]
    if not names:
        return program
    name = choose(draw, names)

    def changed(node: Node) -> Node:
        return change(node) if node.name == name else node

    return replace(program, roots=tuple(_map(root, changed) for root in program.roots))


def _map(node: Node, change: Callable[[Node], Node]) -> Node:
    if isinstance(node, IterationNode):
        node = replace(node, children=tuple(_map(child, change) for child in node.children))
    return change(node)


def _flip_byte(draw: DrawInt, content: bytes) -> bytes:
    if not content:
        return content
    at = draw(0, len(content) - 1)
    return content[:at] + bytes([draw(0, 255)]) + content[at + 1 :]


def _drop_bytes(draw: DrawInt, content: bytes) -> bytes:
    at = draw(0, len(content))
    return content[:at] + content[at + draw(1, 20) :]


def _repeat_line(draw: DrawInt, content: bytes) -> bytes:
    lines = content.split(b"\n")
    at = draw(0, len(lines) - 1)
    return b"\n".join([*lines[:at], lines[at], *lines[at:]])


def _move_line(draw: DrawInt, content: bytes) -> bytes:
    lines = content.split(b"\n")
    line = lines.pop(draw(0, len(lines) - 1))
    lines.insert(draw(0, len(lines)), line)
    return b"\n".join(lines)


def _swap_words(draw: DrawInt, content: bytes) -> bytes:
    words = content.split(b" ")
    one, other = draw(0, len(words) - 1), draw(0, len(words) - 1)
    words[one], words[other] = words[other], words[one]
    return b" ".join(words)


def _big_number(draw: DrawInt, content: bytes) -> bytes:
    words = content.split(b" ")
    words[draw(0, len(words) - 1)] = str(choose(draw, NUMBERS)).encode()
    return b" ".join(words)


TEXT_CHANGES: tuple[Callable[[DrawInt, bytes], bytes], ...] = (
    _swap_words,
    _big_number,
    _flip_byte,
    _drop_bytes,
    _repeat_line,
    _move_line,
)
