"""Products whose output is adjacent along an axis that no cheap load is adjacent along.

    loops { [scratch T] T = product of a tile, lanes as the inputs lie; output tile = T permuted }
    loops { [scratch P] P = a tile of the large input, permuted; output tile = product of P }

One large input is read once and meets a small one (a tensor times a matrix along one axis). Packing
all of the large input would cost as much as the product, so it is done in tiles that the caches
hold: longer pieces of memory are worth a tile that the third cache holds a part of. Where there are
more products per result than results per element of the large input, the results are fewer: the
lanes run as the inputs lie, sums go to a tile, and the tile is permuted on its way out. Else the
elements of the large input are fewer: they are permuted on their way in, and the results go
straight to the output.

Near tiles (`teir.search.packed_tiles`) are a part of the second cache, so that what the copy asks
for is still there, and the product finds all of it. Measured on Zen 5: `efbad,cf->abcde` took 0.83
of the time of large tiles. `ebad,ce->abcd` of FP32, whose large input lies along the sum, took 0.80
of that of permuted results, but of FP64 1.26 of it; inputs that lie along an axis of the output
took 1.3 to 5.4 times as long. On Zen 4 the first took 0.84 to 0.91 (FP64) or 0.95, the other 0.94.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from teir.dtypes import DataType
from teir.ir.memory_hints import MemoryHints
from teir.ir.nodes import Operation, Tensor
from teir.passes.extents import even_block
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packed_tiles import is_packed_near
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span, Step, elements_of
from teir.target import LINE_BYTES

_MOST_COLUMNS = 64
"""Free indices of the small input from which packing the large one is cheap."""
_FEWEST_PRODUCTS = 12
"""Products per result below which moving results once more costs too much."""
_SHORTEST = 8
"""Lanes that fill at least half a vector."""
_FAR_BYTES = 4 << 20
"""Outputs from here on leave the second cache before anybody reads them."""
_READ_BYTES = 768
_WRITTEN_BYTES = 1024
"""Pieces of this length keep reading, and writing past the caches, near memory's bandwidth."""
_ROOM = 2
"""Sizes of the second cache that a tile may take."""
_MOST_MOVED = 2
"""Elements of the large input for every result from which it is not permuted along the sum."""
_MOST_NEAR_PRODUCTS = 32
"""Products per result of near tiles: with more, few columns of the input fit."""
_MOST_NEAR_PRODUCTS_ALONG = 64
"""The same where the input lies along the sum, and all of a sum is one piece of memory."""
_LEAST_NEAR_RUN_BYTES = 2 * LINE_BYTES
"""Runs of the output that a near tile cuts are this long; shorter ones are half a line each."""
_NEAR_READ_BYTES = 192
_NEAR_WRITTEN_BYTES = 384
"""Pieces of near tiles: shorter, since what the copy reads is asked for ahead."""
_NEAR_PARTS = 5
"""Near tiles of this many fill the second cache: one is read while the next one is packed."""


class _Aims(msgspec.Struct, frozen=True, gc=False):
    """Bytes of a tile, of the pieces in which it is read and written, and what runs are cut by."""

    room_bytes: int
    read_bytes: int
    written_bytes: int
    granule_bytes: int


class _Walk(msgspec.Struct, frozen=True, gc=False):
    """The axes of the output, those of the small input among them, the large input, the output."""

    free: tuple[Span, ...]
    columns: tuple[Span, ...]
    large: Tensor
    out: Tensor


@dataclass(frozen=True, slots=True)
class OutputTile:
    """A tile of results: its axes with the block of each, the lanes last; all others are loops.

    ``packs``: the large input is permuted, not the results; ``is_near``: and asked for, and held by
    a part of the second cache.
    """

    axes: tuple[Span, ...]
    blocks: tuple[int, ...]
    packs: bool
    is_near: bool


def output_tile(step: Step, shape: ProductShape, machine: Machine) -> OutputTile | None:
    """The tile of a step that is better computed through scratch; None for all others."""
    lies_along = shape.m is None or shape.m.stride(shape.a.name) == shape.a.data_type.width
    if lies_along or shape.columns > _MOST_COLUMNS:
        return None
    out = step.output
    free = tuple(axis for axis in step.axes if axis.stride(out.name))
    large, small = sorted(step.inputs, key=lambda one: elements_of(one, step), reverse=True)
    columns = tuple(axis for axis in free if axis.stride(small.name))
    along = min(free, key=lambda axis: axis.stride(out.name), default=None)
    if along is None or along in columns or along.stride(large.name) == large.data_type.width:
        return None
    if any(axis.stride(large.name) for axis in columns) or not columns:
        return None
    if extent_of(columns) > _MOST_COLUMNS or extent_of(step.reductions) < _FEWEST_PRODUCTS:
        return None
    if elements_of(large, step) * large.data_type.width < machine.l2_bytes:
        return None
    lanes = _adjacent(free, large) or _adjacent(columns, small)
    if lanes is None or lanes.extent < _SHORTEST:
        return None
    results, products = extent_of(columns), extent_of(step.reductions)
    walk = _Walk(free, columns, large, out)
    may_be_near = is_packed_near(out.data_type, machine)
    near = _near_tile(walk, lanes, along, products, machine) if may_be_near else None
    if near is not None:
        return near
    packs = lanes not in columns and products <= results
    aims = _far_aims(machine)
    row = results // lanes.extent if lanes in columns else results
    line = min(along.extent * out.data_type.width, LINE_BYTES)
    fits = lanes in columns or row * lanes.extent * line <= aims.room_bytes
    first = lanes.extent if fits else _cut_run(lanes, aims, out)
    axes, blocks = _grown(walk, lanes, first, row, aims)
    return OutputTile(axes, blocks, packs, is_near=False)


def _near_tile(
    walk: _Walk, lanes: Span, along: Span, products: int, machine: Machine
) -> OutputTile | None:
    """A tile of the large input that a part of the second cache holds; None where none is good.

    ``along``: the axis along which the output lies.
    """
    results, out = extent_of(walk.columns), walk.out
    if lanes in walk.columns:
        most = min(_MOST_MOVED * results, _MOST_NEAR_PRODUCTS_ALONG)
        if out.data_type is not DataType.FP32 or products > most:
            return None
        if _run_bytes(walk) < _LEAST_NEAR_RUN_BYTES:
            return None
        lanes = along
    elif products > min(results, _MOST_NEAR_PRODUCTS):
        return None
    aims = _near_aims(machine)
    first = _cut_run(lanes, aims, out)
    axes, blocks = _grown(walk, lanes, first, products, aims)
    block = next((size for axis, size in zip(axes, blocks, strict=True) if axis is along), 1)
    if block < along.extent and block * out.data_type.width < _LEAST_NEAR_RUN_BYTES:
        return None
    return OutputTile(axes, blocks, packs=True, is_near=True)


def _cut_run(lanes: Span, aims: _Aims, out: Tensor) -> int:
    """A block of a run of the large input that is worth reading, the whole where it is short."""
    least = aims.read_bytes // out.data_type.width
    return lanes.extent if lanes.extent <= 2 * least else even_block(lanes.extent, least)


def _run_bytes(walk: _Walk) -> int:
    """Of the output, what lies side by side along its axes but the columns."""
    out = walk.out
    end = out.data_type.width
    for axis in sorted(walk.free, key=lambda axis: axis.stride(out.name)):
        if axis in walk.columns or axis.stride(out.name) != end:
            break
        end *= axis.extent
    return end


def _near_aims(machine: Machine) -> _Aims:
    return _Aims(machine.l2_bytes // _NEAR_PARTS, _NEAR_READ_BYTES, _NEAR_WRITTEN_BYTES, LINE_BYTES)


def _far_aims(machine: Machine) -> _Aims:
    return _Aims(_ROOM * machine.l2_bytes, _READ_BYTES, _WRITTEN_BYTES, 1)


def _adjacent(axes: Sequence[Span], tensor: Tensor) -> Span | None:
    width = tensor.data_type.width
    return next((axis for axis in axes if axis.stride(tensor.name) == width), None)


def _grown(
    walk: _Walk, lanes: Span, first: int, row: int, aims: _Aims
) -> tuple[tuple[Span, ...], tuple[int, ...]]:
    """The axes of a tile and their blocks.

    ``first`` lanes of ``row`` elements each, the columns, then more of the input's and of the
    output's runs while they fit.
    """
    large, out = walk.large, walk.out
    width = out.data_type.width
    blocks = {id(axis): axis.extent for axis in walk.columns} | {id(lanes): first}
    room = aims.room_bytes // width
    used = row * first

    def grow(tensor: Tensor, run: int) -> None:
        nonlocal used
        for axis in sorted(walk.free, key=lambda axis: axis.stride(tensor.name)):
            stride = axis.stride(tensor.name)
            if stride == 0:
                continue
            known = blocks.get(id(axis), 1)
            if stride * known < run and known < axis.extent:
                wanted = -(-run // stride)
                granule = max(1, aims.granule_bytes // width) if stride == width else 1
                most = max(granule, min(wanted, room // (used // known)))
                size = even_block(axis.extent, most, granule)
                if size > known:
                    blocks[id(axis)] = size
                    used = used // known * size
            if stride * blocks.get(id(axis), 1) >= run:
                return

    grow(out, LINE_BYTES)
    grow(large, aims.read_bytes)
    grow(out, aims.written_bytes)
    grow(large, _READ_BYTES)
    tile = [axis for axis in walk.free if id(axis) in blocks and axis is not lanes]
    tile.sort(key=lambda axis: axis.stride(out.name), reverse=True)
    axes = (*_beside_lanes(tile, lanes, large, blocks), lanes)
    return axes, tuple(blocks[id(axis)] for axis in axes)


def _beside_lanes(
    tile: Sequence[Span], lanes: Span, large: Tensor, blocks: dict[int, int]
) -> tuple[Span, ...]:
    """The axes that go on where the input's run along the lanes ends come last, as it lies."""
    run: tuple[Span, ...] = (lanes,)
    while blocks[id(run[0])] == run[0].extent:
        end = run[0].stride(large.name) * run[0].extent
        following = [axis for axis in tile if end and axis.stride(large.name) == end]
        if not following:
            break
        run = (following[0], *run)
    return (*(axis for axis in tile if not any(axis is one for one in run)), *run[:-1])


def emit_through_tile(
    emission: Emission,
    step: Step,
    tile: OutputTile,
    product: Callable[[Step], Body],
    packed_product: Callable[[Step, bool], Body],
    parallel: bool,
) -> Body:
    """Loops over the axes outside the tile and over its blocks, as the large input lies.

    ``product`` makes the products of a tile from inputs as they lie, ``packed_product`` from the
    large input packed, which is told whether the tile is near.
    """
    inside = {id(axis) for axis in tile.axes}
    outside = [a for a in step.axes if a.stride(step.output.name) and id(a) not in inside]
    large = max(step.inputs, key=lambda one: elements_of(one, step))
    outside.sort(key=lambda axis: axis.stride(large.name), reverse=True)
    streams = elements_of(step.output, step) * step.output.data_type.width >= _FAR_BYTES

    def blocks(done: tuple[Span, ...], left: tuple[tuple[Span, int], ...]) -> Body:
        if not left and tile.packs:
            inner = Step(step.inputs, step.output, (*_with_one_start(done), *step.reductions))
            return packed_product(inner, tile.is_near)
        if not left:
            return _tile(emission, step, done, product, streams)
        (axis, size), *others = left
        return emission.blocks(
            axis, size, lambda one: blocks((*done, one), tuple(others)), parallel
        )

    pairs = tuple(zip(tile.axes, tile.blocks, strict=True))
    return emission.loops(outside, partial(blocks, (), pairs), parallel)


def _tile(
    emission: Emission,
    step: Step,
    axes: tuple[Span, ...],
    product: Callable[[Step], Body],
    streams: bool,
) -> Body:
    """The product of one tile into scratch, and the copy of the scratch to the output."""
    out = step.output
    scratch = Tensor(name=emission.name("tile"), data_type=out.data_type)
    stride = out.data_type.width
    moved: list[Span] = []
    copied: list[Span] = []
    for axis in reversed(axes):
        to_scratch = {name: value for name, value in axis.strides.items() if name != out.name}
        offsets = {name: value for name, value in axis.offsets.items() if name != out.name}
        moved.append(Span(axis.label, axis.extent, {**to_scratch, scratch.name: stride}, offsets))
        to_out = {scratch.name: stride, out.name: axis.stride(out.name)}
        kept = {out.name: axis.offsets[out.name]} if out.name in axis.offsets else {}
        copied.append(Span(axis.label, axis.extent, to_out, kept))
        stride *= axis.extent
    inner = Step(step.inputs, scratch, (*_with_one_start(moved), *step.reductions))
    copied.sort(key=lambda axis: axis.stride(out.name), reverse=True)
    copy = emission.leaf(
        Operation.COPY,
        (scratch.name,),
        out.name,
        Roles(m=tuple(copied[:-1]), n=(copied[-1],)),
        hints=MemoryHints(streams=streams, prefetched=frozenset()),
    )
    made = product(inner) + copy
    return Body(made.nodes, (*made.scratch, scratch))


def _with_one_start(axes: Sequence[Span]) -> tuple[Span, ...]:
    """The same walk without axes of one index; each offset is on an axis its tensor moves along.

    A tensor that is packed is read along its own axes only.
    """
    kept = [Span(axis.label, axis.extent, axis.strides, {}) for axis in axes if axis.extent > 1]
    starts: list[dict[str, int]] = [{} for _ in kept]
    for axis in axes:
        for tensor, offset in axis.offsets.items():
            place = next((n for n, one in enumerate(kept) if one.stride(tensor)), 0)
            starts[place][tensor] = starts[place].get(tensor, 0) + offset
    return tuple(
        Span(axis.label, axis.extent, axis.strides, start)
        for axis, start in zip(kept, starts, strict=True)
    )
