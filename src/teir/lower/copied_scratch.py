"""Scratch that some copies in a row fill, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from teir.ir.nodes import IterationNode, Node, Operation, Primitive, Program

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
    writers = {one.name: one.output for one in program.primitives if one.output in targets}
    written = dict.fromkeys(targets, 0)
    for above, row in list(_in_a_row(program.roots, found, writers, written)):
        output = row[0].output
        if output in targets and len(row) >= fewest and written[output] == len(row):
            yield above, tuple(row)


def _in_a_row(
    roots: Sequence[Node],
    copies: dict[str, Primitive],
    writers: dict[str, str],
    written: dict[str, int],
) -> Iterator[tuple[tuple[str, ...], list[Primitive]]]:
    """Invocations of ``copies`` from one tensor to another that follow one another, run always all.

    Before them the axes iterated above. What ``writers`` write is counted in ``written``.
    """
    levels: list[tuple[tuple[str, ...], Sequence[Node]]] = [((), roots)]
    while levels:
        above, siblings = levels.pop()
        row: list[Primitive] = []
        for node in siblings:
            copy = None
            if isinstance(node, IterationNode):
                levels.append(((*above, node.axis), node.children))
            else:
                if node.primitive in writers:
                    written[writers[node.primitive]] += 1
                copy = None if node.guard else copies.get(node.primitive)
            if row and (copy is None or copy.operands != row[0].operands):
                yield above, row
                row = []
            if copy is not None:
                row.append(copy)
        if row:
            yield above, row
