"""Slabs of lanes: copies of operands whose lanes are not adjacent, and the product of one slab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from teir.ir.memory_hints import NO_HINTS, MemoryHints
from teir.ir.nodes import Operation, Tensor
from teir.search.emission import Body, Emission, Roles
from teir.search.lane_parts import PartSizes, emit_parts
from teir.search.lane_step import LaneStep
from teir.search.shape import extent_of
from teir.search.step import Span
from teir.target import rows_apart

_OFTEN_MET = 10
"""Rows or columns that an element of an input meets, from which packing a part of it pays."""


@dataclass(frozen=True, slots=True)
class Side:
    """A tensor, the axes of its slab besides the lanes, and whether the slab is packed."""

    tensor: Tensor
    axes: tuple[Span, ...]
    is_packed: bool


@dataclass(frozen=True, slots=True)
class _Slab:
    """The slab of one tensor as the product sees it: where it lies, and the stride of each axis."""

    tensor: Tensor
    strides: Mapping[int, int]
    copy: tuple[Span, ...]
    """The walk over the slab on the tensor and on its copy; empty where there is none."""


def _slab(emission: Emission, side: Side, lanes: Span) -> _Slab:
    name, width = side.tensor.name, side.tensor.data_type.width
    axes = (*side.axes, lanes)
    if not side.is_packed:
        return _Slab(side.tensor, {id(axis): axis.stride(name) for axis in axes}, ())
    packed = Tensor(name=emission.name(f"{name}_slab"), data_type=side.tensor.data_type)
    strides = {id(lanes): width}
    reach = rows_apart(lanes.extent * width)
    for axis in reversed(side.axes):
        strides[id(axis)] = reach
        reach *= axis.extent
    copy = tuple(
        Span(
            axis.label,
            axis.extent,
            {name: axis.stride(name), packed.name: strides[id(axis)]},
            _only(axis.offsets, name),
        )
        for axis in axes
    )
    return _Slab(packed, strides, copy)


def _only(offsets: Mapping[str, int], *names: str) -> dict[str, int]:
    return {name: offset for name, offset in offsets.items() if name in names}


def emit_slab(
    emission: Emission,
    step: LaneStep,
    sides: tuple[Side, Side, Side],
    lanes: Span,
    far: frozenset[str],
    *,
    zeroes: bool = True,
) -> Body:
    """The nodes of one slab. ``zeroes``: its sums begin here."""
    slabs = tuple(_slab(emission, side, lanes) for side in sides)
    a, b, c = (slab.tensor.name for slab in slabs)

    def walk(axis: Span) -> Span:
        strides = {slab.tensor.name: slab.strides.get(id(axis), 0) for slab in slabs}
        moved = {name: stride for name, stride in strides.items() if stride}
        return Span(axis.label, axis.extent, moved, _only(axis.offsets, a, b, c))

    m, n, k = (tuple(map(walk, axes)) for axes in (step.m, step.n, step.k))
    along = (walk(lanes),)
    body = Body(scratch=tuple(slab.tensor for slab in slabs if slab.copy))
    for side, slab in zip(sides[:-1], slabs[:-1], strict=True):
        body += _copied(emission, side.tensor.name, slab.tensor.name, slab.copy, far)
    data_type = sides[0].tensor.data_type

    def product() -> Body:
        zero = emission.leaf(Operation.ZERO, (), c, Roles(m=(*m, *n, *along))) if zeroes else Body()
        roles = Roles(c=along, m=m, n=n, k=k)
        return zero + emission.leaf(Operation.CONTRACTION, (a, b), c, roles, data_type=data_type)

    body += emission.loops(step.rows, product, parallel=False)
    return body + _copied(emission, c, sides[-1].tensor.name, slabs[-1].copy, far)


def emit_slab_in_parts(
    emission: Emission,
    step: LaneStep,
    sides: tuple[Side, Side, Side],
    lanes: Span,
    far: frozenset[str],
    part: PartSizes,
) -> Body:
    """The nodes of one slab in parts: of columns, of rows, then of sums, outermost first."""
    first, second, out = sides
    is_whole = part.sums >= extent_of(step.k)

    def product(m: tuple[Span, ...], n: tuple[Span, ...], k: tuple[Span, ...]) -> Body:
        own = replace(step, m=m, n=n, k=k)
        inputs = _part_side(first, m, own, far), _part_side(second, n, own, far)
        results = replace(out, axes=(*m, *n))
        return emit_slab(emission, own, (*inputs, results), lanes, far, zeroes=is_whole)

    def results(n: tuple[Span, ...], m: tuple[Span, ...]) -> Body:
        if is_whole:
            return product(m, n, step.k)
        zero = emission.leaf(Operation.ZERO, (), out.tensor.name, Roles(m=(*m, *n, lanes)))
        return zero + emit_parts(emission, step.k, part.sums, partial(product, m, n))

    def columns(n: tuple[Span, ...]) -> Body:
        return emit_parts(emission, step.m, part.rows, partial(results, n))

    return emit_parts(emission, step.n, part.columns, columns)


def _part_side(side: Side, own: tuple[Span, ...], part: LaneStep, far: frozenset[str]) -> Side:
    """A part of an input; packed where it comes from afar and is met often: a copy reads it in
    order, where blocks of registers would read a line of every row."""
    met = extent_of((*part.m, *part.n)) // extent_of(own)
    is_packed = side.is_packed or (side.tensor.name in far and met >= _OFTEN_MET)
    return Side(side.tensor, (*own, *part.k), is_packed)


def _copied(
    emission: Emission, source: str, target: str, walk: tuple[Span, ...], far: frozenset[str]
) -> Body:
    """The copy of a slab; short runs of many rows are asked for ahead where the tensor is far."""
    if not walk:
        return Body()
    prefetched = far & {source}
    hints = MemoryHints(streams=False, prefetched=prefetched) if prefetched else NO_HINTS
    return emission.leaf(Operation.COPY, (source,), target, Roles(m=walk), hints=hints)
