"""A vector times a matrix whose rows are adjacent: one leaf with the whole reduction.

    [parallel] batch axes and outer rows
      [parallel pieces of m]
        zero; Contraction M=[m] K=[k]

Nothing is read twice but the sums, so there is nothing to block for the caches.
"""

from __future__ import annotations

from functools import partial

from teir.ir.nodes import Operation
from teir.passes.extents import even_block
from teir.passes.parallelise import CHUNKS
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span

SHORTEST_ROW_BYTES = 1024


def is_sweep(shape: ProductShape) -> bool:
    """True for one column of products whose lanes are adjacent, with one K axis."""
    return len(shape.k) == 1 and has_adjacent_rows(shape, SHORTEST_ROW_BYTES)


def has_adjacent_rows(shape: ProductShape, least_bytes: int) -> bool:
    """True for one column of products whose lanes are adjacent, in A and in the result, and make
    rows of so many bytes at least."""
    if shape.m is None or shape.n is not None or shape.n_outer:
        return False
    width = shape.a.data_type.width
    return (
        shape.m.stride(shape.a.name) == width
        and shape.m.stride(shape.out.name) == shape.out.data_type.width
        and shape.m.extent * width >= least_bytes
    )


def emit_sweep(emission: Emission, shape: ProductShape, machine: Machine) -> Body:
    """Loops over all axes of the output but the rows."""
    assert shape.m is not None
    outer = (*shape.c, *shape.m_outer)
    work = extent_of((*outer, shape.m, *shape.k))
    is_shared = machine.threads > 1 and work >= machine.threaded_work
    piece = shape.m.extent
    if is_shared and extent_of(outer) < machine.threads:
        lanes = machine.lanes(shape.out.data_type.accumulator.width)
        fewest = SHORTEST_ROW_BYTES // shape.a.data_type.width
        piece = even_block(piece, max(fewest, piece // (CHUNKS * machine.threads)), lanes)
    body = Body()
    for one in cut(shape.m, piece):
        assert one.tile is not None
        leaf = partial(_leaf, emission, shape, one.tile)
        body += emission.loops((*outer, *one.loops), leaf, parallel=is_shared)
    return body


def _leaf(emission: Emission, shape: ProductShape, rows: Span) -> Body:
    zero = emission.leaf(Operation.ZERO, (), shape.out.name, Roles(m=(rows,)))
    return zero + emission.leaf(
        Operation.CONTRACTION,
        (shape.a.name, shape.b.name),
        shape.out.name,
        Roles(m=(rows,), k=shape.k),
        data_type=shape.a.data_type,
    )
