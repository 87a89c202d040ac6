"""Scratch that some copies in a row fill, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from teir.ir.nodes import Axis, InvocationNode, IterationNode, Node, Operation, Primitive, Program


def copied_scratch(
    program: Program, count: int
) -> Iterator[tuple[list[Axis], tuple[Primitive, ...]]]:
    """``count`` copies in a row to one scratch tensor, which nothing else writes.

    Before them the axes iterated above. A tensor of the caller's may be read before the copies; of
    scratch that is refused.
    """
    operations = [primitive.operation for primitive in program.primitives]
    if operations.count(Operation.COPY) < count:
        return
    rows = list(_in_a_row(program, count))
    if not rows:
        return
    axes, primitives = program.axis_table(), program.primitive_table()
    outputs = [primitives[node.primitive].output for _, node in program.invocations()]
    scratch = program.tensor_table().keys() - {tensor.name for tensor in program.tensors}
    for above, copies in rows:
        output = copies[0].output
        if output in scratch and outputs.count(output) == count:
            yield [axes[name] for name in above], copies


def _in_a_row(
    program: Program, count: int
) -> Iterator[tuple[tuple[str, ...], tuple[Primitive, ...]]]:
    """``count`` copies from one tensor to another that follow one another, run always all.

    Before them the axes iterated above.
    """
    primitives = program.primitive_table()
    levels: list[tuple[tuple[str, ...], Sequence[Node]]] = [((), program.roots)]
    while levels:
        above, siblings = levels.pop()
        levels += [
            ((*above, node.axis), node.children)
            for node in siblings
            if isinstance(node, IterationNode)
        ]
        copies = [_copy(node, primitives) for node in siblings]
        for first in range(len(copies) - count + 1):
            found = tuple(one for one in copies[first : first + count] if one is not None)
            if len(found) == count and len({one.operands for one in found}) == 1:
                yield above, found


def _copy(node: Node, primitives: dict[str, Primitive]) -> Primitive | None:
    if not isinstance(node, InvocationNode) or node.guard:
        return None
    primitive = primitives[node.primitive]
    return primitive if primitive.operation is Operation.COPY else None
