"""Slicing: a contraction as a loop over blocks of one of its indices.

    for b in blocks of i { the tree for i in b }                   i an index of the output
    out = 0; for b in blocks of k { T = the tree for k in b; out += T }     k a summed index

Intermediates inside the loop are as small as the block. What a summed index saves there is more
than T takes only where intermediates are larger than the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from teir.ir.nodes import Operation, Tensor
from teir.search.contraction import Contraction, Factor, dense_strides
from teir.search.emission import Body, Emission, Roles
from teir.search.step import Span


@dataclass(frozen=True, slots=True)
class Slice:
    """A loop, and the contraction inside it."""

    loop: Span
    inside: Contraction


def sliceable(contraction: Contraction) -> tuple[str, ...]:
    """The indices that may be sliced: those of the output, and summed ones of wide sums.

    Sums into narrow outputs are not cut: every cut would round them.
    """
    kept = contraction.output.order
    if contraction.compute.accumulator is not contraction.compute:
        return kept
    inputs = (index for factor in contraction.inputs for index in factor.order)
    return tuple(dict.fromkeys((*kept, *inputs)))


def zeroed(emission: Emission, output: Factor, extents: Mapping[str, int]) -> Body:
    """Zero in the whole output."""
    roles = Roles(m=_axes((output,), extents))
    return emission.leaf(Operation.ZERO, (), output.tensor.name, roles)


def slice_sum(emission: Emission, contraction: Contraction) -> Factor:
    """Scratch for the result of one slice of a summed index, dense in the output's order."""
    output = contraction.output
    tensor = Tensor(name=emission.name("slice"), data_type=output.tensor.data_type)
    strides, _ = dense_strides(output.order, contraction.extents, tensor.data_type.width)
    return Factor(tensor, strides)


def added(emission: Emission, one: Factor, output: Factor, extents: Mapping[str, int]) -> Body:
    """The result of one slice added to the output."""
    names = (one.tensor.name,)
    roles = Roles(m=_axes((one, output), extents))
    return emission.leaf(Operation.CONTRACTION, names, output.tensor.name, roles)


def _axes(factors: Sequence[Factor], extents: Mapping[str, int]) -> tuple[Span, ...]:
    """The axes of the last factor, outermost first, as they move all of them."""
    return tuple(
        Span(
            index,
            extents[index],
            {factor.tensor.name: factor.strides[index] for factor in factors},
            {
                factor.tensor.name: factor.offsets[index]
                for factor in factors
                if index in factor.offsets
            },
        )
        for index in factors[-1].order
    )


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
