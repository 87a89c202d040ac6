"""Sparse loops cut in two: what makes a temporary, then what uses it, run by run.

    j { Zero t; t += C . D; A += B t E }   ->   runs of positions { j { t[p] = C . D }
                                                                    j { A += B[p] t[p] E } }

Legal where the first children write the temporary alone and read nothing the last one writes. Then
every sum keeps its order: the temporary's sums lie in one visit, the others in one loop. The
temporary gets a place for every position of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from teir.ir.lanes import lanes_of
from teir.ir.nodes import InvocationNode, IterationNode, Node, Operation, Primitive, Tensor

RUN_POSITIONS = 512
_RUN_BYTES = 96 << 10


@dataclass(frozen=True, slots=True)
class Halves:
    """The children that make ``temporary``, and the Contraction that uses it."""

    temporary: Tensor
    producers: tuple[Node, ...]
    consumer: InvocationNode


def halves_of(node: IterationNode, primitives: Mapping[str, Primitive]) -> Halves | None:
    """The two parts of a sparse loop; None where it may not be cut."""
    if len(node.scratch) != 1 or len(node.children) < 2:
        return None
    *producers, consumer = node.children
    if not isinstance(consumer, InvocationNode) or consumer.guard:
        return None
    used = primitives[consumer.primitive]
    temporary = node.scratch[0]
    if used.operation is not Operation.CONTRACTION or temporary.name not in used.inputs:
        return None
    if used.output == temporary.name or lanes_of(used) is not None:
        return None
    for leaf in _leaves(producers, primitives):
        if leaf is None or leaf.output != temporary.name or used.output in leaf.inputs:
            return None
    return Halves(temporary, tuple(producers), consumer)


def dot_of(producers: tuple[Node, ...], primitives: Mapping[str, Primitive]) -> Primitive | None:
    """The sum in chains that, after a Zero, is all there is; None for anything else."""
    if len(producers) != 2:
        return None
    zero, dot = producers
    if not isinstance(zero, InvocationNode) or not isinstance(dot, InvocationNode):
        return None
    if zero.guard or dot.guard or primitives[zero.primitive].operation is not Operation.ZERO:
        return None
    made = primitives[dot.primitive]
    return made if lanes_of(made) is not None else None


def run_positions(temporary_bytes: int) -> int:
    """Positions of a run: few enough that their temporaries stay near."""
    return max(8, min(RUN_POSITIONS, _RUN_BYTES // temporary_bytes))


def _leaves(nodes: list[Node], primitives: Mapping[str, Primitive]) -> Iterator[Primitive | None]:
    """Every primitive below ``nodes``; None for a node whose guard speaks of visits."""
    for node in nodes:
        if node.guard:
            yield None
        elif isinstance(node, InvocationNode):
            yield primitives[node.primitive]
        elif node.scratch:
            yield None
        else:
            yield from _leaves(list(node.children), primitives)
