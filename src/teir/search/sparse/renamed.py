"""Schedules whose temporaries have names that nothing else has.

A part of a product is scheduled without knowing the tensors of the other parts, so its temporaries
may have their names.
"""

from __future__ import annotations

from dataclasses import replace

from teir.expr.index_notation import Access
from teir.search.sparse.graph import Branch, Nest, Node


def renamed(node: Node, used: set[str]) -> Node:
    """With names for its temporaries that nothing of ``used`` has, to which they are added."""
    match node:
        case Nest():
            return node
        case Branch():
            name = next(name for number in range(1, 999) if (name := f"T{number}") not in used)
            used.add(name)
            old, new = node.temporary.tensor, replace(node.temporary, tensor=name)
            return Branch(
                loops=node.loops,
                temporary=new,
                producer=renamed(_reading(node.producer, old, new), used),
                consumer=renamed(_reading(node.consumer, old, new), used),
            )


def _reading(node: Node, old: str, new: Access) -> Node:
    """With the tensor ``old`` under its new name."""

    def of(access: Access) -> Access:
        return replace(access, tensor=new.tensor) if access.tensor == old else access

    match node:
        case Nest():
            inputs = tuple(of(one) for one in node.inputs)
            return replace(node, output=of(node.output), inputs=inputs)
        case Branch():
            return replace(
                node,
                temporary=of(node.temporary),
                producer=_reading(node.producer, old, new),
                consumer=_reading(node.consumer, old, new),
            )
