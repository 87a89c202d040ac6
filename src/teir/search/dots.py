"""Dots, and products of a matrix and a vector, whose elements are adjacent along the summed axis.

The sum runs in lanes along that axis. How many is decided by the extents alone, so that the result
does not depend on the machine or on the threads:

    parallel pieces { zero; Contraction K=[.., k] lanes }        a long dot: pieces in scratch,
    zero; Contraction K=[piece]                                  then their sum in order
    outer { zero; Contraction M=[rows] K=[.., k] lanes }         anything else
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from teir.dtypes import DataType
from teir.ir.nodes import Operation, Tensor
from teir.passes.extents import even_block
from teir.passes.parallelise import CHUNKS
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import Piece, cut
from teir.search.shape import comes_from_memory, extent_of, outermost_first, some
from teir.search.step import Span, Step, elements_of, is_adjacent
from teir.target import PAGE_BYTES

LONG_LANES_BYTES = 256
"""Accumulators of one sum that stands alone: four of the widest vectors."""
ROW_LANES_BYTES = 128
"""Accumulators of one sum of many, which are formed side by side."""
_LONG = 2**16
"""Products from which a sum that stands alone is formed in pieces."""
_PIECES = 16
_FEW = 4
"""Rows formed at once."""
_FEW_RESULTS = 8
"""Elements of a matrix for each of the results that may be written in any order."""
_NEAR_BYTES = 256 << 10
"""Of inputs that the second cache keeps while a matrix passes."""
_LONG_ROW_BYTES = 512
"""Rows from which on they are read as fast in any order: of shorter ones in another order than they
lie, the lines that two of them share are read twice. Measured on Zen 4: 0.3 to 1.0 of the time."""


@dataclass(frozen=True, slots=True)
class Dots:
    """A step as dots: the free axes, the outer reductions and the one along the lanes."""

    step: Step
    free: tuple[Span, ...]
    outer: tuple[Span, ...]
    along: Span


def dots_of(step: Step) -> Dots | None:
    """The step as dots; None where lanes along the output, or register blocks, serve better.

    Some summed axis must be adjacent on every input it moves, and no axis of the output on any. Of
    two inputs one at least moves along every axis of the output, so that no element is used often.
    """
    along = _along(step)
    if along is None:
        return None
    output = step.output.name
    free = [axis for axis in step.axes if axis.stride(output)]
    if any(is_adjacent(axis, tensor) for axis in free for tensor in step.inputs):
        return None
    if not any(all(axis.stride(tensor.name) for axis in free) for tensor in step.inputs):
        return None
    outer = [axis for axis in step.reductions if axis is not along]
    first = step.inputs[0]
    return Dots(step, outermost_first(free, step.output), outermost_first(outer, first), along)


def emit_dots(emission: Emission, dots: Dots, machine: Machine) -> Body:
    """The nodes of a step that `dots_of` recognised."""
    if not dots.free and dots.along.extent * extent_of(dots.outer) >= _LONG:
        return _long_dot(emission, dots, machine)
    matrix = _far_matrix(dots, machine)
    rows = _rows(dots, matrix)
    free = dots.free if matrix is None else outermost_first(dots.free, matrix)
    outer = [axis for axis in free if axis is not rows]
    work = extent_of(dots.step.axes)
    is_shared = machine.threads > 1 and work >= machine.threaded_work
    if not is_shared or extent_of(outer) >= machine.threads:
        return emission.loops(outer, lambda: _leaf(emission, dots, rows), parallel=is_shared)
    if rows is None:
        return emission.loops(outer, lambda: _leaf(emission, dots, None), parallel=False)
    body = Body()
    for piece in cut(rows, even_block(rows.extent, _share(rows, machine), _FEW)):
        around = (*outer, *piece.loops)
        body += emission.loops(around, partial(_leaf, emission, dots, piece.tile), parallel=True)
    return body


def _share(rows: Span, machine: Machine) -> int:
    return max(_FEW, rows.extent // (CHUNKS * machine.threads))


def _leaf(emission: Emission, dots: Dots, rows: Span | None) -> Body:
    output = dots.step.output.name
    zero = emission.leaf(Operation.ZERO, (), output, Roles(m=some(rows)))
    roles = Roles(m=some(rows), k=(*dots.outer, dots.along))
    return zero + sum_in_lanes(emission, dots, output, roles)


def _long_dot(emission: Emission, dots: Dots, machine: Machine) -> Body:
    """Pieces of the longest reduction."""
    longest = max((*dots.outer, dots.along), key=lambda axis: axis.extent)
    block = even_block(longest.extent, -(-longest.extent // _PIECES), _lanes(dots))

    def part(tile: Span, parts: str) -> Body:
        k = tuple(tile if axis is longest else axis for axis in (*dots.outer, dots.along))
        return sum_in_lanes(emission, dots, parts, Roles(k=k))

    return sum_of_pieces(emission, dots.step, cut(longest, block), machine, part)


def sum_of_pieces(
    emission: Emission,
    step: Step,
    pieces: Sequence[Piece],
    machine: Machine,
    part: Callable[[Span, str], Body],
) -> Body:
    """Pieces of a sum formed apart, then added in order: the same for any number of threads.

    ``part`` gives the nodes that add one piece, the walk over its tile, into a tensor.
    """
    kept, element = step.output, step.output.data_type
    is_half = element in (DataType.BF16, DataType.FP16)
    wide = element.accumulator if is_half else element
    count = sum(extent_of(piece.loops) for piece in pieces)
    parts = Tensor(name=emission.name("parts"), data_type=wide)
    across = Span("part", count, {parts.name: wide.width}, {})
    body, place = emission.leaf(Operation.ZERO, (), parts.name, Roles(m=(across,))), 0
    for piece in pieces:
        assert piece.tile is not None
        tile = piece.tile
        loops = tuple(axis.on(parts.name, wide.width) for axis in piece.loops)
        if not loops:
            offsets = {**tile.offsets, parts.name: place * wide.width}
            tile = Span(tile.label, tile.extent, tile.strides, offsets)
        body += emission.loops(loops, partial(part, tile, parts.name), machine.threads > 1)
        place += extent_of(loops)
    total = Tensor(name=emission.name("total"), data_type=wide) if is_half else kept
    body += emission.leaf(Operation.ZERO, (), total.name, Roles())
    body += emission.leaf(
        Operation.CONTRACTION, (parts.name,), total.name, Roles(k=(across,)), data_type=wide
    )
    if is_half:
        body += emission.leaf(Operation.COPY, (total.name,), kept.name, Roles())
    return Body(body.nodes, (*body.scratch, parts, *((total,) if is_half else ())))


def sum_in_lanes(emission: Emission, dots: Dots, output: str, roles: Roles) -> Body:
    """The Contraction that adds products along ``roles`` to the tensor ``output``."""
    step = dots.step
    return emission.leaf(
        Operation.CONTRACTION,
        tuple(tensor.name for tensor in step.inputs),
        output,
        roles,
        data_type=step.inputs[0].data_type,
        lanes=_lanes(dots),
    )


def _lanes(dots: Dots) -> int:
    limit = ROW_LANES_BYTES if dots.free else LONG_LANES_BYTES
    return lane_count(limit, dots.step.output.data_type, dots.along)


def lane_count(most_bytes: int, data_type: DataType, along: Span) -> int:
    """Lanes that fill ``most_bytes``, no more than there are products, and at least two."""
    most = most_bytes // data_type.accumulator.width
    return max(2, min(most, 1 << (along.extent - 1).bit_length()))


def _along(step: Step) -> Span | None:
    """The summed axis for the lanes: adjacent on as many inputs as can be, then the longest."""

    def adjacent(axis: Span) -> int:
        return sum(is_adjacent(axis, tensor) for tensor in step.inputs)

    fitting = [
        axis
        for axis in step.reductions
        if all(is_adjacent(axis, tensor) or not axis.stride(tensor.name) for tensor in step.inputs)
    ]
    return max(fitting, key=lambda axis: (adjacent(axis), axis.extent), default=None)


def _rows(dots: Dots, matrix: Tensor | None) -> Span | None:
    """The axis whose sums are formed side by side: one that shares an input, then the longest, or
    that of at least a few rows which follow each other most closely in ``matrix``, whatever it
    shares where that is read from memory and all else is near."""
    names = [tensor.name for tensor in dots.step.inputs]
    wants_shared = matrix is None or not _is_read_alone(matrix, dots)

    def worth(axis: Span) -> tuple[bool, int, int]:
        shares = any(not axis.stride(name) for name in names)
        if matrix is None:
            return shares, axis.extent, 0
        return shares and wants_shared, min(axis.extent, _FEW), -axis.stride(matrix.name)

    return max(dots.free, key=worth, default=None)


def _far_matrix(dots: Dots, machine: Machine) -> Tensor | None:
    """The input of short rows that moves along every axis of the output, if no second cache holds
    it and the results are few beside it: it is read as it lies."""
    for tensor in dots.step.inputs:
        if not all(axis.stride(tensor.name) for axis in dots.free):
            continue
        read = elements_of(tensor, dots.step)
        is_far = read * tensor.data_type.width > machine.l2_bytes
        is_from_memory = comes_from_memory(tensor, dots.step.axes)
        long_bytes = PAGE_BYTES if is_from_memory else _LONG_ROW_BYTES
        is_short = dots.along.extent * tensor.data_type.width < long_bytes
        has_few_results = read >= _FEW_RESULTS * extent_of(dots.free)
        return tensor if is_far and is_short and has_few_results else None
    return None


def _is_read_alone(matrix: Tensor, dots: Dots) -> bool:
    others = [tensor for tensor in dots.step.inputs if tensor is not matrix]
    sizes = (elements_of(other, dots.step) * other.data_type.width for other in others)
    return comes_from_memory(matrix, dots.step.axes) and all(size <= _NEAR_BYTES for size in sizes)
