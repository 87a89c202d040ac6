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

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from teir.ir.nodes import Tensor
from teir.passes.extents import even_block
from teir.passes.parallelise import CHUNKS
from teir.search.emission import Body, Emission
from teir.search.lane_parts import PartSizes, packed_part, part_sizes
from teir.search.lane_step import FEWEST_LANES, LaneStep
from teir.search.machine import FROM_MEMORY, SAME_PLACE_BYTES, Machine
from teir.search.packing import cut
from teir.search.shape import extent_of
from teir.search.slabs import Side, emit_slab, emit_slab_in_parts
from teir.search.step import Span, is_adjacent
from teir.target import LINE_BYTES

_PACKED_RUN_BYTES = 512
_RUN_BYTES = 2048
"""Bytes of one row of a slab: long enough to be read in order, short enough for the caches."""
_FEWEST_PAGES = 32
"""Pages in which processors follow reads and ask ahead; blocks read a line of every row in turn.

Packed, batches of 7 x 7 products in FP64 took 0.4 of the time on Golden Cove, those of 4 x 4 as
long.
"""
_WAYS = 8
"""Rows in the same few lines of a cache that it holds."""
_FEWEST_IN_PARTS, _LONG_SUM = 5, 100
"""Rows and columns, and sums, of operands from memory from which slabs are made in parts: on Zen 4
0.3 to 1.3 of the time, 0.7 in the mean; fewer up to 2, rows of one line up to 1.5."""
_AT_ONCE = 5
"""Vectors of sums in flight that hide the time of a product."""


def emit_lanes(emission: Emission, step: LaneStep, machine: Machine) -> Body:
    """Loops over the other batch axes and the slabs of the lanes."""
    step = _streamed(step, machine)
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
            slab = partial(emit_slab, emission, step, sides, piece.tile, far)
            if part is not None:
                slab = partial(emit_slab_in_parts, emission, step, sides, piece.tile, far, part)
            body += emission.loops(piece.loops, slab, parallel=is_shared)
        return body

    return emission.loops(step.c, slabs, parallel=is_shared)


def _streamed(step: LaneStep, machine: Machine) -> LaneStep:
    """Rows or columns as loops: all where what is read once would be packed, which costs more; and
    those that meet in the same few lines of a cache where the sums walk over lines."""
    if step.m and step.n:
        return step
    first, second = step.step.inputs
    large, small, axes = (first, second, step.m) if step.m else (second, first, step.n)
    if _collide(large, (*axes, *step.k)):
        return replace(step, c=(*step.c, *axes), m=(), n=())
    outside = _meeting_rows(step, large, axes, machine)
    if not outside:
        return step
    rest = tuple(axis for axis in axes if axis not in outside)
    step = replace(step, m=rest if step.m else (), n=rest if step.n else ())
    if is_adjacent(step.lanes, small):
        return replace(step, c=(*step.c, *outside))
    return replace(step, rows=outside)


def _meeting_rows(
    step: LaneStep, large: Tensor, axes: tuple[Span, ...], machine: Machine
) -> tuple[Span, ...]:
    """The axes along which rows lie multiples of 4096 bytes apart, if the sums walk over lines and
    more meet than a cache holds: of what one row brings, the next would find nothing.

    Measured on Zen 4, drawn ones of extents that multiply to such strides, FP32 and FP64: 0.05 to
    1.5 of the time, 0.75 in the mean; of sums within lines 2.2, of too few rows left 2 to 9.
    """
    name, out = large.name, step.step.output
    if not step.k or not is_adjacent(step.lanes, large) or not is_adjacent(step.lanes, out):
        return ()
    if min(axis.stride(name) for axis in step.k) < LINE_BYTES:
        return ()
    meeting = _meeting((*axes, *step.k), large)
    outside = tuple(axis for axis in axes if axis in meeting)
    left = extent_of(axes) // extent_of(outside)
    vectors = -(-step.lanes.extent // machine.lanes(out.data_type.accumulator.width))
    if extent_of(meeting) <= _WAYS or left * vectors < _AT_ONCE:
        return ()
    return outside


def _side(tensor: Tensor, axes: tuple[Span, ...], step: LaneStep) -> Side:
    is_reused = bool(step.m or step.n)
    is_packed = (is_reused and _collide(tensor, axes)) or not is_adjacent(step.lanes, tensor)
    return Side(tensor, axes, is_packed)


def _packed(side: Side) -> Side:
    return replace(side, is_packed=True)


def _is_scattered(step: LaneStep, sides: Sequence[Side], machine: Machine) -> bool:
    """True for rows that are read again, come from a far cache, and are too many to foresee.

    Not where a row is less than a line: packed, each begins with one, and has one of room.
    """
    is_short = step.lanes.extent * step.step.output.data_type.width < LINE_BYTES
    is_reused = bool(step.m and step.n) and not is_short
    total_bytes = sum(_bytes(side, step) for side in sides)
    if not machine.has_far_third_cache or not is_reused or total_bytes <= machine.l2_bytes:
        return False
    return sum(extent_of(side.axes) for side in sides[:-1]) > _FEWEST_PAGES


def _is_far(side: Side, step: LaneStep, machine: Machine) -> bool:
    """True for a tensor that the second cache does not hold."""
    return _bytes(side, step) > machine.l2_bytes


def _bytes(side: Side, step: LaneStep) -> int:
    elements = extent_of([*side.axes, *step.c, step.lanes])
    return elements * side.tensor.data_type.width


def _collide(tensor: Tensor, axes: Sequence[Span]) -> bool:
    """True for many rows in the same few lines of a cache."""
    return extent_of(axes) > _WAYS and len(_meeting(axes, tensor)) == len(axes)


def _meeting(axes: Sequence[Span], tensor: Tensor) -> list[Span]:
    """The axes whose steps stay in the same few lines of a cache."""
    return [axis for axis in axes if axis.stride(tensor.name) % SAME_PLACE_BYTES == 0]


def _is_in_parts(step: LaneStep, sides: Sequence[Side], machine: Machine) -> bool:
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
    step: LaneStep, sides: Sequence[Side], row_bytes: int, machine: Machine
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


def _packed_run_bytes(sides: Sequence[Side], machine: Machine) -> int:
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
    step: LaneStep, sides: Sequence[Side], machine: Machine, threads: int, in_parts: bool
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
    return even_block(step.lanes.extent, min(lanes, share), FEWEST_LANES)
