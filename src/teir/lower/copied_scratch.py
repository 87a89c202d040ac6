"""Scratch that some copies in a row fill, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from teir.ir.nodes import InvocationNode, IterationNode, Node, Operation, Primitive, Program

_NAME = attrgetter("name")


def copied_scratch(
    program: Program, fewest: int
) -> Iterator[tuple[tuple[str, ...], tuple[Primitive, ...]]]:
    """The copies in a row, ``fewest`` different ones at least, to one scratch tensor, which nothing
    else writes.

    Before them the names of the axes iterated above. A tensor of the caller's may be read before
    the copies; of scratch that is refused.
    """
    alike: dict[tuple[str, ...], list[Primitive]] = {}
    for one in program.primitives:
        if one.operation is Operation.COPY:
            alike.setdefault(one.operands, []).append(one)
    found: dict[str, Primitive] = {}
    targets: set[str] = set()
    for operands, copies in alike.items():
        if len(copies) >= fewest:
            found.update(zip(map(_NAME, copies), copies, strict=True))
            targets.add(operands[-1])
    targets.difference_update(map(_NAME, program.tensors))
    if not targets:
        return
    primitives = program.primitive_table()
    outputs = [
        primitives[node.primitive].output
        for node in program.nodes()
        if isinstance(node, InvocationNode)
    ]
    for above, row in _in_a_row(program.roots, found):
        output = row[0].output
        if output in targets and len(row) >= fewest and outputs.count(output) == len(row):
            yield above, tuple(row)


def _in_a_row(
    roots: Sequence[Node], copies: dict[str, Primitive]
) -> Iterator[tuple[tuple[str, ...], list[Primitive]]]:
    """Invocations of ``copies`` from one tensor to another that follow one another, run always all.

    Before them the axes iterated above.
    """
    levels: list[tuple[tuple[str, ...], Sequence[Node]]] = [((), roots)]
    while levels:
        above, siblings = levels.pop()
        row: list[Primitive] = []
        for node in siblings:
            copy = None
            if isinstance(node, IterationNode):
                levels.append(((*above, node.axis), node.children))
            elif not node.guard:
                copy = copies.get(node.primitive)
            if row and (copy is None or copy.operands != row[0].operands):
                yield above, row
                row = []
            if copy is not None:
                row.append(copy)
        if row:
            yield above, row
