"""Dots of a matrix that comes from memory and has summed axes outside others: read as it lies.

    out[p, q] = sum of A[p, r, q, s] * B[r, s], rows of s adjacent:

    p { q { zero; Contraction K=[r, s] lanes } }       every result from as many runs as r is long
    zero; p { r { Contraction M=[q] K=[s] lanes } }    all results part by part

A result formed at once reads one short run for every index of the summed axes that lie outside:
more streams than the hardware prefetchers follow. When that is so is decided by the extents alone,
as the lanes are: the order of a sum depends on neither the machine nor the threads.

Measured on Zen 4, 110 matrices of 48 MB with 2 to 50 runs of 32 to 480 bytes a result: 0.34 to 1.28
of the time, 0.66 in the mean.
"""

from __future__ import annotations

from functools import partial

import msgspec

from teir.ir.nodes import Operation, Tensor
from teir.passes.extents import even_block
from teir.search.dots import Dots, emit_sum, outermost_first
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.shape import extent_of, some
from teir.search.step import Span

_FROM_MEMORY_BYTES = 16 << 20
_SHORT_RUN_BYTES = 512
"""Longer runs are read as fast one for every index."""
_FEWEST_PART_BYTES = 256
"""Of adjacent rows of a part, each of them a run: shorter ones are formed at once sooner."""
_SHARES = 2
"""For each thread."""


class PartedDots(msgspec.Struct, frozen=True, gc=False):
    """Loops around the parts as the matrix lies, the rows of a part, and what is summed in it."""

    dots: Dots
    loops: tuple[Span, ...]
    rows: Span
    summed: tuple[Span, ...]


def parted_dots_of(dots: Dots) -> PartedDots | None:
    """None where results are formed at once: of numbers that parts would be rounded to, too."""
    data_type = dots.step.output.data_type
    if not dots.outer or not dots.free or data_type.accumulator is not data_type:
        return None
    axes = (*dots.free, *dots.outer)
    for matrix in dots.step.inputs:
        if all(axis.stride(matrix.name) for axis in (*axes, dots.along)):
            return _parted(dots, matrix, outermost_first(axes, matrix.name))
    return None


def _parted(dots: Dots, matrix: Tensor, axes: tuple[Span, ...]) -> PartedDots | None:
    """``axes`` are all but the one along the lanes, the outermost of the matrix first."""
    last = max(axes.index(axis) for axis in dots.free)
    loops, summed = axes[:last], (*axes[last + 1 :], dots.along)
    width = matrix.data_type.width
    is_far = extent_of(dots.step.axes) * width >= _FROM_MEMORY_BYTES
    run_bytes = extent_of(summed) * width
    is_fit = run_bytes < _SHORT_RUN_BYTES and run_bytes * axes[last].extent >= _FEWEST_PART_BYTES
    if not is_far or not is_fit or not any(axis in dots.outer for axis in loops):
        return None
    return PartedDots(dots, loops, axes[last], summed)


def emit_parted_dots(emission: Emission, parted: PartedDots, machine: Machine) -> Body:
    """The nodes of a step that `parted_dots_of` recognised."""
    dots, loops, rows = parted.dots, parted.loops, parted.rows
    body = emission.leaf(Operation.ZERO, (), dots.step.output.name, Roles(m=dots.free))
    if machine.threads == 1 or extent_of(dots.step.axes) < machine.threaded_work:
        return body + emission.loops(loops, partial(_part, emission, parted, rows), parallel=False)
    shared = _shared(parted, machine)
    inside = [axis for axis in loops if axis is not shared]
    shares = _SHARES * machine.threads if shared is rows else 1
    for piece in cut(rows, even_block(rows.extent, -(-rows.extent // shares))):
        part = partial(_part, emission, parted, piece.tile)
        around = piece.loops if shared is rows else (shared,)
        within = partial(emission.loops, inside, part, False)
        body += emission.loops(around, within, parallel=True)
    return body


def _shared(parted: PartedDots, machine: Machine) -> Span:
    """The free axis that threads share: the outermost with enough turns, else the rows, in shares
    as long as can be."""
    free = [axis for axis in parted.loops if axis in parted.dots.free]
    enough = (axis for axis in free if axis.extent >= _SHARES * machine.threads)
    return next(enough, parted.rows)


def _part(emission: Emission, parted: PartedDots, rows: Span | None) -> Body:
    roles = Roles(m=some(rows), k=parted.summed)
    return emit_sum(emission, parted.dots, parted.dots.step.output.name, roles)
