"""A vector times a matrix from memory whose summed axes lie outside others: read as it lies.

    out[b, a] = sum of A[e, b, d, a] * v[d, e], rows of a adjacent:

    b { zero; Contraction M=[a] K=[e, d] }          every result from runs that lie far apart
    zero; e { b { Contraction M=[a] K=[d] } }       all results part by part

Where no summed axis lies inside the others, some rows of the innermost one are taken at a time:

    out[c, a] = sum of A[b, c, a] * v[b]            zero; blocks of b { c { Contraction K=[b] } }

Results are read and written once for every part, from caches; the matrix comes in long runs, which
prefetchers follow, or, where short rows are taken from some places at a time, is asked for a block
ahead. The order of a sum depends on the extents and on how the matrix lies alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from teir.ir.memory_hints import NO_HINTS, MemoryHints
from teir.ir.nodes import Operation
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.memory_order import comes_in_few_runs, emit_in_memory_order, emit_parts
from teir.search.shape import (
    FEWEST_ROW_BYTES,
    ProductShape,
    comes_from_memory,
    extent_of,
    outermost_first,
    some,
)
from teir.search.step import Span
from teir.search.sweeps import has_adjacent_rows

_PART, _PART_OF_SHORT = 8, 16
"""Rows of a part that is a block of a summed axis, long ones and short ones."""
_LONG_ROW_BYTES, _SHORTEST_RUN_BYTES = 256, 8 << 10
"""Of adjacent rows, and of all that lies at one index of a summed axis: shorter runs are read as
fast a row of each at a time where nothing is asked for."""
_FEWEST = 4
"""Rows that results are worth reading and writing once more for."""
_LONG_SUM = 64
"""Products beside which results hardly count, so that it does not matter how they are written."""
_MOST_AT_ONCE, _FAR_PART = 32, 0.75
"""Products of a sum whose rows are taken all at once, one from each place; and the part of the
third cache from which a matrix is asked for then."""
_MOST_INSIDE = 3
"""Summed axes of a part: those that a Contraction of two inputs runs inside its kernel."""


class PartedSweep(msgspec.Struct, frozen=True, gc=False):
    """Loops around the parts as the matrix lies, and what is summed in a part: ``inside``, or
    blocks of ``part`` of ``cut``, which is one of the loops, and ``inside``.

    ``asks``: for the rows of the next block.
    """

    shape: ProductShape
    loops: tuple[Span, ...]
    inside: tuple[Span, ...]
    cut: Span | None
    part: int
    asks: bool


def parted_sweep_of(shape: ProductShape) -> PartedSweep | None:
    """None where results are formed at once: of numbers that parts would be rounded to, too."""
    axes = _axes_as_they_lie(shape, _LONG_ROW_BYTES)
    if axes is None:
        return None
    free = (*shape.c, *shape.m_outer)
    last = max(axes.index(axis) for axis in free)
    outside = [axis for axis in axes[:last] if axis in shape.k]
    if not outside or comes_in_few_runs(axes[:last], shape.k):
        return None
    if outside[-1].stride(shape.a.name) < _SHORTEST_RUN_BYTES:
        return None
    is_inside = last < len(axes) - 1
    summed = axes[-1] if is_inside else outside[-1]
    if summed.extent < _FEWEST:
        return None
    if is_inside:
        return PartedSweep(shape, axes[:-1], (summed,), None, 1, False)
    return PartedSweep(shape, axes, (), summed, _PART, False)


def parted_rows_of(shape: ProductShape, machine: Machine) -> PartedSweep | None:
    """As `parted_sweep_of`, rows of some elements too; also of sums that one part holds, where they
    would be cut, or read in another order, or where the matrix is asked for.

    Results of many parts have to stay in the second cache. Measured on Zen 4, drawn ones of 18 to
    90 MB beside blocks of the sum that were the outermost loops: FP32 0.2 to 0.97 of the time, FP64
    0.29 to 1.02, 0.5 in the mean.
    """
    axes = None if machine.has_far_third_cache else _axes_as_they_lie(shape, FEWEST_ROW_BYTES)
    if axes is None:
        return None
    free = (*shape.c, *shape.m_outer)
    last = max(axes.index(axis) for axis in free)
    loops, inside = axes[: last + 1], axes[last + 1 :]
    if len(inside) > _MOST_INSIDE:
        return None
    outside = [axis for axis in loops if axis in shape.k]
    summed = extent_of(inside)
    if not outside:
        is_found = summed > _LONG_SUM or _are_batches_outside(loops, shape)
        return PartedSweep(shape, loops, inside, None, 1, False) if is_found else None
    if comes_in_few_runs(loops, shape.k):
        return None
    asks, is_full = machine.keeps_near_requests, len(inside) == _MOST_INSIDE
    if len(outside) == 1 and extent_of(shape.k) <= _MOST_AT_ONCE and not is_full:
        if not asks or _bytes_of(shape) < _FAR_PART * machine.l3_bytes:
            return None
        at_once = (outside[0], *inside)
        left = tuple(axis for axis in loops if axis is not outside[0])
        return PartedSweep(shape, left, at_once, None, 1, True)
    if _results_of_a_part(loops, shape) > machine.l2_bytes:
        return None
    if summed >= _PART or is_full:
        return PartedSweep(shape, loops, inside, None, 1, False)
    part = max(1, _PART_OF_SHORT // summed)
    return PartedSweep(shape, loops, inside, outside[-1], part, asks)


def _are_batches_outside(loops: Sequence[Span], shape: ProductShape) -> bool:
    """True where rows lie outside of batches, which other products have outermost."""
    return bool(shape.c) and list(loops) != [*shape.c, *shape.m_outer]


def _results_of_a_part(loops: Sequence[Span], shape: ProductShape) -> int:
    """Bytes of the results that are read and written at every index of the outermost sum."""
    assert shape.m is not None
    outermost = next(place for place, axis in enumerate(loops) if axis in shape.k)
    inside = [axis for axis in loops[outermost:] if axis not in shape.k]
    return extent_of((*inside, shape.m)) * shape.out.data_type.width


def _bytes_of(shape: ProductShape) -> int:
    return extent_of((*shape.c, *shape.k)) * shape.rows * shape.a.data_type.width


def _axes_as_they_lie(shape: ProductShape, least_row_bytes: int) -> tuple[Span, ...] | None:
    """All axes but the rows', as the matrix lies; None where it is near, or does not lie so."""
    a, element, free = shape.a, shape.out.data_type, (*shape.c, *shape.m_outer)
    if not free or not has_adjacent_rows(shape, least_row_bytes):
        return None
    if element.accumulator is not element:
        return None
    axes = outermost_first((*free, *shape.k), a)
    if not all(axis.stride(a.name) for axis in axes):
        return None
    return axes if comes_from_memory(a, (*axes, *some(shape.m))) else None


def emit_parted_sweep(emission: Emission, parted: PartedSweep, machine: Machine) -> Body:
    """The nodes of a step that `parted_sweep_of` or `parted_rows_of` recognised."""
    shape = parted.shape
    assert shape.m is not None
    free = (*shape.c, *shape.m_outer)

    def nest(loops: Sequence[Span], rows: Span) -> Body:
        leaf = partial(_leaf, emission, parted, rows)
        return emit_parts(emission, loops, parted.cut, parted.part, parted.inside, leaf)

    body = Body()
    if _has_parts(parted):
        body += emission.leaf(Operation.ZERO, (), shape.out.name, Roles(m=(*free, shape.m)))
    return body + emit_in_memory_order(emission, parted.loops, free, shape.m, machine, nest)


def _has_parts(parted: PartedSweep) -> bool:
    """False where every result is formed at once."""
    return any(axis in parted.shape.k for axis in parted.loops)


def _leaf(emission: Emission, parted: PartedSweep, rows: Span, summed: tuple[Span, ...]) -> Body:
    """The Contraction of a part; Zero before it where it is the whole sum."""
    a, b, out = parted.shape.a, parted.shape.b, parted.shape.out
    zero = Body()
    if not _has_parts(parted):
        zero = emission.leaf(Operation.ZERO, (), out.name, Roles(m=(rows,)))
    asked = MemoryHints(streams=False, prefetched=frozenset((a.name,)))
    return zero + emission.leaf(
        Operation.CONTRACTION,
        (a.name, b.name),
        out.name,
        Roles(m=(rows,), k=summed),
        data_type=a.data_type,
        hints=asked if parted.asks else NO_HINTS,
    )
