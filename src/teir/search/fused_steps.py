"""Steps that run together, a block of an index of the output at a time.

    T1 = A B                     T0 = C D                 T0 has no i
    T0 = C D              ->     for b in blocks of i {
    out = T1 T0                      T1 = A B             in block b
                                     out = T1 T0          in block b }

A large intermediate goes to memory and comes back; a block of it stays in the caches. What has no
``i`` is made once, before the loop, and read again for every block. No sum changes its order.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, prod

import msgspec

from teir.search.contraction import Contraction, dense_strides
from teir.search.machine import Machine
from teir.search.meetings import Given
from teir.search.sequence import Planned, in_turn
from teir.search.step_cost import far_cycles, least_cycles

LARGE = 4
"""Sizes of the second cache from which an intermediate is written past the caches."""
_HELD = 2
"""Sizes of the second cache, of every thread, that the intermediates of one block take at most."""
_HELD_NEAR = 1 / 2
"""The same where the third cache is far: blocks in it took 15 % longer than writing and reading the
intermediate."""
_READ_AGAIN = 8
"""Sizes of the second cache that the third holds of what every block reads, beside its own."""
_WORTH = 1 / 8
"""The share of the arithmetic that the bytes saved must have taken: blocks cost something too."""

_FAR_SHARE = 1 / 4
"""The share of the bytes saved that inputs and output in blocks may have: kernels are chosen for
one block, so none asks ahead for them, and none writes past the caches."""


class FusedSteps(msgspec.Struct, frozen=True, gc=False):
    """Indices of the output, outermost first, and how much of each one iteration takes."""

    blocks: tuple[tuple[str, int], ...]

    @property
    def indices(self) -> frozenset[str]:
        return frozenset(index for index, _ in self.blocks)

    def takes(self, node: Planned) -> bool:
        """True for a step inside the loops: its result has one of the indices."""
        return not self.indices.isdisjoint(node.order)


def fused_steps(root: Planned, contraction: Contraction, machine: Machine) -> FusedSteps | None:
    """The loop that saves most bytes; None where none saves enough."""
    nodes = in_turn(root)
    if max((node.size_bytes for node in nodes[:-1]), default=0) < LARGE * machine.l2_bytes:
        return None
    best, most = None, 0
    for index in contraction.output.order:
        fused = _fused(index, nodes, contraction, machine)
        saved = _saved_bytes(index, nodes, machine)
        if fused is not None and saved > most:
            best, most = fused, saved
    return best


def _fused(
    index: str, nodes: list[Planned], contraction: Contraction, machine: Machine
) -> FusedSteps | None:
    """Blocks of this index, as large as the caches hold; None where they do not pay."""
    steps = [node for node in nodes if index in node.order]
    if any(step.order[-1] == index or _has_batch(index, step) for step in steps):
        return None  # lanes stay whole, and batches outside what they repeat
    extent, results = contraction.extents[index], sum(step.size_bytes for step in steps[:-1])
    caches = _HELD_NEAR if machine.has_far_third_cache else _HELD
    held = int(caches * machine.threads * machine.l2_bytes)
    most = min(extent // 2, held * extent // max(1, results))
    if most < 1:
        return None
    block = next((n for n in range(most, most // 2, -1) if _is_even(n, extent, machine)), most)
    cycles = sum(_least_cycles(step, contraction, machine) for step in steps)
    again = _bytes_without(index, steps, contraction)
    is_near = again <= _READ_AGAIN * machine.l2_bytes
    if not is_near or ceil(extent / block) * far_cycles(again) > cycles:
        return None
    saved = _saved_bytes(index, nodes, machine)
    if far_cycles(saved) < _WORTH * cycles:
        return None
    if _far_bytes(index, contraction) > _FAR_SHARE * saved:
        return None
    return FusedSteps(((index, block),))


def _has_batch(index: str, step: Planned) -> bool:
    """True where the step repeats products along another index."""
    first, *others = step.parts
    both = {one for part in others for one in part.order if one in first.order}
    return any(one in step.order for one in both if one != index)


def _is_even(block: int, extent: int, machine: Machine) -> bool:
    """True where nothing is left over, of the index or of a block among the threads."""
    return extent % block == 0 and block % machine.threads == 0


def _saved_bytes(index: str, nodes: list[Planned], machine: Machine) -> int:
    """Bytes of the large intermediates of this index, written and read."""
    large = LARGE * machine.l2_bytes
    return 2 * sum(
        node.size_bytes for node in nodes[:-1] if index in node.order and node.size_bytes >= large
    )


def _least_cycles(step: Planned, contraction: Contraction, machine: Machine) -> float:
    return least_cycles(products_of(step, contraction), contraction.compute, machine)


def products_of(step: Planned, contraction: Contraction) -> int:
    """The products that a step forms."""
    indices = {index for part in step.parts for index in part.order}
    return prod(contraction.extents[index] for index in indices)


def _bytes_without(index: str, steps: Iterable[Planned], contraction: Contraction) -> int:
    """Bytes of the operands of these steps that have no such index."""
    width = contraction.compute.width
    parts = [part for step in steps for part in step.parts if index not in part.order]
    return sum(
        dense_strides(part.order, contraction.extents, width)[1]
        if isinstance(part, Given)
        else part.size_bytes
        for part in parts
    )


def _far_bytes(index: str, contraction: Contraction) -> int:
    """Bytes of the inputs and the output that are cut into blocks."""
    factors = (*contraction.inputs, contraction.output)
    return sum(
        dense_strides(factor.order, contraction.extents, factor.tensor.data_type.width)[1]
        for factor in factors
        if index in factor.strides
    )
