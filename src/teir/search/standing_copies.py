"""Copies of what no iteration changes, and copies of these, made once before the loop.

for b { P = A ; for k { Q[k] = P[k] } ; out[b] = Q B[b] }
->  P = A ; for k { Q[k] = P[k] } ; for b { out[b] = Q B[b] }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from teir.ir.nodes import InvocationNode, IterationNode, Node, Operation, Primitive
from teir.search.emission import Body, Emission


def standing_copies(emission: Emission, body: Body, standing: frozenset[str]) -> tuple[Body, Body]:
    """The copies of ``standing`` tensors into scratch that nothing else writes, and the rest.

    They are taken from the nodes of ``body`` itself, alone or in loops of their own.
    """
    primitives = {one.name: one for one in emission.primitives.values()}
    before = Body()
    while targets := _filled_by_copies(body, standing, primitives):
        taken, left = list[Node](), list[Node]()
        for node in body.nodes:
            outputs = {one.output for one in _invoked((node,), primitives)}
            (taken if outputs <= targets else left).append(node)
        before += Body(
            tuple(taken), tuple(tensor for tensor in body.scratch if tensor.name in targets)
        )
        kept = tuple(tensor for tensor in body.scratch if tensor.name not in targets)
        body, standing = Body(tuple(left), kept), standing | targets
    return before, body


def _filled_by_copies(
    body: Body, standing: frozenset[str], primitives: dict[str, Primitive]
) -> frozenset[str]:
    """The scratch of ``body`` that copies of standing tensors fill, in nodes that do no more."""
    filled, otherwise = set[str](), set[str]()
    for node in body.nodes:
        outputs = {one.output for one in _invoked((node,), primitives)}
        (filled if _only_copies(node, standing, primitives) else otherwise).update(outputs)
    return frozenset({tensor.name for tensor in body.scratch} & filled - otherwise)


def _only_copies(node: Node, standing: frozenset[str], primitives: dict[str, Primitive]) -> bool:
    """True for a copy of a standing tensor, and for loops around such ones."""
    if node.guard:
        return False
    match node:
        case InvocationNode():
            copy = primitives[node.primitive]
            return copy.operation is Operation.COPY and standing.issuperset(copy.inputs)
        case IterationNode():
            return not node.scratch and all(
                _only_copies(child, standing, primitives) for child in node.children
            )
        case _:
            assert_never(node)


def _invoked(nodes: Iterable[Node], primitives: dict[str, Primitive]) -> Iterator[Primitive]:
    """The primitives of all invocations below."""
    for node in nodes:
        match node:
            case InvocationNode():
                yield primitives[node.primitive]
            case IterationNode():
                yield from _invoked(node.children, primitives)
