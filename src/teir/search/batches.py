"""Batches of small products, the batch outside: one leaf with all of them (role C).

[parallel pieces of the batch]
  zero; Contraction C=[batch] M=[m] N=[n] K=[k]
"""

from __future__ import annotations

from functools import partial

from teir.ir.nodes import Operation
from teir.passes.extents import even_block
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.shape import ProductShape, extent_of, some
from teir.search.step import Span

_MOST_PRODUCTS = 4096
"""Multiply-adds of one product that is small."""
_LONGEST_SIDE = 32
_FEWEST = 8
"""Products that make a batch."""
_CHUNKS = 4
"""Pieces per thread, so that an uneven machine still shares evenly."""


def is_small_batch(shape: ProductShape) -> bool:
    """True for many small products whose lanes are adjacent, each of at most one K axis."""
    if not shape.c or shape.m is None or shape.m_outer or shape.n_outer or len(shape.k) != 1:
        return False
    sides = (shape.m, *some(shape.n), *shape.k)
    return (
        shape.m.stride(shape.a.name) == shape.a.data_type.width
        and shape.m.stride(shape.out.name) == shape.out.data_type.width
        and max(axis.extent for axis in sides) <= _LONGEST_SIDE
        and extent_of(sides) <= _MOST_PRODUCTS
        and max(axis.extent for axis in shape.c) >= _FEWEST
    )


def emit_small_batch(emission: Emission, shape: ProductShape, machine: Machine) -> Body:
    """Loops over all batch axes but the longest, which is in the leaf."""
    assert shape.m is not None
    batch = max(shape.c, key=lambda axis: axis.extent)
    outer = tuple(axis for axis in shape.c if axis is not batch)
    work = extent_of((*shape.c, shape.m, *some(shape.n), *shape.k))
    is_shared = machine.threads > 1 and work >= machine.threaded_work
    piece = batch.extent
    if is_shared:
        piece = even_block(batch.extent, max(1, batch.extent // (_CHUNKS * machine.threads)))

    def pieces() -> Body:
        body = Body()
        for one in cut(batch, piece):
            assert one.tile is not None
            leaf = partial(_leaf, emission, shape, one.tile)
            body += emission.loops(one.loops, leaf, parallel=is_shared)
        return body

    return emission.loops(outer, pieces, parallel=is_shared)


def _leaf(emission: Emission, shape: ProductShape, batch: Span) -> Body:
    m, n = some(shape.m), some(shape.n)
    zero = emission.leaf(Operation.ZERO, (), shape.out.name, Roles(m=(batch, *n, *m)))
    return zero + emission.leaf(
        Operation.CONTRACTION,
        (shape.a.name, shape.b.name),
        shape.out.name,
        Roles(c=(batch,), m=m, n=n, k=shape.k),
        data_type=shape.a.data_type,
    )
