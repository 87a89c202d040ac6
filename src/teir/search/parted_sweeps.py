"""A vector times a matrix from memory whose summed axes lie outside others: read as it lies.

    out[b, a] = sum of A[e, b, d, a] * v[d, e], rows of a adjacent:

    b { zero; Contraction M=[a] K=[e, d] }          every result from runs that lie far apart
    zero; e { b { Contraction M=[a] K=[d] } }       all results part by part

Where no summed axis lies inside the others, some rows of the innermost one are taken at a time:

    out[c, a] = sum of A[b, c, a] * v[b]            zero; blocks of b { c { Contraction K=[b] } }

Results are read and written once for every part, from caches; the matrix comes in long runs, which
prefetchers follow. The order of a sum depends on the extents and on how the matrix lies alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from teir.ir.nodes import Operation
from teir.passes.extents import even_block
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.memory_order import comes_from_memory, comes_in_few_runs, emit_in_memory_order
from teir.search.shape import ProductShape, outermost_first, some
from teir.search.step import Span
from teir.search.sweeps import has_adjacent_rows

_PART = 8
"""Rows of a part that is a block of a summed axis."""
_SHORTEST_ROW_BYTES, _SHORTEST_RUN_BYTES = 256, 8 << 10
"""Of adjacent rows, and of all that lies at one index of a summed axis: shorter runs are read as
fast a row of each at a time."""
_FEWEST = 4
"""Rows that results are worth reading and writing once more for."""


class PartedSweep(msgspec.Struct, frozen=True, gc=False):
    """Loops around the parts as the matrix lies, and what is summed in a part: blocks of it where
    it is one of the loops."""

    shape: ProductShape
    loops: tuple[Span, ...]
    summed: Span


def parted_sweep_of(shape: ProductShape) -> PartedSweep | None:
    """None where results are formed at once: of numbers that parts would be rounded to, too."""
    a, element, free = shape.a, shape.out.data_type, (*shape.c, *shape.m_outer)
    if not free or not has_adjacent_rows(shape, _SHORTEST_ROW_BYTES):
        return None
    if element.accumulator is not element:
        return None
    axes = outermost_first((*free, *shape.k), a)
    if not all(axis.stride(a.name) for axis in axes):
        return None
    if not comes_from_memory(a, (*axes, *some(shape.m))):
        return None
    last = max(axes.index(axis) for axis in free)
    outside = [axis for axis in axes[:last] if axis in shape.k]
    if not outside or comes_in_few_runs(axes[:last], shape.k):
        return None
    if outside[-1].stride(a.name) < _SHORTEST_RUN_BYTES:
        return None
    is_inside = last < len(axes) - 1
    summed = axes[-1] if is_inside else outside[-1]
    if summed.extent < _FEWEST:
        return None
    return PartedSweep(shape, axes[:-1] if is_inside else axes, summed)


def emit_parted_sweep(emission: Emission, parted: PartedSweep, machine: Machine) -> Body:
    """The nodes of a step that `parted_sweep_of` recognised."""
    shape = parted.shape
    assert shape.m is not None
    free = (*shape.c, *shape.m_outer)
    zero = emission.leaf(Operation.ZERO, (), shape.out.name, Roles(m=(*free, shape.m)))
    nest = partial(_nest, emission, parted, parted.summed)
    return zero + emit_in_memory_order(emission, parted.loops, free, shape.m, machine, nest)


def _nest(
    emission: Emission, parted: PartedSweep, summed: Span, loops: Sequence[Span], rows: Span
) -> Body:
    """Loops around the parts of some rows, each the sum along ``summed`` or a block of it."""
    shape = parted.shape
    if not loops:
        return emission.leaf(
            Operation.CONTRACTION,
            (shape.a.name, shape.b.name),
            shape.out.name,
            Roles(m=(rows,), k=(summed,)),
            data_type=shape.a.data_type,
        )
    first, *inside = loops
    if first is not parted.summed:
        return emission.loop(first, lambda _: _nest(emission, parted, summed, inside, rows))
    block = even_block(first.extent, _PART)
    return emission.blocks(first, block, lambda part: _nest(emission, parted, part, inside, rows))
