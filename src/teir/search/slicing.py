"""Slicing: a contraction as a loop over blocks of an index of its output.

    for b in blocks of i { the tree for i in b }

Intermediates inside the loop are as small as the block. Only indices of the output are sliced, so
no sum is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from teir.search.contraction import Contraction, Factor
from teir.search.step import Span


@dataclass(frozen=True, slots=True)
class Slice:
    """A loop, and the contraction inside it."""

    loop: Span
    inside: Contraction


def slices_of(contraction: Contraction, index: str, block: int) -> Iterator[Slice]:
    """The whole blocks of ``index`` as one loop, then what remains as a loop of one iteration."""
    whole, left = divmod(contraction.extents[index], block)
    if whole:
        yield _slice(contraction, index, whole, block, 0)
    if left:
        yield _slice(contraction, index, 1, left, whole * block)


def _slice(contraction: Contraction, index: str, count: int, block: int, start: int) -> Slice:
    factors = (*contraction.inputs, contraction.output)
    strides = {}
    offsets = {}
    for factor in factors:
        name, stride = factor.tensor.name, factor.strides.get(index, 0)
        if stride and count > 1:
            strides[name] = stride * block
        offset = factor.offsets.get(index, 0) + stride * start
        if offset:
            offsets[name] = offset
    return Slice(
        Span(index, count, strides, offsets),
        replace(
            contraction,
            inputs=tuple(_inside(factor, index, block) for factor in contraction.inputs),
            output=_inside(contraction.output, index, block),
            extents={**contraction.extents, index: block},
        ),
    )


def _inside(factor: Factor, index: str, block: int) -> Factor:
    """The factor within a block: its offset is the loop's, an index of extent 1 is left out."""
    kept = {name: stride for name, stride in factor.strides.items() if name != index or block > 1}
    offsets = {name: offset for name, offset in factor.offsets.items() if name != index}
    return Factor(factor.tensor, kept, offsets)
