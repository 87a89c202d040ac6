"""Products whose lanes lie along an axis of all three tensors: batches, the batch innermost.

    [parallel] other batch axes
      [parallel] slabs of the lanes
        [copy the slabs of A and B into scratch]
        zero; Contraction C=[slab] M=[..] N=[..] K=[..]      into out, or into scratch
        [copy the slab of the result]

A slab of long sums from memory is made in parts, each with copies of its own, and so is one that is
packed and larger than the second cache (`lane_parts`).

A slab is packed where the lanes are not adjacent, and where rows that are read again lie
multiples of 4096 bytes apart: those would fall into the same few lines of a cache. Also where rows
come from afar in more pages than the processor foresees at once: a copy reads one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from teir.ir.memory_hints import NO_HINTS, MemoryHints
from teir.ir.nodes import Operation, Tensor
from teir.passes.extents import even_block
from teir.passes.parallelise import CHUNKS
from teir.search.emission import Body, Emission, Roles
from teir.search.lane_parts import PartSizes, emit_parts, packed_part, part_sizes
from teir.search.machine import FROM_MEMORY, SAME_PLACE_BYTES, Machine
from teir.search.packing import cut
from teir.search.shape import extent_of
from teir.search.step import Span, Step, is_adjacent
from teir.target import LINE_BYTES, rows_apart

_PACKED_RUN_BYTES = 512
_RUN_BYTES = 2048
"""Bytes of one row of a slab: long enough to be read in order, short enough for the caches."""
_FEWEST_PAGES = 32
"""Pages in which processors follow reads and ask ahead; blocks read a line of every row in turn.

Packed, batches of 7 x 7 products in FP64 took 0.4 of the time on Golden Cove, those of 4 x 4 as
long.
"""
_WAYS = 8
_FEWEST = 16
"""Lanes from which transposing both inputs' tiles is better than gathering them."""
_FEWEST_IN_PARTS, _LONG_SUM = 5, 100
"""Rows and columns, and sums, of operands from memory from which slabs are made in parts: on Zen 4
0.3 to 1.3 of the time, 0.7 in the mean; fewer up to 2, rows of one line up to 1.5."""
_OFTEN_MET = 10
"""Rows or columns that an element of an input meets, from which packing a part of it pays."""
_MOST_TILE = 4096
"""Products of one lane up to which the operands are small matrices."""


@dataclass(frozen=True, slots=True)
class LaneStep:
    """A step of two inputs by kinds of axes, outermost first; ``lanes`` moves all three tensors."""

    step: Step
    lanes: Span
    c: tuple[Span, ...]
    m: tuple[Span, ...]
    n: tuple[Span, ...]
    k: tuple[Span, ...]


def lane_step_of(step: Step) -> LaneStep | None:
    """The step with its lanes along a batch axis; None where no such axis serves best.

    That is the axis of the smallest stride on the output, if it moves all tensors; else one that
    is adjacent on both inputs, for small matrices.
    """
    first, second, out = (*step.inputs, step.output)
    free = [axis for axis in step.axes if axis.stride(out.name)]
    batch = [axis for axis in free if axis.stride(first.name) and axis.stride(second.name)]
    if not batch:
        return None
    nearest = min(free, key=lambda axis: (axis.stride(out.name), -axis.extent))
    if nearest in batch:
        return _lane_step(step, nearest)
    rest = extent_of([axis for axis in step.axes if axis not in batch])
    for axis in batch:
        if is_adjacent(axis, first) and is_adjacent(axis, second):
            return _lane_step(step, axis) if axis.extent >= _FEWEST and rest <= _MOST_TILE else None
    return None


def _lane_step(step: Step, lanes: Span) -> LaneStep:
    first, second = (tensor.name for tensor in step.inputs)
    out = step.output.name
    rest = [axis for axis in step.axes if axis is not lanes and axis.stride(out)]
    c = [axis for axis in rest if axis.stride(first) and axis.stride(second)]
    return LaneStep(
        step,
        lanes,
        _outermost_first(c, out),
        _outermost_first([axis for axis in rest if not axis.stride(second)], out),
        _outermost_first(
            [axis for axis in rest if axis.stride(second) and not axis.stride(first)], out
        ),
        _outermost_first(step.reductions, first),
    )


def emit_lanes(emission: Emission, step: LaneStep, machine: Machine) -> Body:
    """Loops over the other batch axes and the slabs of the lanes."""
    step = _streamed(step)
    first, second, out = (*step.step.inputs, step.step.output)
    sides = (
        _side(first, (*step.m, *step.k), step),
        _side(second, (*step.n, *step.k), step),
        _side(out, (*step.m, *step.n), step),
    )
    if _is_scattered(step, sides, machine):
        sides = (_packed(sides[0]), _packed(sides[1]), sides[2])
    work = extent_of(step.step.axes)
    is_shared = machine.threads > 1 and work >= machine.threaded_work
    in_parts = _is_in_parts(step, sides, machine)
    width = _slab_lanes(step, sides, machine, machine.threads if is_shared else 1, in_parts)
    far = frozenset(side.tensor.name for side in sides if _is_far(side, step, machine))
    row_bytes = width * out.data_type.width
    if in_parts:
        part = _part_of(step, row_bytes, machine)
    else:
        part = _packed_part_of(step, sides, row_bytes, machine)

    def slabs() -> Body:
        body = Body()
        for piece in cut(step.lanes, width):
            assert piece.tile is not None
            slab = partial(_emit_slab, emission, step, sides, piece.tile, far)
            if part is not None:
                slab = partial(_emit_parts, emission, step, sides, piece.tile, far, part)
            body += emission.loops(piece.loops, slab, parallel=is_shared)
        return body

    return emission.loops(step.c, slabs, parallel=is_shared)


@dataclass(frozen=True, slots=True)
class _Side:
    """A tensor, the axes of its slab besides the lanes, and whether the slab is packed."""

    tensor: Tensor
    axes: tuple[Span, ...]
    is_packed: bool


def _streamed(step: LaneStep) -> LaneStep:
    """Rows or columns as loops where what is read once would be packed: copies cost more."""
    large, axes = (step.step.inputs[0], step.m) if step.m else (step.step.inputs[1], step.n)
    if (step.m and step.n) or not _collide(large, (*axes, *step.k)):
        return step
    return replace(step, c=(*step.c, *axes), m=(), n=())


def _side(tensor: Tensor, axes: tuple[Span, ...], step: LaneStep) -> _Side:
    is_reused = bool(step.m or step.n)
    is_packed = (is_reused and _collide(tensor, axes)) or not is_adjacent(step.lanes, tensor)
    return _Side(tensor, axes, is_packed)


def _packed(side: _Side) -> _Side:
    return replace(side, is_packed=True)


def _is_scattered(step: LaneStep, sides: Sequence[_Side], machine: Machine) -> bool:
    """True for rows that are read again, come from a far cache, and are too many to foresee.

    Not where a row is less than a line: packed, each begins with one, and has one of room.
    """
    is_short = step.lanes.extent * step.step.output.data_type.width < LINE_BYTES
    is_reused = bool(step.m and step.n) and not is_short
    total_bytes = sum(_bytes(side, step) for side in sides)
    if not machine.has_far_third_cache or not is_reused or total_bytes <= machine.l2_bytes:
        return False
    return sum(extent_of(side.axes) for side in sides[:-1]) > _FEWEST_PAGES


def _is_far(side: _Side, step: LaneStep, machine: Machine) -> bool:
    """True for a tensor that the second cache does not hold."""
    return _bytes(side, step) > machine.l2_bytes


def _bytes(side: _Side, step: LaneStep) -> int:
    elements = extent_of([*side.axes, *step.c, step.lanes])
    return elements * side.tensor.data_type.width


def _collide(tensor: Tensor, axes: Sequence[Span]) -> bool:
    """True for many rows in the same few lines of a cache."""
    strides = [axis.stride(tensor.name) for axis in axes]
    return extent_of(axes) > _WAYS and not any(stride % SAME_PLACE_BYTES for stride in strides)


def _is_in_parts(step: LaneStep, sides: Sequence[_Side], machine: Machine) -> bool:
    """True for long sums of operands from memory, each element of which is met more than once."""
    out = sides[-1].tensor.data_type
    if machine.has_far_third_cache or sides[-1].is_packed or out.accumulator is not out:
        return False
    fewest = min(extent_of(step.m), extent_of(step.n))
    if fewest < _FEWEST_IN_PARTS or extent_of(step.k) < _LONG_SUM:
        return False
    rows, row_bytes = sum(extent_of(side.axes) for side in sides), step.lanes.extent * out.width
    return row_bytes >= 2 * LINE_BYTES and rows * row_bytes >= FROM_MEMORY * machine.l2_bytes


def _part_of(step: LaneStep, row_bytes: int, machine: Machine) -> PartSizes | None:
    """The parts of a slab whose rows are ``row_bytes`` long: half of the second cache each."""
    rows, columns, sums = extent_of(step.m), extent_of(step.n), extent_of(step.k)
    return part_sizes(rows, columns, sums, machine.l2_bytes // 2 // row_bytes)


def _packed_part_of(
    step: LaneStep, sides: Sequence[_Side], row_bytes: int, machine: Machine
) -> PartSizes | None:
    """The parts of a slab one operand of which is packed and large; None where its rows share
    lines, which every part would bring again."""
    first, second, _ = sides
    rows, columns, sums = extent_of(step.m), extent_of(step.n), extent_of(step.k)
    room = machine.l2_bytes // 2 // max(LINE_BYTES, row_bytes)
    if first.is_packed and rows >= columns:
        side, other, own, others = first, second, step.m, columns
    elif second.is_packed and columns >= rows:
        side, other, own, others = second, first, step.n, rows
    else:
        return None
    if any(axis.stride(side.tensor.name) < LINE_BYTES for axis in own):
        return None
    fitting = packed_part(extent_of(own), others, sums, room, other.is_packed)
    if fitting is None:
        return None
    return PartSizes(fitting, columns, sums) if own is step.m else PartSizes(rows, fitting, sums)


def _packed_run_bytes(sides: Sequence[_Side], machine: Machine) -> int:
    """Bytes of one row of packed slabs: longer where rows come from afar.

    Not where short rows leave the slabs in the first cache. A quarter of the second may be taken.
    """
    rows = sum(extent_of(side.axes) for side in sides)
    if not machine.has_far_third_cache or rows * _PACKED_RUN_BYTES <= machine.l1_bytes:
        return _PACKED_RUN_BYTES
    run = _RUN_BYTES
    while run > _PACKED_RUN_BYTES and rows * run > machine.l2_bytes // 4:
        run //= 2
    return run


def _slab_lanes(
    step: LaneStep, sides: Sequence[_Side], machine: Machine, threads: int, in_parts: bool
) -> int:
    """Lanes of one slab. Of rows that are cut anyway, parts of more rows are better than longer
    ones."""
    is_packed = any(side.is_packed for side in sides)
    run = _packed_run_bytes(sides, machine) if is_packed else _RUN_BYTES
    width = step.step.output.data_type.width
    if in_parts and step.lanes.extent * width > run:
        run = min(run, _PACKED_RUN_BYTES)
    lanes = run // width
    if not is_packed and not (step.m or step.n):
        # Nothing is read twice.
        lanes = step.lanes.extent
    if threads == 1 or extent_of(step.c) >= CHUNKS * threads:
        return min(lanes, step.lanes.extent)
    share = max(1, step.lanes.extent // (CHUNKS * threads))
    return even_block(step.lanes.extent, min(lanes, share), _FEWEST)


@dataclass(frozen=True, slots=True)
class _Slab:
    """The slab of one tensor as the product sees it: where it lies, and the stride of each axis."""

    tensor: Tensor
    strides: Mapping[int, int]
    copy: tuple[Span, ...]
    """The walk over the slab on the tensor and on its copy; empty where there is none."""


def _slab(emission: Emission, side: _Side, lanes: Span) -> _Slab:
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


def _emit_slab(
    emission: Emission,
    step: LaneStep,
    sides: tuple[_Side, _Side, _Side],
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
    if zeroes:
        body += emission.leaf(Operation.ZERO, (), c, Roles(m=(*m, *n, *along)))
    data_type = sides[0].tensor.data_type
    roles = Roles(c=along, m=m, n=n, k=k)
    body += emission.leaf(Operation.CONTRACTION, (a, b), c, roles, data_type=data_type)
    return body + _copied(emission, c, sides[-1].tensor.name, slabs[-1].copy, far)


def _emit_parts(
    emission: Emission,
    step: LaneStep,
    sides: tuple[_Side, _Side, _Side],
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
        return _emit_slab(emission, own, (*inputs, results), lanes, far, zeroes=is_whole)

    def results(n: tuple[Span, ...], m: tuple[Span, ...]) -> Body:
        if is_whole:
            return product(m, n, step.k)
        zero = emission.leaf(Operation.ZERO, (), out.tensor.name, Roles(m=(*m, *n, lanes)))
        return zero + emit_parts(emission, step.k, part.sums, partial(product, m, n))

    def columns(n: tuple[Span, ...]) -> Body:
        return emit_parts(emission, step.m, part.rows, partial(results, n))

    return emit_parts(emission, step.n, part.columns, columns)


def _part_side(side: _Side, own: tuple[Span, ...], part: LaneStep, far: frozenset[str]) -> _Side:
    """A part of an input; packed where it comes from afar and is met often: a copy reads it in
    order, where blocks of registers would read a line of every row."""
    met = extent_of((*part.m, *part.n)) // extent_of(own)
    is_packed = side.is_packed or (side.tensor.name in far and met >= _OFTEN_MET)
    return _Side(side.tensor, (*own, *part.k), is_packed)


def _copied(
    emission: Emission, source: str, target: str, walk: tuple[Span, ...], far: frozenset[str]
) -> Body:
    """The copy of a slab; short runs of many rows are asked for ahead where the tensor is far."""
    if not walk:
        return Body()
    prefetched = far & {source}
    hints = MemoryHints(streams=False, prefetched=prefetched) if prefetched else NO_HINTS
    return emission.leaf(Operation.COPY, (source,), target, Roles(m=walk), hints=hints)


def _outermost_first(axes: Sequence[Span], tensor: str) -> tuple[Span, ...]:
    return tuple(sorted(axes, key=lambda axis: axis.stride(tensor), reverse=True))
