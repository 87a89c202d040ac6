"""Copies of what no iteration changes, made once before the loop.

for b { P = A ; out[b] = P B[b] }      ->      P = A ; for b { out[b] = P B[b] }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from teir.ir.nodes import InvocationNode, IterationNode, Node, Operation, Primitive
from teir.search.emission import Body, Emission


def standing_copies(emission: Emission, body: Body, standing: frozenset[str]) -> tuple[Body, Body]:
    """The copies of ``standing`` tensors into scratch that nothing else writes, and the rest.

    They are taken from the nodes of ``body`` itself; what stands in loops below stays there.
    """
    primitives = {one.name: one for one in emission.primitives.values()}
    scratch = {tensor.name for tensor in body.scratch}

    def copied(node: Node) -> str | None:
        """The scratch that a copy of a standing tensor fills."""
        if not isinstance(node, InvocationNode) or node.guard:
            return None
        copy = primitives[node.primitive]
        is_copy = copy.operation is Operation.COPY and standing.issuperset(copy.inputs)
        return copy.output if is_copy and copy.output in scratch else None

    others = [node for node in body.nodes if copied(node) is None]
    rewritten = {one.output for one in _invoked(others, primitives)}
    targets = {copied(node) for node in body.nodes} - rewritten - {None}
    return (
        Body(
            tuple(node for node in body.nodes if copied(node) in targets),
            tuple(tensor for tensor in body.scratch if tensor.name in targets),
        ),
        Body(
            tuple(node for node in body.nodes if copied(node) not in targets),
            tuple(tensor for tensor in body.scratch if tensor.name not in targets),
        ),
    )


def _invoked(nodes: Iterable[Node], primitives: dict[str, Primitive]) -> Iterator[Primitive]:
    """The primitives of all invocations below."""
    for node in nodes:
        match node:
            case InvocationNode():
                yield primitives[node.primitive]
            case IterationNode():
                yield from _invoked(node.children, primitives)
