"""Steps shared among threads as a whole: each piece is made as one thread makes a step.

    parallel t over pieces of an axis { the step on its piece, with every copy it needs }
    what remains of the axis

Steps of several phases, where threads would share every copy and every product apart, would hand
what one wrote to another each time; those through a tile, or along short lanes, have little to
share inside. What an axis does not move is copied by every piece.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from teir.passes.parallelise import CHUNKS
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.shape import extent_of
from teir.search.standing_copies import standing_copies
from teir.search.step import Span, Step, elements_of
from teir.target import LINE_BYTES

_MOST_COST = 0.8
"""Of the time of one thread; from there on threads are not worth their pieces."""
_TRIED = 3
_MOVED = 20
"""Products in whose time an element is copied or read from afar."""
_REST = 0.04
"""Of the time of the step, for making it once more on what remains."""
_BORDER, _FAR_BORDER = 24_000, 6_000
"""Products in whose time two cores write on either side of a border between pieces of the result:
what one asks for ahead is the other's. Measured on Zen 4, borders 1 to 13 KB apart: 0.1 us; and
where the third cache is far on Golden Cove, 0.4 to 4 KB apart: 0.03 us."""
_LINE_AGAIN = 1.2
"""Of the time of the step, times the part of its lines that what remains takes parts of."""
_SHORT_BYTES, _SHORT = 8 * LINE_BYTES, 0.1
"""Of the time of the step, where pieces meet in a tensor so many bytes from each other, and again
where within its lines: times the part that the tensor has of all elements."""

EmitStep = Callable[[Emission, Step, Machine], Body]


class Pieces(msgspec.Struct, frozen=True, gc=False):
    """The axis that is cut, and the indices of a piece."""

    axis: Span
    size: int


def pieces_of(step: Step, machine: Machine) -> Pieces | None:
    """The cheapest way to cut the results among the threads; None where none is worth it."""
    if machine.threads == 1 or extent_of(step.axes) < machine.threaded_work:
        return None
    out = step.output.name
    sizes = _elements(step)
    found = [
        (_cost(step, sizes, axis, count, machine), -axis.stride(out), count, axis)
        for axis in step.axes
        if axis.stride(out)
        for count in _counts(axis.extent, machine.threads)
    ]
    if not found:
        return None
    cost, _, count, axis = min(found, key=lambda one: one[:3])
    return Pieces(axis, axis.extent // count) if cost <= _MOST_COST else None


def standing_inputs(step: Step, pieces: Pieces) -> frozenset[str]:
    """The inputs that every piece reads whole."""
    return frozenset(one.name for one in step.inputs if not pieces.axis.stride(one.name))


def are_near(step: Step, machine: Machine) -> bool:
    """True where the second caches of all threads hold every tensor."""
    tensors = (*step.inputs, step.output)
    sizes = zip(tensors, _elements(step), strict=True)
    total_bytes = sum(tensor.data_type.width * elements for tensor, elements in sizes)
    return total_bytes <= machine.threads * machine.l2_bytes


def _elements(step: Step) -> tuple[int, ...]:
    """Of the inputs, then of the output."""
    return tuple(elements_of(tensor, step) for tensor in (*step.inputs, step.output))


def emit_pieces(
    emission: Emission,
    step: Step,
    pieces: Pieces,
    machine: Machine,
    emit: EmitStep,
    standing: frozenset[str],
) -> Body:
    """The loop over the pieces, which threads share, and what remains; ``emit`` makes the step on
    one thread. Copies of ``standing`` inputs, which the axis does not move, come before the loop.
    """
    alone, before = replace(machine, threads=1), list[Body]()

    def made(part: Span) -> Body:
        axes = tuple(part if axis is pieces.axis else axis for axis in step.axes)
        return emit(emission, replace(step, axes=axes), alone)

    def repeated() -> Body:
        copies, rest = standing_copies(emission, made(inside), standing)
        before.append(copies)
        return rest

    axis, size = pieces.axis, pieces.size
    loop, inside = axis.split(size)
    body = emission.loops((loop,), repeated, parallel=machine.threads > 1)
    body = before[0] + body
    left = axis.extent % size
    if not left:
        return body
    place, rest = axis.rest_in_loop(axis.extent - left)
    return body + emission.loops((place,), lambda: made(rest), parallel=False)


def _counts(extent: int, threads: int) -> list[int]:
    """The numbers of pieces by which the slowest thread has least to do, at most three.

    None that leaves a single index: one row or column alone is another kind of step, whose sums
    may be chains of another order.
    """
    most = min(extent, CHUNKS * threads)
    counts = [count for count in range(threads, most + 1) if extent % count != 1]
    return sorted(counts, key=lambda count: _longest(extent, count, threads))[:_TRIED]


def _longest(extent: int, count: int, threads: int) -> int:
    """Indices of the pieces of one thread, and of what remains, which it has to wait for."""
    size, left = divmod(extent, count)
    return -(-count // threads) * size + left


def _cost(step: Step, sizes: tuple[int, ...], axis: Span, count: int, machine: Machine) -> float:
    """The time of pieces of which there are ``count``, as a part of the time of one thread.

    ``sizes``: the elements of the inputs, then of the output.
    """
    threads = machine.threads
    (size, left), each = divmod(axis.extent, count), -(-count // threads)
    strides = [axis.stride(tensor.name) for tensor in (*step.inputs, step.output)]
    reaches = [size * stride for stride in strides]
    elements = sum(sizes)
    whole = _MOVED * elements + extent_of(step.axes)
    # Pieces that meet within a line read all lines, and write some of each other's.
    again = sum(n for n, reach in zip(sizes, reaches, strict=True) if reach < LINE_BYTES)
    copied = _MOVED * again / whole
    cost = _longest(axis.extent, count, threads) / axis.extent * (1 - copied) + each * copied
    if left:
        cost += copied + _REST + _LINE_AGAIN * _lines_again(sizes, strides, axis.extent, left)
    borders = sizes[-1] * step.output.data_type.width / reaches[-1]
    met = sum(n * _meeting(reach) for n, reach in zip(sizes, reaches, strict=True))
    border = _FAR_BORDER if machine.has_far_third_cache else _BORDER
    return cost + border * borders / whole + met / elements


def _lines_again(sizes: tuple[int, ...], strides: list[int], extent: int, left: int) -> float:
    """The part of all lines that ``left`` indices of ``extent`` meet where they take a part of
    each: those of a tensor lie in two."""
    again = (
        size * min(1.0, 2 * LINE_BYTES / (extent * stride))
        for size, stride in zip(sizes, strides, strict=True)
        if 0 < stride * left < LINE_BYTES
    )
    return sum(again) / sum(sizes)


def _meeting(reach_bytes: int) -> float:
    """What it costs that pieces meet in a tensor so many bytes from each other."""
    if not 0 < reach_bytes < _SHORT_BYTES:
        return 0.0
    return _SHORT * (1 + (reach_bytes % LINE_BYTES > 0))
